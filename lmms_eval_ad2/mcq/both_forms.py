"""Multiple-choice forms of AD2-Bench's open questions: options A to F added to the rows of a file (section A.1).

A to D are the answer and three distractors in an order by a stored seed, E is "none of the options matches", F "the
target is not in the image". The rows then have both forms (`ad2 data list ad2_bench --layout`). Rows that are not free
text, or have options, are copied unchanged.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.ad2_bench import records_of
from lmms_eval_ad2.data.releases.base import existing
from lmms_eval_ad2.data.releases.stream import rows
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.mcq.base import AcceptedQuestion, DistractorMaker, OpenQuestion, Outcome
from lmms_eval_ad2.storage.files import atomic_write

NONE_MATCHES = {"en": "None of the options matches", "zh": "以上选项均不符合"}  # option E
ABSENT = {"en": "The target is not in the image", "zh": "目标不在图像中"}  # option F
# The makers' tasks are those of AutoDrive-QA (section 3.3).
_TASKS = {"relation": "prediction", "reasoning": "planning"}


@dataclass(slots=True)
class OptionCounts:
    """Rows by outcome. rejected: by reason code. failed: the endpoint did not answer; the command can be repeated."""

    made: int = 0
    copied: int = 0
    failed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)


def add_options(source: Path, out: Path, maker: DistractorMaker, *, images: Path | None, seed: int) -> OptionCounts:
    """Write the rows of `source` (JSON lines or an array) to `out`, with options where the maker has made them.

    Raises DataError for the first row that `ad2 data import ad2_bench` would refuse, before anything is made; Ad2Error
    if `out` is the source, or if no request of the maker can succeed. An unfinished `out` is not left behind.
    """
    path, counts = existing(source, "annotation file"), OptionCounts()
    if out.exists() and out.samefile(path):
        raise Ad2Error(f"{out} is the file to read; name another file with --out")
    questions = [q for row in _rows(path) if (q := _question(row, images or path.parent)) is not None]
    made: dict[str, AcceptedQuestion] = {}

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, AcceptedQuestion):
            made[outcome.question.id] = outcome
        elif outcome.passing:
            counts.failed += 1
        else:
            counts.rejected[outcome.reason] += 1

    maker.make(_with_images(questions, counts), done)
    with atomic_write(out) as file:
        for row in _rows(path):
            accepted = made.get(row.string("id"))
            written = None if accepted is None else _with_options(row, accepted, seed, maker.label)
            counts.rejected["not_importable"] += accepted is not None and written is None
            counts.made += written is not None
            counts.copied += written is None
            print(json.dumps(written or row.data, ensure_ascii=False), file=file)
    counts.rejected = +counts.rejected
    return counts


def _rows(path: Path) -> Iterator[UntrustedRow]:
    for numbered in rows(path):
        if isinstance(numbered, DataError):
            raise numbered
        number, value = numbered
        yield UntrustedRow(value, path, number)


def _question(row: UntrustedRow, images: Path) -> OpenQuestion | None:
    """The open question of a row; None for one of another form, or with options. Raises DataError for a bad row."""
    record: Record = records_of(row)[0]
    if record.form != "vqa" or record.options:
        return None
    return OpenQuestion(
        id=record.id, record=record, source="records", task=_TASKS.get(record.task, "perception"),
        subtask=record.subtask, answer=record.answer.get("en"), image_root=images, scene=(record,),
    )  # fmt: skip


def _with_images(questions: Iterable[OpenQuestion], counts: OptionCounts) -> Iterator[OpenQuestion]:
    """The questions that a maker can be given: asked and answered in English, with their images."""
    for question in questions:
        if not (question.record.question.en and question.record.answer.en):
            counts.rejected["no_english"] += 1
        elif not all((question.image_root / name).is_file() for name in question.record.images):
            counts.rejected["image_missing"] += 1
        else:
            yield question


def _with_options(row: UntrustedRow, accepted: AcceptedQuestion, seed: int, maker: str) -> Mapping[str, Any] | None:
    """The row with options and letter; None if `ad2 data import ad2_bench` would refuse it."""
    answer = accepted.question.record.answer
    right = {lang: text for lang, text in (("en", answer.en), ("zh", answer.zh)) if text}
    texts = [right, *({"en": distractor.text} for distractor in accepted.distractors)]
    random.Random(f"{seed}:{accepted.question.id}").shuffle(texts)
    options: dict[str, Any] = dict(zip("ABCD", texts, strict=False)) | {"E": NONE_MATCHES, "F": ABSENT}
    letter = next(name for name, text in options.items() if text is right)
    meta = {**(row.get("meta") or {}), "options": {"maker": maker, "seed": seed, "correctness": accepted.correctness}}
    found = {**row.data, "options": options, "letter": letter, "meta": meta}
    try:
        json.dumps(found, ensure_ascii=False).encode()
        (record, *_) = records_of(UntrustedRow(found, row.file, row.row))
    except (UnicodeEncodeError, DataError):
        return None
    return found if set(record.forms) == {"mc", "vqa"} and len(record.options) == 6 else None
