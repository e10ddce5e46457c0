"""How many records a dataset has by part, sub-task and the conditions that its records state (AD2-Bench Fig. 2a)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.records import BREAKDOWNS, Record
from lmms_eval_ad2.data.home.dataset import Dataset

_ORDER = {name: rank for rank, name in enumerate(("light", "moderate", "severe"))}


@dataclass(frozen=True, slots=True)
class DatasetStatistics:
    """`conditions`: those that a record of the dataset states; `counts`: (part, sub-task, *conditions) -> records.

    A condition that a record does not state is "".
    """

    name: str
    split: str
    n: int
    sha256: str
    conditions: tuple[str, ...]
    counts: Mapping[tuple[str, ...], int]

    def values(self, condition: str) -> list[str]:
        """The stated values of a condition: severities by rank, others by name."""
        at = 2 + self.conditions.index(condition)
        return sorted({key[at] for key in self.counts} - {""}, key=lambda value: (_ORDER.get(value, 9), value))

    def total(self, **wanted: str) -> int:
        """The number of records with these values of part, subtask and conditions."""
        names = ("part", "subtask", *self.conditions)
        at = [(names.index(name), value) for name, value in wanted.items()]
        return sum(n for key, n in self.counts.items() if all(key[i] == value for i, value in at))

    def to_json(self) -> dict[str, Any]:
        names = ("part", "subtask", *self.conditions)
        rows = [
            {**{name: value or None for name, value in zip(names, key, strict=True)}, "n": n}
            for key, n in sorted(self.counts.items())
        ]
        return {
            "name": self.name, "split": self.split, "n": self.n, "sha256": self.sha256,
            "conditions": list(self.conditions), "rows": rows,
        }  # fmt: skip


def statistics(dataset: Dataset) -> DatasetStatistics:
    """Count the records of a dataset. Raises Ad2Error for a damaged part."""
    full = Counter((r.task, r.subtask, *(_condition(r, name) for name in BREAKDOWNS)) for r in dataset.records())
    stated = [i for i, _ in enumerate(BREAKDOWNS, 2) if any(key[i] for key in full)]
    counts: Counter[tuple[str, ...]] = Counter()
    for key, n in full.items():
        counts[key[0], key[1], *(key[i] for i in stated)] += n
    conditions = tuple(name for i, name in enumerate(BREAKDOWNS, 2) if i in stated)
    return DatasetStatistics(dataset.name, dataset.split, full.total(), dataset.sha256, conditions, counts)


def _condition(record: Record, name: str) -> str:
    value = getattr(record, BREAKDOWNS[name]).get(name)
    return str(value) if value else ""
