"""Ceilings: what the right plan reaches through a task and an interpreter, and what it reaches without them.

`speaking-expert` puts the expert's plan into the answer format of a task and goes through interpreter and
post-processing like any model; `expert` sets the controls itself. The figures are measured on all routes of a suite and
written to ceilings.yaml by `make results` (benchmarks/embedded220.py).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

import yaml

from lmms_eval_ad2.core.version import __version__

FILE = "ceilings.yaml"
FIRST = ("trajectory", "action", "reasoning")  # the rules use the first of these that a driver answers


@dataclass(frozen=True, kw_only=True)
class MeasuredCeiling:
    """Scores in percent over all routes of a suite. task, interpreter: None for a driver that sets the controls."""

    backend: str
    suite: str
    profile: str
    driver: str
    task: str | None = None
    interpreter: str | None = None
    driving_score: float
    success_rate: float
    n_routes: int
    seed: int
    version: str


@dataclass(frozen=True)
class CeilingComparison:
    """What stands beside a run's scores. text: one sentence; the figures are None where nothing was measured."""

    expert: MeasuredCeiling | None
    ceiling: MeasuredCeiling | None
    text: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def version_text(version: str) -> str:
    """The version of a measurement, with a note if scores may have changed since: another minor version."""
    other = version.split(".")[:2] != __version__.split(".")[:2]
    return f"version {version}" + (": scenarios and scores may differ from this version's" if other else "")


@functools.cache
def measured() -> tuple[MeasuredCeiling, ...]:
    """All rows of ceilings.yaml."""
    rows = yaml.safe_load(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
    return tuple(MeasuredCeiling(**row) for row in rows)


def beside(origin: Mapping[str, Any]) -> CeilingComparison | None:
    """The ceilings for the origin of a run's records; None for results that name no suite, and for programs."""
    alike = [
        row for row in measured() if all(origin.get(k) == getattr(row, k) for k in ("backend", "suite", "profile"))
    ]
    expert = next((row for row in alike if row.driver == "expert"), None)
    interpreter = str(origin.get("interpreter") or "")
    if not interpreter:
        return None if expert is None else CeilingComparison(expert, None, _text([("expert", expert)]))
    tasks = str(origin.get("tasks") or "").split(",")
    task = next((task for task in FIRST if task in tasks), None)
    ceiling = next((row for row in alike if (row.task, row.interpreter) == (task, interpreter) and row.task), None)
    named = f"ceiling of {task or 'a task that the records do not name'} through {interpreter} (speaking-expert)"
    if ceiling is None:
        where = f"{origin.get('suite')} in the {origin.get('backend')} world under {origin.get('profile')}"
        missing = f"{named}: {f'not measured for {where}' if task else 'not known; drive with --config tasks'}"
        first = f"{_text([('expert', expert)])}; " if expert else ""
        return CeilingComparison(expert, None, first + missing)
    rows = [(named, ceiling), *([("expert", expert)] if expert else [])]
    return CeilingComparison(expert, ceiling, _text(rows))


def _text(rows: list[tuple[str, MeasuredCeiling]]) -> str:
    one = rows[0][1]
    each = "; ".join(
        f"{name}: Driving Score {row.driving_score:.1f}, Success Rate {row.success_rate:.1f} %" for name, row in rows
    )
    return f"{each} ({one.n_routes} routes, seed {one.seed}, {version_text(one.version)})"
