"""`ad2 drivelm score`: compute the DriveLM challenge's score of an answer file; unscored parts have reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmms_eval_ad2.core.options import add_command, option

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


@dataclass(frozen=True, kw_only=True)
class DriveLmScoreOptions:
    """`ad2 drivelm score`."""

    answers: Path = option(
        "list of answers: [{id, answer, ...}], or a submission with it as results", metavar="OUTPUT.json",
        positional=True,
    )  # fmt: skip
    truth: Path = option("test file of the challenge", metavar="TEST.json")
    tokenizer: Literal["ptb", "plain"] = option(
        "ptb is the reference and needs Java; plain does not (default ptb)", default="ptb", expert=True
    )
    json: bool = option("print one JSON object instead of the table", default=False)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("drivelm", help="score answers as the DriveLM challenge does")
    commands = p.add_subparsers(dest="drivelm_command", metavar="COMMAND", required=True)
    add_command(
        commands,
        "score",
        run,
        DriveLmScoreOptions,
        help="score an answer file against a test file with tags",
        epilog=UNITS,
    )


def run(options: DriveLmScoreOptions) -> int:
    """Print the score and return 0; raises Ad2Error for files that cannot be read or do not belong together."""
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.scoring.drivelm_challenge import score_challenge

    answers = _load(options.answers)
    result = score_challenge(
        answers["results"] if isinstance(answers, dict) and "results" in answers else answers,
        _load(options.truth),
        tokenizer=options.tokenizer,
        answers_file=str(options.answers),
        truth_file=str(options.truth),
    )
    counts = result.counts
    if result.unknown and result.missing and counts["n_missing"] == counts["n_questions"]:
        raise Ad2Error(
            f"{options.answers}: none of its {counts['n_answers']} answers has the id of a question in "
            f"{options.truth}, such as {result.missing[0]}; found {result.unknown[0]}. Are they of another split?"
        )
    data = result.to_dict()
    print(json.dumps(data, ensure_ascii=False, indent=2) if options.json else _table(data))
    return 0


def _load(path: Path) -> Any:
    from lmms_eval_ad2.core.errors import Ad2Error, DataError
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
