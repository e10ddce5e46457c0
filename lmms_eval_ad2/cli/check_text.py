"""The text of `ad2 annotate summary`: results of a check of questions, or agreement between reviewers of texts."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.report.table import Table

_MOST_FLAGGED = 20  # questions listed in text; --json has all


def summary_lines(found: dict[str, Any]) -> list[str]:
    verdicts = ("correct", "ambiguous", "wrong")
    tasks = ", ".join(f"{task} {n}" for task, n in found["by_task"].items())
    lines = [f"{found['questions']} questions of {found['source']} {found['split']} (seed {found['seed']}): {tasks}"]
    rows = [
        (name, task, part["n"], *(_percent(part[key]) for key in ("accuracy", *verdicts)))
        for name, of_reviewer in found["reviewers"].items()
        for task, part in of_reviewer["results"].items()
    ]
    if not rows:
        return [*lines, "no question is finished yet"]
    headers = ("reviewer", "task", "finished", "solved % [95 %]", *(f"{name} %" for name in verdicts))
    lines += [Table(headers, rows, "llrllll").plain(), "the paper: nearly 100 % of perception and over 97.5 % of "
              "prediction and planning solved (section 4.1, 400 questions)"]  # fmt: skip
    lines += [f"{name}: {part['pending']} not finished" for name, part in found["reviewers"].items() if part["pending"]]
    if found["agreement"]["questions"]:
        agreed = found["agreement"]
        lines.append(f"verdicts by two or more: {agreed['questions']}, alpha {number(agreed['alpha'])} (nominal)")
    for row in found["flagged"][:_MOST_FLAGGED]:
        note = f": {' '.join(row['note'].split())[:200]}" if row["note"] else ""
        lines.append(f"{row['id']} ({row['reviewer']}): {row['verdict']}, {row['choice']} for {row['marked']}{note}")
    if (more := len(found["flagged"]) - _MOST_FLAGGED) > 0:
        lines.append(f"and {more} more (--json)")
    return lines


def _percent(part: dict[str, Any] | None) -> str:
    if part is None:
        return "-"
    interval = part["interval"]
    return f"{part['percent']:.1f}" + (f" [{interval[0]:.1f}, {interval[1]:.1f}]" if interval else "")


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def agreement_lines(found: dict[str, Any]) -> list[str]:
    scores, verdicts, changes = found["scores"], found["verdicts"], found["changes"]
    lines = ["finished: " + (", ".join(f"{reviewer} {n}" for reviewer, n in found["finished"].items()) or "none")]
    lines.append(
        f"scores ({found['scale'][0]}-{found['scale'][1]}): {scores['units']} texts, "
        f"{scores['units_by_two_or_more']} by two or more; Krippendorff's alpha "
        f"{number(scores['alpha_interval'])} (interval), {number(scores['alpha_ordinal'])} (ordinal)"
    )
    for name, part in (("keep / change / delete", verdicts), ("complete / incomplete", found["complete"])):
        lines.append(
            f"{name}: {part['units_by_two_or_more']} by two or more, {_share(part['same'])} of pairs alike, "
            f"alpha {number(part['alpha_nominal'])} (nominal)"
        )
    lines.append(
        f"changed by two or more: {changes['units_by_two_or_more']} texts, similarity {number(changes['similarity'])}"
    )
    for pair in found["pairs"]:
        kappa, rho, gap = (number(pair[name]) for name in ("kappa_quadratic", "spearman", "mean_difference"))
        lines.append(
            f"{' - '.join(pair['reviewers'])}: {pair['scores']} scores, weighted kappa {kappa} (quadratic), Spearman "
            f"{rho}, mean difference {gap}; {pair['verdicts']} verdicts, {_share(pair['same_verdict'])} alike"
        )
    return lines + _draft_lines(found["drafts"])


def _draft_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Our shares of accepted drafts, and below those of regions the paper's."""
    from lmms_eval_ad2.report import published

    lines = [
        f"drafts of {row['task']} by {row['author']}: {row['accepted']} of {row['reviewed']} reviews accepted them "
        f"unchanged ({_share(row['share'])})"
        for row in rows
    ]
    if any(row["task"] == "region" for row in rows):
        table = published.table("coda_lm", 4)
        figures = ", ".join(f"{row.labels['prompt']} {row.values['recall']:g} %" for row in table.rows)
        lines.append(f"  {table.source}: {figures} (GPT-4V, 100 images; its requirements are not defined)")
    return lines


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
