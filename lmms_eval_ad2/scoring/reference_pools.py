"""Pools of references: the answers that the chance and majority baselines draw from."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median
from typing import NamedTuple

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Form, Record, Value
from lmms_eval_ad2.scoring.reference_answers import reference
from lmms_eval_ad2.scoring.variant import TaskVariant


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
                if value is not None:
                    self._add(record, form, step, PoolEntry(record.id, value, record.image_size))
        for entries in self._entries.values():
            entries.sort(key=lambda e: e.id)  # answers must not depend on the order of the rows

    def _add(self, record: Record, form: Form, step: int, entry: PoolEntry) -> None:
        for key in _keys(record, form, step):
            self._entries.setdefault(key, []).append(entry)

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
