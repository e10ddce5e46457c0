"""Baseline models without a network: random answers, the most frequent answer, and the reference itself.

They answer from the records of the dataset and never open an image. Each answer depends only on the record, the task's
settings and (chance) the seed, not on order, batch or rank. They give the lower and upper bounds for tables, and test
that prompts, parsers and metrics are consistent.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

from lmms_eval.api.model import lmms

from lmms_eval_ad2.coordinates import InputResizing
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.harness.models.arguments import refuse_unknown, whole_number
from lmms_eval_ad2.harness.models.generation import failure
from lmms_eval_ad2.harness.task_files import variant_of
from lmms_eval_ad2.records import Form, Record, Value
from lmms_eval_ad2.scoring.reference_answers import chain, reference, written
from lmms_eval_ad2.scoring.sample import input_size
from lmms_eval_ad2.scoring.variant import TaskVariant

LARGEST_COUNT = 10


class BaselineModel(lmms):
    """Base class of the baselines. Model arguments: `seed` (used by chance); the batch size has no effect."""

    is_simple = True
    name = ""
    input_resizing = InputResizing()  # no image is opened, none is resized
    answers_in_frame = True  # its answers depend on the task's frame, whatever the prompt is
    batch_size = 1024  # answers per write of the journal; generation itself is not batched

    def __init__(
        self, seed: int = 0, batch_size: Any = None, max_batch_size: Any = None, device: Any = None, **unknown: Any
    ) -> None:
        super().__init__()
        refuse_unknown(self.name, unknown, ("seed", "batch_size", "max_batch_size", "device"))
        self.seed = whole_number(self.name, "seed", seed, 0)
        self._pools: dict[tuple[str, str], ReferencePools] = {}

    @property
    def device(self) -> Any:
        """The device of the process group, on which ranks gather their counts."""
        import torch

        accelerator = getattr(self, "accelerator", None)
        return accelerator.device if accelerator is not None else torch.device("cpu")

    def generate_until(self, requests: list[Any]) -> list[str]:
        return [self._answer_or_failure(request) for request in requests]

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        raise NotImplementedError(f"{self.name} generates text and has no likelihoods; use generate_until tasks")

    def generate_until_multi_round(self, requests: list[Any]) -> list[str]:
        raise NotImplementedError(f"{self.name} supports rounds in generate_until_agentic tasks only (ad2x_cot_rounds)")

    def _answer_or_failure(self, request: Any) -> str:
        """Return the answer; failure text if there is no other record to draw from (that record is Unscored)."""
        try:
            return self._answer(request)
        except NoOtherRecordError as exc:
            return failure(exc)

    def _answer(self, request: Any) -> str:
        _, settings, _, doc_id, task, split = request.args
        record = self._record(self.task_dict[task][split][doc_id], task)
        metadata = request.metadata or {}
        ours = metadata.get("ad2")
        variant = variant_of(ours, task) if ours else TaskVariant(record.benchmark, record.task)
        form = variant.asked_form(record.form)
        step = metadata.get("ad2_step", settings.get("ad2_step"))
        if form != "chain":
            value = self.value(record, form, 0, variant, task, split)
            size = input_size(record, variant, self.input_resizing)
            return written(value, form, variant.lang, variant.frame, record.image_size, size)
        if step is not None:
            return str(self.value(record, "chain", int(step), variant, task, split))
        if variant.rounds:
            raise Ad2Error(
                f"task {task}: asked in rounds, but the request does not contain the round (metadata 'ad2_step')"
            )
        steps = range(len(record.steps))
        return chain([str(self.value(record, "chain", i, variant, task, split)) for i in steps])

    def value(self, record: Record, form: Form, step: int, variant: TaskVariant, task: str, split: str) -> Value:
        """Return the answer to a question, or to one step of a chain, in the type of Answer.value."""
        raise NotImplementedError

    def pools(self, variant: TaskVariant, task: str, split: str) -> ReferencePools:
        """The references of a task, collected on first use."""
        key = (task, split)
        if key not in self._pools:
            rows = self.task_dict[task][split]
            self._pools[key] = ReferencePools((self._record(row, task) for row in rows), variant)
        return self._pools[key]

    def _record(self, doc: Mapping[str, Any], task: str) -> Record:
        try:
            return Record.from_json(doc["record"])
        except KeyError as exc:
            raise Ad2Error(f"{self.name} answers from the records of this package's tasks; {task} has none") from exc


class ChanceModel(BaselineModel):
    """Uniformly random answers: an offered letter, yes or no, a count of 0 to 10, a point or a box of the image.

    Free text, and each step of a chain: the reference of another record of the same sub-task.
    The corners of a box are uniform over the pixels; an image of unknown size gets the extent of the references.
    """

    name = "ad2_chance"

    def value(self, record: Record, form: Form, step: int, variant: TaskVariant, task: str, split: str) -> Value:
        rng = random.Random(f"{self.seed}|{record.id}|{form}|{step}")
        match form:
            case "mc":
                return rng.choice(offered(record))
            case "yesno":
                return rng.choice(record.words)
            case "count":
                return rng.randint(0, LARGEST_COUNT)
            case "point" | "box":
                size = record.image_size or self.pools(variant, task, split).extent(record, form)
                return random_point(rng, size) if form == "point" else random_box(rng, size)
        return self.pools(variant, task, split).draw_other(record, form, step, rng)


class MajorityModel(BaselineModel):
    """The most frequent reference of the same sub-task (among the offered letters); medians for points and boxes."""

    name = "ad2_majority"

    def value(self, record: Record, form: Form, step: int, variant: TaskVariant, task: str, split: str) -> Value:
        pools = self.pools(variant, task, split)
        if form in ("point", "box"):
            return pools.medians(record, form)
        return pools.most_common(record, form, step, offered(record) if form == "mc" else ())


class OracleModel(BaselineModel):
    """The reference itself, in the published answer format."""

    name = "ad2_oracle"

    def value(self, record: Record, form: Form, step: int, variant: TaskVariant, task: str, split: str) -> Value:
        value = reference(record, form, variant.lang, step)
        if value is None:  # invalid data, reported by scoring
            return "" if form == "chain" else record.answer.get(variant.lang)
        return value


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
            form = variant.asked_form(record.form)
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
        raise NoOtherRecordError(f"{record.id}: no other record has a {form} reference to draw from")

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
