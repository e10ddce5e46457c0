"""`ad2 judge`: rate a file of answers, compare ratings with human votes (CODA-LM, Table 7)."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.cli.judge_options import JudgeOptions, print_address
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import shortened, show

if TYPE_CHECKING:
    from lmms_eval_ad2.core.records import Unscored
    from lmms_eval_ad2.judge.agreement import By, JudgeAgreement

MOST_UNREAD = 0.1  # share of replies without a mark, above which a line warns of them


@dataclass(frozen=True, kw_only=True)
class JudgeRateOptions(JudgeOptions):
    """`ad2 judge rate`."""

    items: Path = option(metavar="ITEMS.jsonl", positional=True)
    out: Path = option("file of ratings to write", metavar="RATINGS.jsonl")
    cache: Path | None = option(
        "cache of an LLM judge's replies (default: RATINGS.jsonl.sqlite)", default=None, metavar="FILE", expert=True
    )


@dataclass(frozen=True, kw_only=True)
class JudgeAgreeOptions:
    """`ad2 judge agree`."""

    ratings: Path = option(metavar="RATINGS.jsonl", positional=True)
    human: Path = option(metavar="HUMAN.jsonl", positional=True)
    by: Literal["run", "mean-score"] = option(
        "the judge's winner if it has several runs: one in each run, and the shares are averaged (run, the default); "
        "or the higher mean mark over the runs (mean-score)",
        default="run",
    )
    json: bool = option("print JSON", default=False)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("judge", help="rate answers with a judge; compare its ratings with human votes")
    parts = p.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(parts, "rate", rate, JudgeRateOptions, help="rate a JSONL file of answers (format: docs/judge.md)")
    add_command(parts, "agree", agree, JudgeAgreeOptions, help="consistency of a judge with the human majority")


def rate(options: JudgeRateOptions) -> int:
    """Return 0 if at least one item is rated, else 1: a judge that gave no mark at all is a failure."""
    from lmms_eval_ad2.judge import JudgeRating, files, make_judge
    from lmms_eval_ad2.judge.base import repeats_of, sees_images
    from lmms_eval_ad2.report.cell_text import usage

    items = files.read_items(options.items)
    options.set_environment()
    judge = make_judge(None, cache=options.cache or options.out.with_name(options.out.name + ".sqlite"))
    print_address(judge)
    if sees_images(judge):
        items = files.with_images(items, options.items.parent)
    items = files.repeated(items, repeats_of(judge))
    results = judge.rate([item for item, _ in items])
    files.write_ratings(options.out, items, results, judge.label)
    marks = [r.score for r in results if isinstance(r, JudgeRating)]
    mean = f", mean {sum(marks) / len(marks):.2f}" if marks else ""
    show(f"{judge.label}: {len(marks)} of {len(results)} rated{mean} -> {options.out}")
    unscored = [r for r in results if not isinstance(r, JudgeRating)]
    for reason, count in Counter(u.reason for u in unscored).most_common():
        detail = next((u.detail for u in unscored if u.reason == reason and u.detail), "")
        show(f"  not rated: {count} {reason}" + (f" ({shortened(detail, 200)})" if detail else ""))
    show(f"  {usage(judge.usage)}")
    if warning := _unread_warning(judge.label, unscored, len(results)):
        show(warning, file=sys.stderr)
    if not marks:
        show(f"error: {judge.label} has rated no item; the reasons are above", file=sys.stderr)
    return 0 if marks else 1


def _unread_warning(judge: str, unscored: Sequence[Unscored], n: int) -> str:
    """A line with an example if many replies have no mark; "" otherwise."""
    from lmms_eval_ad2.judge.verdict import UNREAD

    unread = [one for one in unscored if one.reason in UNREAD]
    if len(unread) <= MOST_UNREAD * n:
        return ""
    shown = next((one for one in unread if one.detail), None)
    example = f", e.g. '{' '.join(shown.detail.split())[-120:]}' ({shown.reason})" if shown else ""
    return (
        f"warning: {len(unread)} of {n} replies of {judge} have no valid mark{example}: a mark is one number from 1 to "
        "10 in the form [[7]]. Such replies are not cached: the same command asks, and pays, again. Choose a judge "
        "that keeps to the form, or change its prompts (docs/judge.md)"
    )


def agree(options: JudgeAgreeOptions) -> int:
    from lmms_eval_ad2.judge import agreement, files

    found = agreement.compare(files.read_ratings(options.ratings), files.read_votes(options.human), options.by)
    print_agreement(found, options.by, options.json)
    return 0


def print_agreement(found: Mapping[str, JudgeAgreement], by: By, as_json: bool) -> None:
    tables = {task: {**_table(a), "by": by} for task, a in found.items()}
    if as_json:
        print(json.dumps(tables, indent=2))
        return
    for task, table in tables.items():
        show(f"{task}: " + _line(table))
    if any(task.rsplit("_", 1)[-1] in ("general", "region", "suggestion") for task in tables):
        show(_published_line())
    print("consistency: same winner as the human majority; the judge's ties and missing ratings count as misses")
    if by == "mean-score":
        print("the judge's winner has the higher mean mark over its runs")


def _published_line() -> str:
    from lmms_eval_ad2.report import published

    table = published.table("coda_lm", 7)
    rows = [
        f"{row.labels['judge']} " + ", ".join(f"{part} {x:g} %" for part, x in row.values.items() if x is not None)
        for row in table.rows
    ]
    return f"{table.source}: {'; '.join(rows)} (consistency with people, 100 samples per task)"


def _table(a: JudgeAgreement) -> dict[str, Any]:
    from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval

    interval = mean_interval(a.hits, clusters=a.clusters, bounds=FRACTION)
    return {
        "consistency": a.consistency,
        "ci": [interval.low, interval.high] if interval else None,
        "consistency_where_the_judge_decided": a.decided,
        "pairs": a.n_pairs,
        "pairs_with_a_human_winner": len(a.hits),
        "human_ties": a.human_ties,
        "judgements": a.n_judgements,
        "judge_ties": a.judge_ties,
        "unrated": a.unrated,
        "models": list(a.models),
        "spearman": a.spearman,
        "kendall_tau_b": a.kendall,
    }


def _line(table: dict[str, Any]) -> str:
    if table["consistency"] is None:
        return f"no pair with a human winner ({table['human_ties']} ties)"
    ci = f" (95% CI {100 * table['ci'][0]:.1f} to {100 * table['ci'][1]:.1f})" if table["ci"] else ""
    decided = table["consistency_where_the_judge_decided"]
    text = f"consistency {100 * table['consistency']:.1f}%{ci} over {table['pairs_with_a_human_winner']} pairs"
    text += f"; {100 * decided:.1f}% where the judge decided" if decided is not None else ""
    text += f"; {table['human_ties']} human ties, {table['judge_ties']} judge ties, {table['unrated']} unrated"
    if table["spearman"] is not None:
        text += f"; {len(table['models'])} models: Spearman {table['spearman']:.2f}"
        text += f", Kendall {table['kendall_tau_b']:.2f}"
    return text
