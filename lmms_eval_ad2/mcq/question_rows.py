"""From a made question to a row of `ad2 data schema autodrive_qa`: options shuffled by a stored seed."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from lmms_eval_ad2.data.releases.autodrive_qa import record_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.mcq.base import SELECTED, AcceptedQuestion, OpenQuestion

CORRECT = "correct"


def row_of(made: AcceptedQuestion, *, seed: int, maker: str, kind: str, split: str) -> dict[str, Any]:
    """One row of questions.jsonl.

    The order of the options depends on `seed` and the question's id alone, so that a question keeps its letter in every
    set that is made of it with one seed. Image paths begin with the source's name (OUT/images/<source>). `maker`: the
    maker's label; `kind`: what was asked of it; `split`: the source's split.
    """
    question = made.question
    record = question.record
    texts = [(question.answer, CORRECT, "")] + [(d.text, d.category, d.reason) for d in made.distractors]
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
    row["meta"] = {
        "source_id": question.id, "source_split": split, "distractors": kind, "maker": maker,
        "correctness": made.correctness, "rounds": made.rounds, "seed": seed,
        "reasons": {letter: reason for letter, _, _, reason in lettered if reason},
    }  # fmt: skip
    return row


def row_id(source: str, name: str) -> str:
    """Ids are unique within a source only. The same question has the same id in every set made of it."""
    return f"{source}:{name}"


def reference(question: OpenQuestion) -> str:
    """What an open answer is compared with: the source's own words; typed answers (yes/no, a number) as an option's."""
    record = question.record
    words = record.answer.get("en") if record.form in ("vqa", "mc") else ""
    return words or question.answer


def row_fault(row: Mapping[str, Any], distractors: Sequence[Any]) -> str | None:
    """Why the reader of `ad2 data import autodrive_qa` would refuse `row`, or None: what is built can be imported."""
    if len(distractors) != SELECTED:
        return f"{len(distractors)} distractors, expected {SELECTED}"
    try:
        # A text from a hostile JSON reply or file may hold half a surrogate pair, which no file can.
        json.dumps(row, ensure_ascii=False).encode()
        record_of(UntrustedRow(row, "questions.jsonl", None))
    except UnicodeEncodeError as exc:
        return f"text that is not Unicode: {exc.reason}"
    except DataError as exc:
        return str(exc)
    return None
