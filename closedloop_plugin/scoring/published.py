"""Tables 1 and 2 of the Bench2ADVLM paper, standard and threat routes, and the figures of its section 5; in CARLA.

Shown in separate tables beside our comparisons, never in the same column: world and models differ. The figures, and
claims of the paper's text about them, are in published.yaml.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class PublishedDriver:
    """A fast system with a slow system in one mode ("cng", "dcs"). Figures in percent, by their names in a summary."""

    fast: str
    slow: str
    mode: str
    standard: Mapping[str, float]  # Table 1
    threat: Mapping[str, float]  # Table 2

    @property
    def drop(self) -> dict[str, float]:
        """Table 1 minus Table 2, rounded to the two printed decimals."""
        return {name: round(value - self.threat[name], 2) for name, value in self.standard.items()}


@dataclass(frozen=True)
class TableClaim:
    """A statement of the paper's text about its tables, and the value computed from the printed figures."""

    where: str
    says: str
    computed: str
    agrees: bool


@dataclass(frozen=True)
class PublishedExtension:
    """A setting of section 5, standard routes. `option`: of `ad2 drive run`; `figures`: those that are printed."""

    name: str
    fast: str
    slow: str
    option: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class PublishedThreatTables:
    """Both tables, and section 5. `columns`: names of the five figures in the order of the tables."""

    paper: str
    world: str
    repetitions: int
    columns: tuple[str, ...]
    drivers: tuple[PublishedDriver, ...]
    claims: tuple[TableClaim, ...]
    extensions: tuple[PublishedExtension, ...]

    @property
    def contradictions(self) -> list[TableClaim]:
        return [claim for claim in self.claims if not claim.agrees]


@functools.cache
def published() -> PublishedThreatTables:
    """Read the tables as printed (cached)."""
    raw = yaml.safe_load(resources.files(__package__).joinpath("published.yaml").read_text("utf-8"))
    columns = tuple(raw["columns"])
    return PublishedThreatTables(
        paper=raw["paper"],
        world=raw["world"],
        repetitions=raw["repetitions"],
        columns=columns,
        drivers=tuple(_driver(row, columns) for row in raw["rows"]),
        claims=tuple(TableClaim(**claim) for claim in raw["claims"]),
        extensions=tuple(PublishedExtension(**row) for row in raw["extensions"]),
    )


def _driver(row: list[Any], columns: tuple[str, ...]) -> PublishedDriver:
    (fast, slow, mode), figures = row[:3], row[3:]
    n = len(columns)
    standard, threat = (dict(zip(columns, part, strict=True)) for part in (figures[:n], figures[n:]))
    return PublishedDriver(fast, slow, mode, standard, threat)
