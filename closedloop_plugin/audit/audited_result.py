"""Scoring one result of the list: its figures over all routes, and its values by route for paired comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.audit.printed_figures import MeanBasis, bases, own_figures
from closedloop_plugin.audit.result_list import ListedResult, PrintedFigures
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring import official
from closedloop_plugin.scoring.driving import latest
from closedloop_plugin.scoring.summary import summarise
from lmms_eval_ad2.metrics.intervals import Floats

PROFILE = "bench2drive"


@dataclass(frozen=True)
class AuditedResult:
    """A scored result.

    values: measure -> value of each route in percent, shape (routes,); 0 for a route without a record.
    summary: the scores as of `ad2 drive score`. bases: means that a printed figure may be.
    printed: the figures that the file states itself, then those of the list.
    """

    listed: ListedResult
    values: Mapping[str, Floats]
    summary: Mapping[str, Any]
    bases: tuple[MeanBasis, ...]
    printed: tuple[PrintedFigures, ...]

    @property
    def name(self) -> str:
        return self.listed.name

    @property
    def missing(self) -> list[str]:
        """Routes without a record."""
        return [route for route, _ in self.summary["missing"]]

    def printed_figure(self, measure: str) -> float:
        """The figure that the file states itself, else the first of the list, else the recomputed one, in percent."""
        named = [value for figures in self.printed if (value := getattr(figures, measure)) is not None]
        return float(named[0] if named else self.summary[measure])


def audited(listed: ListedResult, path: Path, routes: Sequence[Route]) -> AuditedResult:
    """Score the file or folder of a result; each route counts once. Raises Ad2Error as `ad2 drive score` does."""
    read = official.read([path])
    found = summarise(read.records, routes, profile(PROFILE))
    ids = [route.id for route in routes]
    kept, _ = latest(read.records)
    by_route = {route: record for (route, repetition), record in kept.items() if repetition == 0 and route in {*ids}}
    records = [by_route.get(route) for route in ids]
    values = {
        "driving_score": np.array([record.score if record else 0.0 for record in records]),
        "success_rate": np.array([100.0 * record.success if record else 0.0 for record in records]),
    }
    own = own_figures(path)
    return AuditedResult(
        listed=listed,
        values=values,
        summary=found,
        bases=bases([record for record in records if record], len(ids)),
        printed=(*([own] if own else []), *listed.printed),
    )
