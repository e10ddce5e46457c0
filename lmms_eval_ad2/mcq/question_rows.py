"""Rows of `ad2 data schema autodrive_qa`, made of accepted questions; options are shuffled by a stored seed."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.data.releases.autodrive_qa import record_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.mcq.base import SELECTED, AcceptedQuestion, OpenQuestion
from lmms_eval_ad2.mcq.evidence import objects_of
from lmms_eval_ad2.mcq.wording import verdict

CORRECT = "correct"


def row_of(accepted: AcceptedQuestion, *, seed: int, maker: str, kind: str, split: str) -> dict[str, Any]:
    """Build one row of questions.jsonl.

    The order of the options depends only on `seed` and the question's id, so that the right option has the same letter
    in every set made with one seed. Image paths begin with the source's name (OUT/images/<source>). `maker`: the
    maker's label; `kind`: the requested kind of distractors; `split`: the source's split.
    """
    question = accepted.question
    record = question.record
    texts = [(question.answer, CORRECT, "")] + [(d.text, d.category, d.reason) for d in accepted.distractors]
    operations = {d.text: d.operation for d in accepted.distractors if d.operation}
    random.Random(f"{seed}:{question.id}").shuffle(texts)
    lettered = [(chr(ord("A") + place), *text) for place, text in enumerate(texts)]
    row: dict[str, Any] = {
        "id": row_id(question.source, question.id), "task": question.task, "subtask": question.subtask,
        "source": question.source, "question": question.text,
        "options": [{"letter": letter, "text": text, "kind": what} for letter, text, what, _ in lettered],
        "answer": next(letter for letter, _, what, _ in lettered if what == CORRECT),
        "images": [f"{question.source}/{image}" for image in record.images], "open_answer": reference(question),
        "cluster": f"{question.source}:{record.cluster or record.images[0]}",
    }  # fmt: skip
    if record.views:
        row["views"] = list(record.views)
    if record.image_size:
        row["image_size"] = list(record.image_size)
    if objects := objects_of(question):
        row["objects"] = [one.row() for one in objects]
    row["meta"] = {
        "source_id": question.id, "source_split": split, "distractors": kind, "maker": maker,
        "correctness": accepted.correctness, "rounds": accepted.rounds, "seed": seed,
        "reasons": {letter: reason for letter, _, _, reason in lettered if reason},
    }  # fmt: skip
    if operations:
        row["meta"]["operations"] = {letter: operations[text] for letter, text, *_ in lettered if text in operations}
    if verdict(question.answer):
        row["meta"]["polar"] = True
    return row


def row_id(source: str, name: str) -> str:
    """The row's id: ids are unique only within a source. A question has the same id in every set."""
    return f"{source}:{name}"


def reference(question: OpenQuestion) -> str:
    """Reference for open answers: the source's text; for typed answers (yes/no, a number) the text of the option."""
    record = question.record
    words = record.answer.get("en") if record.form in ("vqa", "mc") else ""
    return words or question.answer


def row_fault(row: Mapping[str, Any], distractors: Sequence[Any]) -> str | None:
    """Why `ad2 data import autodrive_qa` would refuse `row`, or None: every row of a built set can be imported."""
    if len(distractors) != SELECTED:
        return f"{len(distractors)} distractors, expected {SELECTED}"
    try:
        # Text from an untrusted reply or file may contain an unpaired surrogate, which cannot be written as UTF-8.
        json.dumps(row, ensure_ascii=False).encode()
        record_of(UntrustedRow(row, "questions.jsonl", None))
    except UnicodeEncodeError as exc:
        return f"text that is not Unicode: {exc.reason}"
    except DataError as exc:
        return str(exc)
    return None
