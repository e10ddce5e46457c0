"""Models without a network: what chance, the commonest answer and the reference itself would score.

They answer from the dataset's records and never open an image. Each answer depends on the record, the
task's settings and (chance) the seed alone: not on order, batch or rank. They are the floor and the
ceiling that a table needs beside real models, and the check that prompts, parsers and metrics agree.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from lmms_eval.api.model import lmms

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.harness.models.arguments import refuse_unknown, whole_number
from lmms_eval_ad2.harness.models.pools import NoOther, Pools
from lmms_eval_ad2.harness.models.prompting import failure
from lmms_eval_ad2.records import Form, Record, Value
from lmms_eval_ad2.scoring.variant import Variant
from lmms_eval_ad2.scoring.written import chain, reference, written

LARGEST_COUNT = 10


class Baseline(lmms):
    """What the three share. Model arguments: `seed` (used by chance); the batch size plays no part."""

    is_simple = True
    name = ""
    batch_size = 1024  # answers saved in one go by the journal; there is nothing to batch

    def __init__(
        self, seed: int = 0, batch_size: Any = None, max_batch_size: Any = None, device: Any = None, **unknown: Any
    ) -> None:
        super().__init__()
        refuse_unknown(self.name, unknown, ("seed", "batch_size", "max_batch_size", "device"))
        self.seed = whole_number(self.name, "seed", seed, 0)
        self._pools: dict[tuple[str, str], Pools] = {}

    @property
    def device(self) -> Any:
        """Where ranks gather their counts: the process group's own device."""
        import torch

        accelerator = getattr(self, "accelerator", None)
        return accelerator.device if accelerator is not None else torch.device("cpu")

    def generate_until(self, requests: list[Any]) -> list[str]:
        return [self._answer_or_why(request) for request in requests]

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        raise NotImplementedError(f"{self.name} writes answers and has no likelihoods; use generate_until tasks")

    def generate_until_multi_round(self, requests: list[Any]) -> list[str]:
        raise NotImplementedError(
            f"{self.name} answers rounds as generate_until_agentic tasks ask them (ad2x_cot_rounds)"
        )

    def _answer_or_why(self, request: Any) -> str:
        """The answer; where nothing can be drawn from, failure text: that record is unscored, and the run goes on."""
        try:
            return self._answer(request)
        except NoOther as exc:
            return failure(exc)

    def _answer(self, request: Any) -> str:
        _, settings, _, doc_id, task, split = request.args
        record = self._record(self.task_dict[task][split][doc_id], task)
        metadata = request.metadata or {}
        ours = metadata.get("ad2")
        variant = Variant.from_dict(ours, f"task {task}") if ours else Variant(record.benchmark, record.task)
        form = variant.asked_form(record.form)
        step = metadata.get("ad2_step", settings.get("ad2_step"))
        if form != "chain":
            value = self.value(record, form, 0, variant, task, split)
            return written(value, form, variant.lang, variant.frame, record.image_size)
        if step is not None:
            return str(self.value(record, "chain", int(step), variant, task, split))
        if variant.rounds:
            raise Ad2Error(f"task {task}: asked in rounds, but the request does not say which (metadata 'ad2_step')")
        steps = range(len(record.steps))
        return chain([str(self.value(record, "chain", i, variant, task, split)) for i in steps])

    def value(self, record: Record, form: Form, step: int, variant: Variant, task: str, split: str) -> Value:
        """The answer to one question, or to one step of a chain, as Answer.value has it."""
        raise NotImplementedError

    def pools(self, variant: Variant, task: str, split: str) -> Pools:
        """The references of a task, gathered at its first use."""
        key = (task, split)
        if key not in self._pools:
            rows = self.task_dict[task][split]
            self._pools[key] = Pools((self._record(row, task) for row in rows), variant)
        return self._pools[key]

    def _record(self, doc: Mapping[str, Any], task: str) -> Record:
        try:
            return Record.from_json(doc["record"])
        except KeyError as exc:
            raise Ad2Error(f"{self.name} answers from the records of this package's tasks; {task} has none") from exc


class Chance(Baseline):
    """Uniformly random: an offered letter, yes or no, a count of 0 to 10, a point or a box of the image.

    Free text, and each step of a chain: the reference of another record of the same sub-task.
    A box has two corners, each uniform over the pixels; an image of unknown size is taken as
    large as the references need.
    """

    name = "ad2_chance"

    def value(self, record: Record, form: Form, step: int, variant: Variant, task: str, split: str) -> Value:
        rng = random.Random(f"{self.seed}|{record.id}|{form}|{step}")
        match form:
            case "mc":
                return rng.choice(offered(record))
            case "yesno":
                return rng.choice(("yes", "no"))
            case "count":
                return rng.randint(0, LARGEST_COUNT)
            case "point" | "box":
                size = record.image_size or self.pools(variant, task, split).extent(record, form)
                return random_point(rng, size) if form == "point" else random_box(rng, size)
        return self.pools(variant, task, split).another(record, form, step, rng)


class Majority(Baseline):
    """The commonest reference of the same sub-task: of the offered letters, of texts; medians for points and boxes."""

    name = "ad2_majority"

    def value(self, record: Record, form: Form, step: int, variant: Variant, task: str, split: str) -> Value:
        pools = self.pools(variant, task, split)
        if form in ("point", "box"):
            return pools.middle(record, form)
        return pools.most_common(record, form, step, offered(record) if form == "mc" else ())


class Oracle(Baseline):
    """The reference itself, in the published answer format."""

    name = "ad2_oracle"

    def value(self, record: Record, form: Form, step: int, variant: Variant, task: str, split: str) -> Value:
        value = reference(record, form, variant.lang, step)
        if value is None:  # a fault of the data, which scoring reports
            return "" if form == "chain" else record.answer.get(variant.lang)
        return value


def offered(record: Record) -> tuple[str, ...]:
    """The letters of a multiple-choice record."""
    if not record.options:
        raise DataError(record.benchmark, record.id, "options", "at least one option of a multiple-choice record")
    return tuple(option.letter for option in record.options)


def random_point(rng: random.Random, size: tuple[int, int]) -> tuple[float, float]:
    """Whole pixels: fractions below 1 would read as proportions of the image."""
    return float(rng.randrange(size[0])), float(rng.randrange(size[1]))


def random_box(rng: random.Random, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """At least one pixel wide and high."""
    (x1, x2), (y1, y2) = (sorted((rng.randrange(length), rng.randrange(length))) for length in size)
    return float(x1), float(y1), float(x2 + 1), float(y2 + 1)
