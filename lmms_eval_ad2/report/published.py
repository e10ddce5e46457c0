"""Published results: AD2-Bench Tables 2, 3, 5-7; CODA-LM Tables 2-7; AutoDrive-QA Tables 1, 4, 6, 7, 8.

The figures are in `published.yaml`. They come from other data and other judges than a user's run, so they are shown in
separate rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row: its text cells by name, its values by column; None if a value is not legible."""

    labels: Mapping[str, str]
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table. `judged`: columns rated by `judge`; `means`: columns that are means of others."""

    paper: str
    number: int
    title: str
    columns: tuple[str, ...]
    judge: str | None
    judge_models: str
    judged: frozenset[str]
    means: Mapping[str, tuple[str, ...]]
    rows: tuple[PublishedRow, ...]

    @property
    def source(self) -> str:
        return f"{self.paper}, Table {self.number}"

    def judge_of(self, column: str) -> str | None:
        """The judge of a column: the paper's LLM, or None if no judge was needed."""
        return self.judge if column in self.judged else None

    def judged_alike(self, column: str, label: str | None) -> bool:
        """Whether a run's judge ("openai:gpt-4o-2024-11-20", "lexical", None) matches the one that rated `column`."""
        if column not in self.judged:
            return label is None
        backend, _, model = (label or "").split(" (")[0].partition(":")  # without the suffix for its settings
        return backend == "openai" and re.fullmatch(self.judge_models, model) is not None


@dataclass(frozen=True, slots=True)
class PaperInconsistency:
    """An inconsistency in a paper: the printed statement, and what its other figures say.

    `tables`: numbers of the tables below which it is printed.
    """

    tables: tuple[int, ...]
    where: str
    says: str
    computed: str


def table(benchmark: str, number: int) -> PublishedTable:
    """Return a published table; raises KeyError if it is not on file."""
    return _read()[benchmark][0][number]


def tables() -> list[PublishedTable]:
    """Return all published tables."""
    return [t for by_number, _ in _read().values() for t in by_number.values()]


def inconsistent(benchmark: str, number: int | None = None) -> tuple[PaperInconsistency, ...]:
    """Return the inconsistencies in the paper of a benchmark, or only those that concern table `number`."""
    return tuple(found for found in _read()[benchmark][1] if number is None or number in found.tables)


@functools.cache
def _read() -> dict[str, tuple[dict[int, PublishedTable], tuple[PaperInconsistency, ...]]]:
    text = resources.files(__package__).joinpath("published.yaml").read_text("utf-8")
    papers = {}
    for benchmark, paper in yaml.safe_load(text).items():
        by_number = {t["number"]: _table(paper, t) for t in paper["tables"]}
        papers[benchmark] = (by_number, tuple(_inconsistency(raw) for raw in paper.get("inconsistent", ())))
    return papers


def _inconsistency(raw: Mapping[str, Any]) -> PaperInconsistency:
    return PaperInconsistency(tuple(raw["tables"]), raw["where"], raw["says"], raw["computed"])


def _table(paper: Mapping[str, Any], raw: Mapping[str, Any]) -> PublishedTable:
    labels, columns = raw["labels"], tuple(raw["columns"])
    rows = tuple(
        PublishedRow(
            dict(zip(labels, row[: len(labels)], strict=True)),
            dict(zip(columns, row[len(labels) :], strict=True)),
        )
        for row in raw["rows"]
    )
    means = {name: tuple(of) for name, of in raw.get("means", {}).items()}
    return PublishedTable(
        paper=paper["paper"],
        number=raw["number"],
        title=raw["title"],
        columns=columns,
        judge=paper["judge"],
        judge_models=paper.get("judge_models", ""),
        judged=frozenset(raw.get("judged", ())),
        means=means,
        rows=rows,
    )
