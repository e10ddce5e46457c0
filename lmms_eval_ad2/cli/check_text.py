"""The text of `ad2 annotate summary`: results of a check of questions by reviewers."""

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
