"""What a comparison compares: each measure of a run, route by route.

Repetitions are averaged by route. A mean is written as {route: (value, 1)}; a ratio of sums, as collisions per
kilometre, as {route: (numerator, denominator)}; the Skill Score is the mean of several means. All three are the same
form, Parts: the mean over the parts of (sum of the first) / (sum of the second).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.scoring.ability import ABILITIES, passed_junction, traffic_signs
from closedloop_plugin.scoring.efficiency import route_efficiency
from closedloop_plugin.scoring.official import from_episode
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.metrics.intervals import NOT_NEGATIVE, PERCENT, Bounds

Part = Mapping[str, tuple[float, float]]  # route -> (numerator, denominator)
Parts = Sequence[Part]

SIGNS = "Traffic_Signs"
NEAR_S = 1.5  # time to collision below which an episode counts as a near miss


@dataclass(frozen=True)
class DrivingMeasure:
    """`group`: "paper" (the five of the tables), "ability" or "extra"; `higher`: more is better; `bounds` of values."""

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
    """One episode: our record, and the same through the door of official files."""

    episode: EpisodeRecord
    official: OfficialRecord
    scenario: str  # type of the standard route

    @classmethod
    def of(cls, episode: EpisodeRecord, scenario: str) -> ComparedEpisode:
        return cls(episode, from_episode(episode), scenario)


def parts_of(played: Sequence[ComparedEpisode], signs_tested: bool) -> dict[str, Parts]:
    """Every measure of these episodes; a measure that they do not give has an empty part.

    `signs_tested`: every record of both runs knows its junction test; else Traffic_Signs is successes alone.
    """
    means: dict[str, Callable[[ComparedEpisode], float | None]] = {
        "success_rate": lambda p: 100.0 * p.official.success,
        "driving_score": lambda p: p.official.score,
        "efficiency": lambda p: route_efficiency(p.official.infractions["min_speed_infractions"]),
        "comfortness": _comfort,
        "min_ttc_s": lambda p: _margin(p, "min_ttc_s"),
        "near_misses": _near,
        "min_gap_m": lambda p: _margin(p, "min_gap_m"),
    }
    found: dict[str, Parts] = {name: [_by_route(played, value)] for name, value in means.items()}
    for name, types in ABILITIES.items():
        members = [p for p in played if p.scenario in types]
        found[name] = [_by_route(members, _signs(signs_tested) if name == SIGNS else means["success_rate"])]
    found["skill_score"] = [found[name][0] for name in ABILITIES]
    found["collisions_per_km"] = [_collisions(played)]
    return found


def signs_tested(played: Sequence[ComparedEpisode]) -> bool:
    """Whether the junction test of Traffic_Signs is known of every episode that needs it."""
    return all(passed_junction(p.official, {}) is not None for p in played if p.scenario in ABILITIES[SIGNS])


def _by_route(played: Sequence[ComparedEpisode], value: Callable[[ComparedEpisode], float | None]) -> Part:
    """Mean over a route's repetitions that have the value; a route without any is absent."""
    values: dict[str, list[float]] = {}
    for one in played:
        found = value(one)
        if found is not None:
            values.setdefault(one.episode.route_id, []).append(found)
    return {route: (statistics.fmean(each), 1.0) for route, each in values.items()}


def _signs(tested: bool) -> Callable[[ComparedEpisode], float]:
    if not tested:
        return lambda p: 100.0 * p.official.success
    return lambda p: 100.0 * traffic_signs([p.official], "v0.0.3", {}).values[0]


def _comfort(played: ComparedEpisode) -> float | None:
    share = played.official.comfort.get("official")
    return None if share is None else 100.0 * share


def _margin(played: ComparedEpisode, name: str) -> float | None:
    value = played.episode.margins.get(name)
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def _near(played: ComparedEpisode) -> float | None:
    """Never on course with anybody (None among the margins) is no near miss; no margins at all is not known."""
    if "min_ttc_s" not in played.episode.margins:
        return None
    ttc = _margin(played, "min_ttc_s")
    return 100.0 * (ttc is not None and ttc < NEAR_S)


def _collisions(played: Sequence[ComparedEpisode]) -> Part:
    """Collisions and kilometres driven of each route, summed over its repetitions."""
    found: dict[str, tuple[float, float]] = {}
    for one in played:
        record = one.episode
        hits = sum(len(texts) for name, texts in record.infractions.items() if name.startswith("collisions"))
        km = record.route_length_m * record.score_route / 100.0 / 1000.0
        before = found.get(record.route_id, (0.0, 0.0))
        found[record.route_id] = (before[0] + hits, before[1] + km)
    return found
