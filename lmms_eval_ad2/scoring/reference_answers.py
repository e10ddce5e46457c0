"""Reference answers as values and text, pools of them, random answers to records, and the floor of a task's scores.

A random answer is uniform for letters, yes/no, counts, points and boxes. For free text, and each step of a chain, it is
the reference of another record of the same sub-task: an answer of the right kind to another question. A judge that
compares wording gives such answers a good part of its scale.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from lmms_eval_ad2.core.coordinates import Frame, Size, from_pixels
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Answer, Form, Lang, Record, Value
from lmms_eval_ad2.judge.base import Judge
from lmms_eval_ad2.scoring import pipeline
from lmms_eval_ad2.scoring.sample import reference_text, score_sample, target_of
from lmms_eval_ad2.scoring.variant import TaskVariant

WORDS: dict[Lang, dict[str, str]] = {"en": {}, "zh": {"yes": "是", "no": "否", "left": "左", "right": "右"}}
LARGEST_COUNT = 10
SEED = 0  # of the floor: the default of ad2_chance
WITHOUT_ANSWER = "[AD2_NO_OTHER_REFERENCE]"  # starts a reply that is read as Unscored (parsing/reasons.py)


def reference(record: Record, form: Form, lang: Lang, step: int = 0) -> Value | None:
    """Return the reference as a value (point and box in pixels); None if the record has no readable one."""
    if form == "chain":
        return record.steps[step].answer.get(lang) or None if step < len(record.steps) else None
    if form == "vqa":
        return reference_text(record, lang) or None
    if form == "ocr":
        return record.answer.get(lang) or None
    target = target_of(record, form, lang)
    return target.value if isinstance(target, Answer) else None


def written(
    value: Value, form: Form, lang: Lang, frame: Frame, size: Size | None, model_input: Size | None = None
) -> str:
    """Format `value` (Answer.value of `form`; points and boxes in pixels) as text; a string of a point or box is kept.

    `frame`: coordinate frame of the answer. It needs `size` (width, height) in pixels, "model_input" also that of the
    image as the model sees it; without them the numbers stay pixels.
    """
    if form == "yesno":
        return WORDS[lang].get(str(value), str(value))
    if isinstance(value, tuple) and form in ("point", "box"):
        pixels = [float(v) for v in value]
        numbers = [format(v, ".10g") for v in from_pixels(pixels, frame, size, model_input) or pixels]
        return f"<{','.join(numbers)}>" if form == "point" else f"<OUTPUT START>[{', '.join(numbers)}]<OUTPUT END>"
    return str(value)


def chain(steps: Sequence[str]) -> str:
    """Format all steps of a chain of thought for one turn, each in tags (AD2-Bench section 3.2)."""
    return "\n".join(f"<start{number}>{text}<end>" for number, text in enumerate(steps, 1))


class PoolKey(NamedTuple):
    """Key of a pool; "" for part or sub-task means all. Steps count from 0; only chains have several."""

    form: Form
    step: int
    part: str
    subtask: str


class PoolEntry(NamedTuple):
    id: str
    value: Value
    size: tuple[int, int] | None


class NoOtherRecordError(Exception):
    """There is no other record to draw a reference from."""


class ReferencePools:
    """References of one task by sub-task and form; `records` is read once.

    If a sub-task has too few records, the pool of the part is used, then that of the dataset. All entries of a pool
    have the same form (and step of a chain).
    """

    def __init__(self, records: Iterable[Record], variant: TaskVariant) -> None:
        self._entries: dict[PoolKey, list[PoolEntry]] = {}
        self._index: dict[PoolKey, dict[str, int]] = {}
        self._most_common: dict[tuple[PoolKey, tuple[Value, ...]], Value] = {}
        self._median_values: dict[PoolKey, tuple[tuple[float, ...], bool]] = {}
        for record in records:
            form = variant.asked_form(record)
            for step in range(len(record.steps) if form == "chain" else 1):
                value = reference(record, form, variant.lang, step)
                if value is None:
                    continue
                for key in _keys(record, form, step):
                    self._entries.setdefault(key, []).append(PoolEntry(record.id, value, record.image_size))
        for entries in self._entries.values():
            entries.sort(key=lambda e: e.id)  # answers must not depend on the order of the rows

    def draw_other(self, record: Record, form: Form, step: int, rng: random.Random) -> Value:
        """Return the reference of a random other record; raises NoOtherRecordError if the dataset has none."""
        for key in self._filled(record, form, step):
            entries = self._entries[key]
            if key not in self._index:
                self._index[key] = {e.id: i for i, e in enumerate(entries)}
            own = self._index[key].get(record.id, len(entries))
            others = len(entries) - (own < len(entries))
            if others:
                drawn = rng.randrange(others)
                return entries[drawn + (drawn >= own)].value
        raise NoOtherRecordError(f"{record.id}: no other record has a reference of form {form} to draw from")

    def most_common(self, record: Record, form: Form, step: int, offered: Iterable[Value] = ()) -> Value:
        """Return the most frequent reference (among `offered`, if given); ties go to the lexicographically smaller."""
        key = (self._first(record, form, step), tuple(offered))
        if key not in self._most_common:
            counts = Counter(e.value for e in self._entries[key[0]])
            self._most_common[key] = min(key[1] or tuple(counts), key=lambda value: (-counts[value], value))
        return self._most_common[key]

    def medians(self, record: Record, form: Form) -> tuple[float, ...]:
        """Return the median of each coordinate, in pixels of the record's image.

        Computed over fractions of the image size if all sizes are known, else over pixels.
        """
        key = self._first(record, form, 0)
        if key not in self._median_values:
            self._median_values[key] = _medians(self._entries[key])
        values, fractions = self._median_values[key]
        if not fractions:
            return values
        size = record.image_size or (1, 1)
        return tuple(v * size[axis % 2] for axis, v in enumerate(values))

    def extent(self, record: Record, form: Form) -> tuple[int, int]:
        """Return the smallest (width, height) that contains all references, for images of unknown size."""
        rows = [_numbers(e.value) for e in self._entries[self._first(record, form, 0)]]
        return int(max(max(r[0::2]) for r in rows)) + 1, int(max(max(r[1::2]) for r in rows)) + 1

    def _filled(self, record: Record, form: Form, step: int) -> Iterator[PoolKey]:
        return (key for key in _keys(record, form, step) if key in self._entries)

    def _first(self, record: Record, form: Form, step: int) -> PoolKey:
        key = next(self._filled(record, form, step), None)
        if key is None:
            raise Ad2Error(f"{record.id}: no record of the dataset has a readable {form} reference")
        return key


def _keys(record: Record, form: Form, step: int) -> tuple[PoolKey, PoolKey, PoolKey]:
    """The pools of a record, from the narrowest to the widest."""
    return (
        PoolKey(form, step, record.task, record.subtask),
        PoolKey(form, step, record.task, ""),
        PoolKey(form, step, "", ""),
    )


def _numbers(value: Value) -> list[float]:
    if not isinstance(value, tuple):
        raise TypeError(f"{value!r} is not a point or a box")
    return [float(v) for v in value]


def _medians(entries: list[PoolEntry]) -> tuple[tuple[float, ...], bool]:
    rows = [_numbers(e.value) for e in entries]
    sizes = [e.size for e in entries if e.size]
    fractions = len(sizes) == len(entries)
    if fractions:
        rows = [[v / size[axis % 2] for axis, v in enumerate(r)] for r, size in zip(rows, sizes, strict=True)]
    return tuple(median(column) for column in zip(*rows, strict=True)), fractions


def chance_value(record: Record, form: Form, step: int, seed: int, pools: ReferencePools) -> Value:
    """A random answer that depends only on the record, the form, the step of a chain, the seed and the pools.

    The corners of a box are uniform over the pixels; an image of unknown size gets the extent of the references.
    Raises NoOtherRecordError if there is no other reference to draw from.
    """
    rng = random.Random(f"{seed}|{record.id}|{form}|{step}")
    match form:
        case "mc":
            return rng.choice(offered(record))
        case "yesno":
            return rng.choice(record.words)
        case "count":
            return rng.randint(0, LARGEST_COUNT)
        case "point" | "box":
            size = record.image_size or pools.extent(record, form)
            return random_point(rng, size) if form == "point" else random_box(rng, size)
    return pools.draw_other(record, form, step, rng)


def offered(record: Record) -> tuple[str, ...]:
    """The letters of a multiple-choice record."""
    if not record.options:
        raise DataError(record.benchmark, record.id, "options", "at least one option of a multiple-choice record")
    return tuple(option.letter for option in record.options)


def random_point(rng: random.Random, size: tuple[int, int]) -> tuple[float, float]:
    """A point in whole pixels: values below 1 would be parsed as proportions of the image."""
    return float(rng.randrange(size[0])), float(rng.randrange(size[1]))


def random_box(rng: random.Random, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """A box in pixels, at least one pixel wide and high."""
    (x1, x2), (y1, y2) = (sorted((rng.randrange(length), rng.randrange(length))) for length in size)
    return float(x1), float(y1), float(x2 + 1), float(y2 + 1)


def chance_floor(
    records: Callable[[], Iterable[Record]], task: str, variant: TaskVariant, judge: Judge
) -> dict[str, Any]:
    """The table of a task (scoring/pipeline.py) for random answers to `records`, which is called twice.

    References are drawn from these records alone; a record without another reference to draw from is Unscored. Points
    and boxes are in pixels, whatever the frame of the task is. Without n-gram metrics.
    """
    pixels = replace(variant, frame="pixel", model_input="", captions=())
    pools = ReferencePools(records(), pixels)
    asked = (score_sample(record, _answer(record, pixels, pools), pixels, task) for record in records())
    table, _ = pipeline.score_task(asked, task, pixels, lambda: judge, None, progress=False)
    return {**table, "variant": variant.changes(), "coordinates": {}}


def _answer(record: Record, variant: TaskVariant, pools: ReferencePools) -> str | list[str]:
    form = variant.asked_form(record)
    try:
        if form != "chain":
            value = chance_value(record, form, 0, SEED, pools)
            return written(value, form, variant.lang, variant.frame, record.image_size)
        steps = [str(chance_value(record, form, step, SEED, pools)) for step in range(len(record.steps))]
    except NoOtherRecordError as exc:
        return f"{WITHOUT_ANSWER} {exc}"
    return steps if variant.rounds else chain(steps)
