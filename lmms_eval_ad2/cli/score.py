"""`ad2 score BENCHMARK ANSWERS`: score answers in a benchmark's official files, from whatever program they are.

coda_lm: its three answer files, with any judge; the result is a run folder as of `ad2 eval`.
drivelm: the answer file of the challenge, scored as the challenge does; unscored parts have reasons.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.cli.judge_options import JudgeOptions
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.harness.answer_files import JoinedAnswers

UNITS = (
    "Units: accuracy, parsed_accuracy, bleu_*, rouge_l, language and final are fractions (0..1); cider is 0..10; "
    "match_f1, llm and match are 0..100, as in the challenge (docs/drivelm.md)."
)
# Counts of the questions behind a part of the table.
COUNTS = {"accuracy": "n_accuracy", "match_f1": "n_match", "llm": "n_llm", "match": "n_match", "final": ""}
TABLE = (
    "accuracy", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "language", "match_f1", "llm", "match",
    "final",
)  # fmt: skip
UNIT_OF = {"cider": "0..10", "match_f1": "0..100", "llm": "0..100", "match": "0..100"}  # others: 0..1
# Counts that are printed unless zero.
NOTES = {
    "n_missing": "questions have no answer in the file",
    "n_failed": "answers are failure texts of a run, not scored",
    "n_duplicate": "rows repeat an answer",
    "n_unknown": "answers have no question in the truth",
    "n_truth_not_offered": "questions offer options without the true one, so the choice is not scored",
    "n_untagged": "counted questions have no tag and are not scored",
    "n_empty_questions": "questions are empty and left out",
    "n_match_without_points": "match questions have no coordinates in their truth (F1 0, as in the challenge)",
}

# Options of one benchmark only, with the value that they have if they are not given.
OF_CODA = {
    "judge": None, "judge_repeats": None, "judge_images": False, "out": None, "split": "test", "lang": "en",
    "label": None,
}  # fmt: skip
OF_DRIVELM = {"truth": None, "tokenizer": "ptb", "json": False}


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(JudgeOptions):
    """`ad2 score`."""

    benchmark: Literal["coda_lm", "drivelm"] = option("benchmark of the answers", positional=True)
    answers: Path = option(
        "coda_lm: folder with one to three of general_perception_answer.jsonl, region_perception_answer.jsonl, "
        "driving_suggestion_answer.jsonl; drivelm: list of answers [{id, answer, ...}], or a submission with it as "
        "results",
        positional=True, metavar="DIR|OUTPUT.json",
    )  # fmt: skip
    out: Path | None = option(
        "coda_lm: folder of the run to write: samples and tables, as of ad2 eval", default=None, metavar="RUN"
    )
    truth: Path | None = option("drivelm: test file of the challenge, with tags", default=None, metavar="TEST.json")
    json: bool = option("drivelm: print one JSON object instead of the table", default=False)
    split: Literal["test", "val", "mini"] = option(
        "coda_lm: imported split of the answers (default: test)", default="test", expert=True
    )
    lang: Literal["en", "zh"] = option("coda_lm: language of the references (default: en)", default="en", expert=True)
    label: str | None = option(
        "coda_lm: name in tables (default: the name of DIR)", default=None, metavar="NAME", expert=True
    )
    tokenizer: Literal["ptb", "plain"] = option(
        "drivelm: ptb is the reference and needs Java; plain does not (default ptb)", default="ptb", expert=True
    )


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "score",
        run,
        ScoreOptions,
        help="score answers in a benchmark's official files: coda_lm, drivelm",
        epilog=f"drivelm: {UNITS}",
    )


def run(options: ScoreOptions) -> int:
    coda = options.benchmark == "coda_lm"
    for name, default in (OF_DRIVELM if coda else OF_CODA).items():
        if getattr(options, name) != default:
            raise Ad2Error(
                f"{name.replace('_', '-')}: an option of ad2 score {'drivelm' if coda else 'coda_lm'}; omit it"
            )
    needed = "out" if coda else "truth"
    if (path := getattr(options, needed)) is None:
        raise Ad2Error(f"ad2 score {options.benchmark}: --{needed} is required")
    return _score_coda_lm(options, path) if coda else _score_drivelm(options, path)


def _score_coda_lm(options: ScoreOptions, out: Path) -> int:
    from lmms_eval_ad2 import report
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
    score_answers(joined, out, lambda: make_judge(None, cache=out / "judge.sqlite"), label)
    show(tables.render(report.with_floors(report.load([out]))))
    show(f"scored {len(joined)} answer files into {out}; tables: ad2 report {out}")
    return 0


def _lines(options: ScoreOptions, joined: list[JoinedAnswers]) -> list[str]:
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


def _score_drivelm(options: ScoreOptions, truth: Path) -> int:
    from lmms_eval_ad2.scoring.drivelm_challenge import score_challenge

    answers = _load(options.answers)
    result = score_challenge(
        answers["results"] if isinstance(answers, dict) and "results" in answers else answers,
        _load(truth),
        tokenizer=options.tokenizer,
        answers_file=str(options.answers),
        truth_file=str(truth),
    )
    counts = result.counts
    if result.unknown and result.missing and counts["n_missing"] == counts["n_questions"]:
        raise Ad2Error(
            f"{options.answers}: none of its {counts['n_answers']} answers has the id of a question in "
            f"{truth}, such as {result.missing[0]}; found {result.unknown[0]}. Are they of another split?"
        )
    data = result.to_dict()
    print(json.dumps(data, ensure_ascii=False, indent=2) if options.json else _table(data))
    return 0


def _load(path: Path) -> Any:
    from lmms_eval_ad2.core.errors import DataError
    from lmms_eval_ad2.storage.untrusted_json import load

    try:
        return load(path, most=64 << 20)
    except OSError as exc:
        raise Ad2Error(f"cannot read {path}: {exc.strerror or exc}") from exc
    except ValueError as exc:
        raise DataError(path, None, "(file)", "UTF-8 JSON", str(exc)) from exc


def _table(data: Mapping[str, Any]) -> str:
    from lmms_eval_ad2.report.table import Table

    def value(name: str) -> str:
        return "-" if data[name] is None else f"{data[name]:.4f}"

    counts = {name: COUNTS.get(name, "n_language") for name in TABLE}
    rows = [(name, value(name), UNIT_OF.get(name, "0..1"), data[n] if n else "") for name, n in counts.items()]
    lines = [Table(("part", "value", "unit", "n"), rows, "lrlr").plain(), ""]
    reasons: dict[str, list[str]] = {}
    for name, why in data["unscored"].items():
        reasons.setdefault(f"{why['reason']}: {why['detail']}", []).append(name)
    lines += [f"not scored: {', '.join(names)} ({why})" for why, names in reasons.items()]
    n, skipped = data["n_questions"], data["n_skipped_by_walk"]
    lines.append(f"{n} questions, {data['n_answers']} answers; the walk counts {n - skipped} and skips {skipped}")
    lines.append(f"tokenizer of the language part: {data['tokenizer']}")
    lines += [f"{data[name]} {text}" for name, text in NOTES.items() if data[name]]
    if not data["chosen"]:
        return "\n".join(lines)
    # Choices as our parser reads them: exact equality rejects a right answer in other words.
    parts = (("", "accuracy questions of the walk"), ("_options", "all with options"), ("_yesno", "all yes/no"))
    totals = [
        (title, value(f"parsed_accuracy{suffix}"), data[f"n_parsed{suffix}"], data[f"n_unparsed{suffix}"])
        for suffix, title in parts
    ]
    right = {True: "yes", False: "no", None: "-"}
    choices = [
        (row["truth"], row["chosen"] or "-", right[row["correct"]], "yes" if row["in_walk"] else "no", row["id"],
         row["reason"] or "")
        for row in data["chosen"]
    ]  # fmt: skip
    lines += [
        "",
        "what the answers chose (read from their words, not by exact equality; not read counts as wrong)",
        Table(("questions", "accuracy", "read", "not read"), totals, "lrrr").plain(indent=2),
        "",
        Table(("truth", "chose", "right", "counts", "id", "not read because"), choices).plain(indent=2),
    ]
    return "\n".join(lines)
