"""Scoring one result of the list: its figures over all routes, and its episodes and values by route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring import official
from closedloop_plugin.scoring.audit.printed_figures import MEASURES, MeanBasis, bases, own_figures
from closedloop_plugin.scoring.audit.result_list import ListedResult, PrintedFigures
from closedloop_plugin.scoring.driving import latest
from closedloop_plugin.scoring.measures import ComparedEpisode, parts_of
from closedloop_plugin.scoring.paired_routes import ComparedRun
from closedloop_plugin.scoring.summary import summarise
from lmms_eval_ad2.scoring.metrics.intervals import Floats

PROFILE = "bench2drive"


@dataclass(frozen=True)
class AuditedResult:
    """A scored result.

    run: its episodes, at most one per route, and all routes. summary: the scores as of `ad2 drive score`.
    bases: means that a printed figure may be. printed: the figures of the list, then those that the file states itself.
    """

    listed: ListedResult
    run: ComparedRun
    summary: Mapping[str, Any]
    bases: tuple[MeanBasis, ...]
    printed: tuple[PrintedFigures, ...]

    @property
    def name(self) -> str:
        return self.listed.name

    @property
    def missing(self) -> list[str]:
        """Routes without a record."""
        present = {episode.official.route_id for episode in self.run.episodes}
        return [route for route in self.run.routes if route not in present]

    @cached_property
    def values(self) -> Mapping[str, Floats]:
        """measure -> value of each route in percent, shape (routes,); 0 for a route without a record."""
        parts = parts_of(self.run.episodes, signs=None, missing=self.missing)
        return {name: np.array([parts[name][0][route][0] for route in self.run.routes]) for name in MEASURES}

    def printed_figure(self, measure: str) -> float | None:
        """The first figure of `printed` in percent, to the two decimals of a printed one; None if there is none."""
        named = [value for figures in self.printed if (value := getattr(figures, measure)) is not None]
        return round(float(named[0]), 2) if named else None


def audited(listed: ListedResult, path: Path, routes: Sequence[Route]) -> AuditedResult:
    """Score the file or folder of a result; each route counts once. Raises Ad2Error as `ad2 drive score` does."""
    read = official.read([path])
    found = summarise(read.records, routes, profile(PROFILE))
    ids = [route.id for route in routes]
    kept, _ = latest(read.records)
    records = [record for route in ids if (record := kept.get((route, 0)))]
    own = own_figures(path)
    return AuditedResult(
        listed=listed,
        run=ComparedRun(listed.name, ids, [ComparedEpisode.of(record) for record in records]),
        summary=found,
        bases=bases(records, len(ids)),
        printed=(*listed.printed, *([own] if own else [])),
    )
