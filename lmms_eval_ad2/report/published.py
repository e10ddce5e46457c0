"""Published results: AD2-Bench Tables 2, 3, 5-7; CODA-LM Tables 2-7; AutoDrive-QA Tables 1, 4, 6, 7, 8.

The figures are in `published.yaml`. They come from other data and other judges than a user's run, so they are shown in
separate rows. A file of the same format adds those of a user's own benchmark (`published_file` of ad2 report).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from lmms_eval_ad2.core.errors import DataError, yaml_fault
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.storage import user_yaml


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row: its text cells by name, its values by column; None if a value is not legible."""

    labels: Mapping[str, str]
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table. judged: columns rated by `judge`. means: columns that are means of others. number: 0 of a user's."""

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
        return f"{self.paper}, Table {self.number}" if self.number else self.paper

    def known(self) -> list[float]:
        """All legible values."""
        return [value for row in self.rows for value in row.values.values() if value is not None]

    def judge_of(self, column: str) -> str | None:
        """The judge of a column: the paper's LLM, or None if no judge was needed."""
        return self.judge if column in self.judged else None

    def judged_alike(self, column: str, label: str | None) -> bool:
        """True if a run's judge ("openai:gpt-4o-2024-11-20", "lexical", None) matches the one that rated `column`."""
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
        found = paper.get("inconsistent", ())
        papers[benchmark] = (
            by_number,
            tuple(PaperInconsistency(**{**raw, "tables": tuple(raw["tables"])}) for raw in found),
        )
    return papers


def own_tables(path: Path) -> dict[str, PublishedTable]:
    """The table of each benchmark in a user's file: {BENCHMARK: {paper, judge, columns, judged, rows}}.

    columns: parts of the benchmark; judged: those that `judge` rated; a row: the model, then its percentages. Raises
    DataError for a faulty field, and for a benchmark whose figures are packaged.
    """
    try:
        data = user_yaml.parse(user_yaml.read_text(path))
    except OSError as exc:
        raise DataError(path, None, "file", "a readable YAML file of published rows", str(exc)) from exc
    except yaml.YAMLError as exc:
        raise DataError(path, None, "file", "valid YAML", yaml_fault(exc)) from exc
    if not isinstance(data, dict) or not data:
        raise DataError(path, None, "file", "a mapping from names of benchmarks to their published rows", data)
    return {str(name): _own_table(path, str(name), raw) for name, raw in data.items()}


_OWN_KEYS = {"paper", "judge", "columns", "judged", "rows"}


def _own_table(path: Path, name: str, raw: Any) -> PublishedTable:
    if name in _read():
        raise DataError(path, name, "benchmark", f"none of {', '.join(_read())}, whose figures are packaged", name)
    if not isinstance(raw, dict) or not {"paper", "columns", "rows"} <= raw.keys() <= _OWN_KEYS:
        raise DataError(path, name, "benchmark", "paper, columns, rows; judge, judged if there is a judge", raw)
    columns, judged = raw["columns"], raw.get("judged") or []
    for field, names in (("columns", columns), ("judged", judged)):
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
            raise DataError(path, name, field, "a list of names of parts, each once", names)
    if unknown := [column for column in judged if column not in columns]:
        raise DataError(path, name, "judged", f"names of columns ({', '.join(columns)})", unknown[0])
    if judged and not raw.get("judge"):
        raise DataError(path, name, "judge", "the name of the judge of the judged columns")
    if not columns or not isinstance(raw["rows"], list) or not raw["rows"]:
        raise DataError(path, name, "rows", "at least one column and one row", raw["rows"])
    for row in raw["rows"]:
        right = isinstance(row, list) and len(row) == 1 + len(columns) and isinstance(row[0], str)
        if not right or not all(value is None or is_number(value) for value in row[1:]):
            raise DataError(path, name, "rows", f"[model, {', '.join(columns)}], values in percent or null", row)
    paper = {"paper": str(raw["paper"]), "judge": raw.get("judge")}
    return _table(paper, {"number": 0, "title": "", "labels": ["model"], **raw})


def _table(paper: Mapping[str, Any], raw: Mapping[str, Any]) -> PublishedTable:
    labels, columns = raw["labels"], tuple(raw["columns"])
    n = len(labels)
    rows = [
        PublishedRow(dict(zip(labels, row[:n], strict=True)), dict(zip(columns, row[n:], strict=True)))
        for row in raw["rows"]
    ]
    return PublishedTable(
        paper=paper["paper"],
        number=raw["number"],
        title=raw["title"],
        columns=columns,
        judge=paper["judge"],
        judge_models=paper.get("judge_models", ""),
        judged=frozenset(raw.get("judged", ())),
        means={name: tuple(of) for name, of in raw.get("means", {}).items()},
        rows=tuple(rows),
    )
