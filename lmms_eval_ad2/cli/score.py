"""`ad2 score coda_lm DIR`: score answers in CODA-LM's official files, from whatever program they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.cli.judge_options import JudgeOptions
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.harness.answer_files import JoinedAnswers


@dataclass(frozen=True, kw_only=True)
class ScoreCodaOptions(JudgeOptions):
    """`ad2 score coda_lm`."""

    answers: Path = option(
        "folder with one to three of general_perception_answer.jsonl, region_perception_answer.jsonl, "
        "driving_suggestion_answer.jsonl",
        positional=True, metavar="DIR",
    )  # fmt: skip
    out: Path = option("folder of the run to write: samples and tables, as of ad2 eval", metavar="RUN")
    split: Literal["test", "val", "mini"] = option(
        "imported split of the answers (default: test)", default="test", expert=True
    )
    lang: Literal["en", "zh"] = option("language of the references (default: en)", default="en", expert=True)
    label: str | None = option("name in tables (default: the name of DIR)", default=None, metavar="NAME", expert=True)


def register(subparsers: Any) -> None:
    parser = subparsers.add_parser("score", help="score answers in a benchmark's official files")
    actions = parser.add_subparsers(dest="action", metavar="BENCHMARK", required=True)
    add_command(actions, "coda_lm", run_coda_lm, ScoreCodaOptions, help="CODA-LM's three answer files, with any judge")


def run_coda_lm(options: ScoreCodaOptions) -> int:
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.harness.answer_files import join_answers, score_answers
    from lmms_eval_ad2.judge import check_judge, make_judge
    from lmms_eval_ad2.report import tables

    if not options.answers.is_dir():
        raise Ad2Error(f"{options.answers}: no such folder; name the folder with CODA-LM's answer files")
    options.set_environment()
    check_judge(None)
    joined = join_answers(options.answers, options.split, options.lang)
    show("\n".join(_lines(options, joined)), flush=True)
    label = options.label or options.answers.resolve().name
    score_answers(joined, options.out, lambda: make_judge(None, cache=options.out / "judge.sqlite"), label)
    show(tables.render(report.with_floors(report.load([options.out]))))
    show(f"scored {len(joined)} answer files into {options.out}; tables: ad2 report {options.out}")
    return 0


def _lines(options: ScoreCodaOptions, joined: list[JoinedAnswers]) -> list[str]:
    """What each file contains, and which files are absent."""
    from lmms_eval_ad2.data.releases.coda_answers import FILES

    found = []
    for one in joined:
        counts = one.counts
        notes = {
            f"of {counts.records} records have no answer: not scored, the lowest mark in the strict score": (
                counts.records - counts.answered
            ),
            f"rows match no record, e.g. {', '.join(counts.examples)}": counts.unknown,
            f"rows repeat an image, {counts.differing} with another answer: the first row counts": counts.repeated,
            "answers are failure texts of a run: not scored, the lowest mark in the strict score": counts.failed,
        }
        found.append(f"{counts.file}: {counts.rows} rows, answers to {counts.answered} of {counts.records} records")
        found += [f"  {number} {text}" for text, number in notes.items() if number]
    there = {one.counts.file for one in joined}
    return found + [f"{name}: not in {options.answers}; its task is left out" for name in FILES.values()
                    if name not in there]  # fmt: skip
