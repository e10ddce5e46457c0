"""Measures of a run per route, as `compare` needs them.

Repetitions are averaged per route. Every measure has the form Parts, a list of {route: (numerator, denominator)}:

    value = mean over parts of (sum of numerators / sum of denominators)

A mean over routes is one part with denominators 1; a ratio of sums (collisions per kilometre) is one part; the Skill
Score, a mean of means, has one part per ability.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.scoring.ability import ABILITIES, Junctions, ShareBelow, junction_test, traffic_signs
from closedloop_plugin.scoring.efficiency import route_efficiency
from closedloop_plugin.scoring.failure_cause import CausedInfraction, caused_infractions
from closedloop_plugin.scoring.official import from_episode
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.scoring.metrics.intervals import NOT_NEGATIVE, PERCENT, Bounds

Part = Mapping[str, tuple[float, float]]  # route -> (numerator, denominator)
Parts = Sequence[Part]

SIGNS = "Traffic_Signs"
ZERO_IF_MISSING = ("driving_score", "success_rate")
NEAR_S = 1.5  # time to collision below which an episode counts as a near miss


@dataclass(frozen=True)
class DrivingMeasure:
    """A measure. `group`: "paper" (the five of the tables), "ability" or "extra"; `higher`: higher is better."""

    name: str
    title: str
    group: str
    higher: bool = True
    bounds: Bounds = PERCENT


MEASURES = (
    DrivingMeasure("success_rate", "Success Rate %", "paper"),
    DrivingMeasure("driving_score", "Driving Score", "paper"),
    DrivingMeasure("efficiency", "Efficiency %", "paper", bounds=NOT_NEGATIVE),
    DrivingMeasure("comfortness", "Comfortness %", "paper"),
    DrivingMeasure("skill_score", "Skill Score %", "paper"),
    *(DrivingMeasure(name, f"{name.replace('_', ' ')} %", "ability") for name in ABILITIES),
    DrivingMeasure("collisions_per_km", "Collisions / km", "extra", higher=False, bounds=NOT_NEGATIVE),
    DrivingMeasure("min_ttc_s", "Min TTC s", "extra", bounds=NOT_NEGATIVE),
    DrivingMeasure("near_misses", f"TTC < {NEAR_S:g} s, % of routes", "extra", higher=False),
    DrivingMeasure("min_gap_m", "Min gap m", "extra", bounds=NOT_NEGATIVE),
)


@dataclass(frozen=True)
class ComparedEpisode:
    """One episode in the official form, and what only our records have: drawn values, margins (None: unknown).

    `bound`: of the share of its route up to the first junction, if known. `caused`: of failure_cause, None too for
    official files. `program`: a program was played on top of the route, or in place of its scenario.
    """

    official: OfficialRecord
    scenario: str  # type of the standard route
    drawn: bool = False  # whether its program drew values
    margins: Mapping[str, Any] | None = None
    bound: ShareBelow | None = None
    caused: tuple[CausedInfraction, ...] | None = None
    program: bool = False

    @property
    def junctions(self) -> Junctions:
        return {} if self.bound is None else {self.official.route_id: self.bound}

    @classmethod
    def of(cls, record: EpisodeRecord | OfficialRecord) -> ComparedEpisode:
        if isinstance(record, OfficialRecord):
            return cls(record, record.scenario)
        official = from_episode(record)
        return cls(
            official, record.scenario, bool(record.drawn), record.margins,
            caused=caused_infractions(record), program="program" in record.world,
        )  # fmt: skip


def parts_of(episodes: Sequence[ComparedEpisode], signs: str | None, missing: Sequence[str] = ()) -> dict[str, Parts]:
    """Every measure of these episodes; a measure without values has an empty part.

    `signs`: variant of Traffic_Signs; None: some record of either run lacks its junction test, so that it is the
    success rate.
    `missing`: the route of each missing episode, which is 0 in Driving Score and Success Rate and absent elsewhere.
    """
    means: dict[str, Callable[[ComparedEpisode], float | None]] = {
        "success_rate": lambda p: 100.0 * p.official.success,
        "driving_score": lambda p: p.official.score,
        "efficiency": lambda p: route_efficiency(p.official.infractions["min_speed_infractions"]),
        "comfortness": _comfort,
        "min_ttc_s": lambda p: _margin(p, "min_ttc_s"),
        "near_misses": _near_miss,
        "min_gap_m": lambda p: _margin(p, "min_gap_m"),
    }
    found: dict[str, Parts] = {
        name: [_by_route(episodes, value, missing if name in ZERO_IF_MISSING else ())] for name, value in means.items()
    }
    for name, types in ABILITIES.items():
        members = [p for p in episodes if p.scenario in types and p.official.tests_ability]
        found[name] = [_by_route(members, _signs(signs) if name == SIGNS else means["success_rate"])]
    found["skill_score"] = [found[name][0] for name in ABILITIES]
    found["collisions_per_km"] = [_collisions(episodes)]
    return found


def signs_tested(episodes: Sequence[ComparedEpisode], variant: str) -> bool:
    """Whether the junction test of Traffic_Signs is known for every episode that needs it."""
    tested = [p for p in episodes if p.scenario in ABILITIES[SIGNS] and p.official.tests_ability]
    return all(junction_test(p.official, variant, p.junctions) is not None for p in tested)


def _by_route(
    episodes: Sequence[ComparedEpisode],
    value: Callable[[ComparedEpisode], float | None],
    missing: Sequence[str] = (),
) -> Part:
    """Mean over the repetitions of each route that have the value or are missing; other routes are absent."""
    values: dict[str, list[float]] = {}
    for route in missing:
        values.setdefault(route, []).append(0.0)
    for episode in episodes:
        found = value(episode)
        if found is not None:
            values.setdefault(episode.official.route_id, []).append(found)
    return {route: (statistics.fmean(each), 1.0) for route, each in values.items()}


def _signs(variant: str | None) -> Callable[[ComparedEpisode], float]:
    if variant is None:
        return lambda p: 100.0 * p.official.success
    return lambda p: 100.0 * traffic_signs([p.official], variant, p.junctions).values[0]


def _comfort(episode: ComparedEpisode) -> float | None:
    share = episode.official.comfort.get("official")
    return None if share is None else 100.0 * share


def _margin(episode: ComparedEpisode, name: str) -> float | None:
    value = (episode.margins or {}).get(name)
    return float(value) if is_number(value) else None


def _near_miss(episode: ComparedEpisode) -> float | None:
    """100 for a near miss, else 0. min_ttc_s None means no collision course; without margins the value is unknown."""
    if "min_ttc_s" not in (episode.margins or {}):
        return None
    ttc = _margin(episode, "min_ttc_s")
    return 100.0 * (ttc is not None and ttc < NEAR_S)


def _collisions(episodes: Sequence[ComparedEpisode]) -> Part:
    """(collisions, kilometres driven) of each route, summed over its repetitions; absent without length or lists."""
    found: dict[str, tuple[float, float]] = {}
    for episode in episodes:
        record = episode.official
        length = record.meta.get("route_length")
        if length is None or record.score_route is None or "infractions" in record.gaps:
            continue
        hits = sum(len(texts) for name, texts in record.infractions.items() if name.startswith("collisions"))
        before = found.get(record.route_id, (0.0, 0.0))
        found[record.route_id] = (before[0] + hits, before[1] + length * record.score_route / 100.0 / 1000.0)
    return found
