"""The references of a task, by sub-task and form: what chance draws from and what the majority is counted over.

An entry of a pool belongs to one record. Where a sub-task has too few records, the pool of the whole
part serves, then that of the whole dataset; the form (and the step of a chain) is always the same.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median
from typing import NamedTuple

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.records import Form, Record, Value
from lmms_eval_ad2.scoring.variant import Variant
from lmms_eval_ad2.scoring.written import reference


class Key(NamedTuple):
    """Which pool; "" for part or sub-task means all of them. Steps count from 0; everything but chains is step 0."""

    form: Form
    step: int
    part: str
    subtask: str


class Entry(NamedTuple):
    id: str
    value: Value
    size: tuple[int, int] | None


class NoOther(Exception):
    """There is no other record to draw a reference from: this one cannot be answered by chance."""


class Pools:
    """All references of one task; `records` is read once."""

    def __init__(self, records: Iterable[Record], variant: Variant) -> None:
        self._entries: dict[Key, list[Entry]] = {}
        self._place: dict[Key, dict[str, int]] = {}
        self._winner: dict[tuple[Key, tuple[Value, ...]], Value] = {}
        self._middle: dict[Key, tuple[tuple[float, ...], bool]] = {}
        for record in records:
            form = variant.asked_form(record.form)
            for step in range(len(record.steps) if form == "chain" else 1):
                value = reference(record, form, variant.lang, step)
                if value is not None:
                    self._add(record, form, step, Entry(record.id, value, record.image_size))
        for entries in self._entries.values():
            entries.sort(key=lambda e: e.id)  # an answer must not depend on the order of the rows

    def _add(self, record: Record, form: Form, step: int, entry: Entry) -> None:
        for key in _keys(record, form, step):
            self._entries.setdefault(key, []).append(entry)

    def another(self, record: Record, form: Form, step: int, rng: random.Random) -> Value:
        """The reference of a random record other than `record`; NoOther if the dataset has none."""
        for key in self._filled(record, form, step):
            entries = self._entries[key]
            if key not in self._place:
                self._place[key] = {e.id: i for i, e in enumerate(entries)}
            own = self._place[key].get(record.id, len(entries))
            others = len(entries) - (own < len(entries))
            if others:
                drawn = rng.randrange(others)
                return entries[drawn + (drawn >= own)].value
        raise NoOther(f"{record.id}: no other record has a {form} reference to draw from")

    def most_common(self, record: Record, form: Form, step: int, offered: Iterable[Value] = ()) -> Value:
        """The most frequent reference (among `offered` where given); ties go to the smaller in lexicographic order."""
        key = (self._first(record, form, step), tuple(offered))
        if key not in self._winner:
            counts = Counter(e.value for e in self._entries[key[0]])
            self._winner[key] = min(key[1] or tuple(counts), key=lambda value: (-counts[value], value))
        return self._winner[key]

    def middle(self, record: Record, form: Form) -> tuple[float, ...]:
        """The median of each coordinate, in pixels of the record's image.

        Taken over fractions of the image where every image's size is known, else over pixels.
        """
        key = self._first(record, form, 0)
        if key not in self._middle:
            self._middle[key] = _medians(self._entries[key])
        values, fractions = self._middle[key]
        if not fractions:
            return values
        size = record.image_size or (1, 1)
        return tuple(v * size[axis % 2] for axis, v in enumerate(values))

    def extent(self, record: Record, form: Form) -> tuple[int, int]:
        """(width, height) that holds every reference: the stand-in for an image size that the dataset lacks."""
        rows = [_numbers(e.value) for e in self._entries[self._first(record, form, 0)]]
        return int(max(max(r[0::2]) for r in rows)) + 1, int(max(max(r[1::2]) for r in rows)) + 1

    def _filled(self, record: Record, form: Form, step: int) -> Iterator[Key]:
        return (key for key in _keys(record, form, step) if key in self._entries)

    def _first(self, record: Record, form: Form, step: int) -> Key:
        key = next(self._filled(record, form, step), None)
        if key is None:
            raise Ad2Error(f"{record.id}: no record of the dataset has a readable {form} reference")
        return key


def _keys(record: Record, form: Form, step: int) -> tuple[Key, Key, Key]:
    """From the narrowest pool to the widest."""
    return (
        Key(form, step, record.task, record.subtask),
        Key(form, step, record.task, ""),
        Key(form, step, "", ""),
    )


def _numbers(value: Value) -> list[float]:
    if not isinstance(value, tuple):
        raise TypeError(f"{value!r} is not a point or a box")
    return [float(v) for v in value]


def _medians(entries: list[Entry]) -> tuple[tuple[float, ...], bool]:
    rows = [_numbers(e.value) for e in entries]
    sizes = [e.size for e in entries if e.size]
    fractions = len(sizes) == len(entries)
    if fractions:
        rows = [[v / size[axis % 2] for axis, v in enumerate(r)] for r, size in zip(rows, sizes, strict=True)]
    return tuple(median(column) for column in zip(*rows, strict=True)), fractions
