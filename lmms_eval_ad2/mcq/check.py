"""Quality check of a set of multiple-choice questions: faulty rows, duplicates, biases, ratings.

The measures are in biases.py and model_checks.py. `check` returns a JSON-able report, schema
"ad2-mcq-check/2":

    {"schema", "data": {"name", "split", "sha256", "n", "invalid", "invalid_rows", "not_multiple_choice"},
     "duplicates": {"questions": [{"ids", "answers_differ"}], "options": [{"id", "letters"}]},
     "faults": {"n", "by_code", "by_kind", "rows": [{"id", "letter", "kind", "code", "text"}]},
     "balance", "position", "length": {"all", "by_task"},
     "attacks": {"by_attack": {name: {"all", "polar", "others"}}, "best", "polar": {"n", "alone"}},
     "stored_correctness": {"all", "by_task"}, "text_only": null | {...}, "correctness": null | {...},
     "warnings": ["..."], "found": 3}

found: number of rows to fix (invalid, duplicate, faulty); warnings: biases above the stated thresholds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import open_dataset
from lmms_eval_ad2.data.home.dataset import splits_of
from lmms_eval_ad2.data.releases import find_release
from lmms_eval_ad2.data.releases.autodrive_qa import NAIVE
from lmms_eval_ad2.data.releases.base import BadRow, Item
from lmms_eval_ad2.mcq import biases
from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.biases import ALPHA, ATTACKS, attacks
from lmms_eval_ad2.mcq.faults import FAULTS, fault, repeats
from lmms_eval_ad2.mcq.wording import normal

SCHEMA = "ad2-mcq-check/2"
RATIO = 1.25  # warn if the right option is longer or shorter than the wrong ones by more than this factor
SHOWN = 200  # rows listed in the report; all are counted


@dataclass(slots=True)
class QuestionSet:
    """A set that was read. Image paths are relative to `image_root`; `other` counts records without options."""

    name: str
    split: str
    image_root: Path
    sha256: str = ""
    records: list[Record] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    other: int = 0

    def take(self, items: Iterable[Item]) -> None:
        """Add the multiple-choice records, and the errors of rows that could not be read."""
        ids: set[str] = set()
        for item in items:
            if isinstance(item, BadRow):
                self.invalid.append(str(item.error))
            elif isinstance(item, Record) and item.id in ids:
                self.invalid.append(f"{self.name}: id {item.id!r} is used more than once")
            elif isinstance(item, Record) and len(item.options) > 1 and item.letter in {o.letter for o in item.options}:
                self.records.append(item)
                ids.add(item.id)
            else:
                self.other += 1


def read(source: str, *, split: str | None = None, images: Path | None = None) -> QuestionSet:
    """Read a file in the schema of autodrive_qa, or an imported dataset.

    Raises Ad2Error if `source` is neither, or has no multiple-choice question.
    """
    path = Path(source)
    if path.is_file():
        opened = find_release("autodrive_qa").open(path, split=split, images=images, options={})
        found = QuestionSet(path.name, opened.split, opened.image_root)
        found.take(opened.records())
    elif "/" in source or path.suffix:
        raise Ad2Error(f"no such file: {source}")
    else:
        splits = splits_of(source)
        if split is None and len(splits) > 1:
            raise Ad2Error(f"{source} has several splits: name one with --config split=SPLIT ({', '.join(splits)})")
        dataset = open_dataset(source, split or (splits[0] if splits else "test"))
        found = QuestionSet(source, dataset.split, images or dataset.image_root, dataset.sha256)
        found.take(dataset.records())
    if not found.records and not found.invalid:
        raise Ad2Error(f"{source}: no multiple-choice question in it ({found.other} records of other forms)")
    return found


def check(questions: QuestionSet, *, progress: bool = True) -> dict[str, Any]:
    """Report of all checks that need no model. The caller adds the results of models and `warnings`."""
    records = questions.records
    asked_twice, alike = duplicate_questions(records), duplicate_options(records)
    faults = find_faults(questions, progress=progress)
    return {
        "schema": SCHEMA,
        "data": {
            "name": questions.name, "split": questions.split, "sha256": questions.sha256, "n": len(records),
            "invalid": len(questions.invalid), "invalid_rows": questions.invalid[:SHOWN],
            "not_multiple_choice": questions.other,
        },
        "duplicates": {"questions": asked_twice, "options": alike}, "faults": faults,
        "balance": biases.balance(records), "position": biases.position(records),
        "length": {"all": biases.length(records), "by_task": {
            task: biases.length(part) for task, part in by_task(records).items()
        }},
        "attacks": attacks(records), "stored_correctness": _stored(records),
        "text_only": None, "correctness": None,
        "found": len(questions.invalid) + sum(len(one["ids"]) - 1 for one in asked_twice) + len(alike) + faults["n"],
    }  # fmt: skip


def by_task(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of each task, in the order in which tasks appear."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record.task].append(record)
    return dict(found)


def as_question(record: Record, image_root: Path) -> OpenQuestion:
    """The open question behind a multiple-choice record; its open answer, if any, becomes a second reference."""
    written = record.answer.get("en")
    meta = {**record.meta, "references": [written]} if written else dict(record.meta)
    source = str(record.meta.get("source", record.benchmark))
    question = replace(record, meta=meta)
    right, subtask = _right(record), record.subtask
    return OpenQuestion(record.id, question, source, record.task, subtask=subtask, answer=right, image_root=image_root)


def duplicate_questions(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Questions with equal text, images and mark, and whether their right options differ."""
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        groups[normal(record.question.get("en")), record.images, record.mark.coords].append(record)
    return [
        {"ids": [r.id for r in part], "answers_differ": len({normal(_right(r)) for r in part}) > 1}
        for part in groups.values()
        if len(part) > 1
    ]


def _right(record: Record) -> str:
    return biases.texts_of(record)[biases.right_place(record)]


def duplicate_options(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Pairs of wrong options of one question that make the same claim."""
    found = []
    for record in records:
        question = as_question(record, Path())
        wrong = [option for option in record.options if option.letter != record.letter]
        found += [
            {"id": record.id, "letters": [first.letter, second.letter]}
            for first, second in combinations(wrong, 2)
            if repeats(first.text.get("en"), [second.text.get("en")], question)
        ]
    return found


def find_faults(questions: QuestionSet, *, progress: bool = True) -> dict[str, Any]:
    """Wrong options that `ad2 mcq build` would refuse (mcq/faults.py)."""
    rows, codes, kinds = [], Counter[str](), Counter[str]()
    for record in tqdm(questions.records, desc="options", unit="question", disable=None if progress else True):
        question = as_question(record, questions.image_root)
        for option in record.options:
            text = option.text.get("en")
            code = fault(text, question) if option.letter != record.letter else None
            if code and (code, option.kind) != ("no_verdict", NAIVE):  # a text that answers no question at all
                codes[code] += 1
                kinds[option.kind] += 1
                rows.append({"id": record.id, "letter": option.letter, "kind": option.kind, "code": code, "text": text})
    return {
        "n": len(rows), "by_code": dict(codes.most_common()), "by_kind": dict(kinds.most_common()),
        "meaning": {code: FAULTS[code] for code in codes}, "rows": rows[:SHOWN],
    }  # fmt: skip


def _stored(records: Sequence[Record]) -> dict[str, Any]:
    """The evaluator's ratings stored by the build, if it had an evaluator."""
    values = {task: [r.meta.get("correctness") for r in part] for task, part in by_task(records).items()}
    ratings = {task: [value for value in part if is_whole(value, 1, 5)] for task, part in values.items()}
    return {
        "all": spread([rating for part in ratings.values() for rating in part]),
        "by_task": {task: spread(part) for task, part in ratings.items()},
    }


def spread(ratings: Sequence[int]) -> dict[str, Any]:
    """Mean and distribution of ratings from 1 to 5."""
    counts = Counter(ratings)
    return {
        "n": len(ratings), "mean": round(sum(ratings) / len(ratings), 4) if ratings else None,
        "counts": {str(rating): counts[rating] for rating in range(1, 6)},
    }  # fmt: skip


def warnings(report: dict[str, Any]) -> list[str]:
    """Biases above the thresholds, one sentence each."""
    found = []
    length, position = report["length"]["all"], report["position"]
    for name, what in (("choose_longest", "longest"), ("choose_shortest", "shortest")):
        comparison = length.get(name)
        if comparison and comparison["above_chance"]:
            found.append(f"the right option is the {what} too often: choosing it scores {comparison_text(comparison)}")
    if length["n"] and not 1 / RATIO <= length["ratio"] <= RATIO:
        found.append(f"the right option is {length['ratio']:.2f} times as long as the wrong ones (threshold {RATIO})")
    if position.get("p_value") is not None and position["p_value"] < ALPHA:
        found.append(f"the right letter is not evenly spread: {position['counts']} (p {position['p_value']:.2g})")
    for name, what in ATTACKS.items():
        comparison = report["attacks"]["by_attack"][name]["all"]
        if name not in ("longest", "shortest") and comparison and comparison["above_chance"]:
            found.append(f"answered without image and question by choosing {what}: {comparison_text(comparison)}")
    polar = report["attacks"]["polar"]
    if 2 * polar["alone"] > polar["n"]:
        found.append(
            f"in {polar['alone']} of {polar['n']} yes-or-no questions the right option is the only one with its verdict"
        )
    asked = report["text_only"]
    if asked and asked["all"] and asked["all"]["above_chance"]:
        found.append(f"answerable without the image by {asked['model']}: {comparison_text(asked['all'])}")
    return found


def comparison_text(comparison: dict[str, Any]) -> str:
    """A comparison with chance as text: "41.0 % (95 % 38.2 to 43.9, chance 25.0 %, p 1e-05)"."""
    accuracy, chance, low, high = (100 * x for x in (comparison["accuracy"], comparison["chance"], *comparison["ci"]))
    p_value = comparison["p_value"]
    return f"{accuracy:.1f} % (95 % {low:.1f} to {high:.1f}, chance {chance:.1f} %, p {p_value:.2g})"
