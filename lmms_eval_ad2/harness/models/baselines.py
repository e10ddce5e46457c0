"""Baseline models without a network: random answers, the most frequent answer, and the reference itself.

They answer from the records of the dataset and never open an image. Each answer depends only on the record, the task's
settings and (chance) the seed, not on order, batch or rank. They give the lower and upper bounds for tables, and test
that prompts, parsers and metrics are consistent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmms_eval_ad2.core.coordinates import InputResizing
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Form, Record, Value
from lmms_eval_ad2.harness.models.arguments import refuse_unknown, whole_number
from lmms_eval_ad2.harness.models.engine_model import TextModel
from lmms_eval_ad2.harness.task_files import variant_of
from lmms_eval_ad2.scoring.reference_answers import (
    WITHOUT_ANSWER,
    NoOtherRecordError,
    ReferencePools,
    chain,
    chance_value,
    offered,
    reference,
    written,
)
from lmms_eval_ad2.scoring.sample import input_size
from lmms_eval_ad2.scoring.variant import TaskVariant


class BaselineModel(TextModel):
    """Base class of the baselines. Model arguments: `seed` (used by chance); the batch size has no effect."""

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

    def generate_until(self, requests: list[Any]) -> list[str]:
        return [self._answer_or_failure(request) for request in requests]

    def _answer_or_failure(self, request: Any) -> str:
        """Return the answer; without another record to draw from a text that makes the record Unscored."""
        try:
            return self._answer(request)
        except NoOtherRecordError as exc:
            return f"{WITHOUT_ANSWER} {exc}"

    def _answer(self, request: Any) -> str:
        _, settings, _, doc_id, task, split = request.args
        record = self._record(self.task_dict[task][split][doc_id], task)
        metadata = request.metadata or {}
        ours = metadata.get("ad2")
        variant = variant_of(ours, task) if ours else TaskVariant(record.benchmark, record.task)
        form = variant.asked_form(record)
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
    """Random answers (scoring/reference_answers.py)."""

    name = "ad2_chance"

    def value(self, record: Record, form: Form, step: int, variant: TaskVariant, task: str, split: str) -> Value:
        return chance_value(record, form, step, self.seed, self.pools(variant, task, split))


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
