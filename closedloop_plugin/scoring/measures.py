"""Measures of a run per route, and the episodes of two runs that a comparison uses.

Repetitions are averaged per route. A measure has the form Parts, a list of {route: (numerator, denominator)}:

    value = mean over parts of (sum of numerators / sum of denominators)

A mean over routes is one part with denominators 1; a ratio of sums (collisions per kilometre) is one part; the Skill
Score, a mean of means, has one part per ability.

A comparison uses the routes that both runs were asked for, under one of two rules:
    common   only routes that both runs drove
    whole    every route that both runs were asked for: an episode without a record is 0 in Driving Score and Success
             Rate (Bench2Drive's rule for its 220 routes), and every record counts as it stands

Under both, an episode of ours that was not driven by an EpisodeFault is left out and listed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.scoring.ability import ABILITIES, Junctions, ShareBelow, junction_test, traffic_signs
from closedloop_plugin.scoring.driving import route_efficiency
from closedloop_plugin.scoring.failure_cause import CausedInfraction, caused_infractions
from closedloop_plugin.scoring.official import from_episode
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.scoring.metrics.intervals import NOT_NEGATIVE, PERCENT, Bounds

Part = Mapping[str, tuple[float, float]]  # route -> (numerator, denominator)
Parts = Sequence[Part]

PairingRule = Literal["common", "whole"]

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


@dataclass(frozen=True)
class ComparedRun:
    """A run. `routes`: the requested route ids; `episodes`: of two of an episode the later counts."""

    name: str
    routes: Sequence[str]
    episodes: Sequence[ComparedEpisode]
    repetitions: int = 1


@dataclass(frozen=True)
class PairedRoutes:
    """`episodes`: of each run on `routes`; `missing`: (route, repetition) of each run without a record, rule "whole"
    only; `left_out`: reason -> route ids."""

    routes: Sequence[str]
    episodes: tuple[Sequence[ComparedEpisode], Sequence[ComparedEpisode]]
    missing: tuple[Sequence[tuple[str, int]], Sequence[tuple[str, int]]]
    left_out: Mapping[str, Sequence[str]]


def pair_routes(a: ComparedRun, b: ComparedRun, rule: PairingRule) -> PairedRoutes:
    """Pair the routes of two runs. Raises Ad2Error if they have none in common."""
    (of_a, without_a), (of_b, without_b) = (_usable(run, rule) for run in (a, b))
    asked_b = {*b.routes}
    both = [r for r in a.routes if r in asked_b and r not in without_a and r not in without_b]
    routes = [route for route in both if _same_place(of_a.get(route, ()), of_b.get(route, ()))]
    left_out = _left_out(a, b, without_a, without_b, both)
    if others := [route for route in both if route not in routes]:
        left_out["on another route under the same id"] = others
    if not routes:
        counts = "; ".join(f"{len(names)} {reason}" for reason, names in left_out.items())
        raise Ad2Error(
            f"{a.name} and {b.name} have no route in common that both drove ({counts}): a threat "
            "scenario has the id of its route"
        )
    types = {e.official.route_id: e.scenario for of_run in (of_b, of_a) for e, *_ in of_run.values()}
    left, right = (
        [replace(e, scenario=types[route]) for route in routes for e in of_run.get(route, ())]
        for of_run in (of_a, of_b)
    )
    missing = (_missing(a, of_a, routes), _missing(b, of_b, routes)) if rule == "whole" else ((), ())
    return PairedRoutes(routes, (left, right), missing, left_out)


def _usable(run: ComparedRun, rule: PairingRule) -> tuple[dict[str, list[ComparedEpisode]], dict[str, str]]:
    """(episodes by route, reason for each route that cannot be paired)."""
    by_route: dict[str, list[ComparedEpisode]] = {}
    excluded = dict.fromkeys(run.routes, "no record") if rule == "common" else {}
    for (route, _), episode in sorted({e.official.key: e for e in run.episodes}.items()):
        if episode.official.experimental:
            excluded[route] = "experimental map"
        elif episode.official.fault:
            excluded[route] = f"fault of the {episode.official.fault}"
        else:
            by_route.setdefault(route, []).append(episode)
    return by_route, {route: reason for route, reason in excluded.items() if route not in by_route}


def _same_place(a: Sequence[ComparedEpisode], b: Sequence[ComparedEpisode]) -> bool:
    """Whether two records are of one route, as far as they tell: two suites may use the same ids."""
    if not a or not b:
        return True
    one, two = a[0].official, b[0].official
    pairs = ((one.town, two.town), (one.scenario_name, two.scenario_name))
    return all(x == y or not x or not y for x, y in pairs)


def _missing(
    run: ComparedRun, of_run: Mapping[str, Sequence[ComparedEpisode]], routes: Sequence[str]
) -> list[tuple[str, int]]:
    """Episodes without a record; one that was not driven by somebody's fault has one."""
    present = {e.official.key for route in routes for e in of_run.get(route, ())}
    present |= {e.official.key for e in run.episodes if e.official.fault}
    return [(route, k) for route in routes for k in range(run.repetitions) if (route, k) not in present]


def _left_out(
    a: ComparedRun, b: ComparedRun, excluded_a: Mapping[str, str], excluded_b: Mapping[str, str], routes: Sequence[str]
) -> dict[str, list[str]]:
    """reason -> routes of either run that are not in `routes` (those that are paired)."""
    found: dict[str, list[str]] = {}
    of_a, of_b = {*a.routes, *excluded_a}, {*b.routes, *excluded_b}
    for route in dict.fromkeys([*a.routes, *excluded_a, *b.routes, *excluded_b]):
        if route in routes:
            continue
        if route not in of_b:
            reason = f"only in {a.name}"
        elif route not in of_a:
            reason = f"only in {b.name}"
        elif route in excluded_a:
            reason = f"{excluded_a[route]} in {a.name}"
        else:
            reason = f"{excluded_b.get(route, 'no record')} in {b.name}"
        found.setdefault(reason, []).append(route)
    return found
