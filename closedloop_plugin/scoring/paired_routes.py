"""The episodes of two runs that a comparison uses: routes that both were asked for, and what becomes of the others.

Two rules:
    common   only routes that both runs drove
    whole    every route that both runs were asked for: an episode without a record is 0 in Driving Score and Success
             Rate (Bench2Drive's rule for its 220 routes), and every record counts as it stands

Under both, an episode of ours that was not driven by an EpisodeFault is left out and listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from closedloop_plugin.scoring.measures import ComparedEpisode
from lmms_eval_ad2.core.errors import Ad2Error

PairingRule = Literal["common", "whole"]
ByRoute = Mapping[str, Sequence[ComparedEpisode]]


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
        raise Ad2Error(
            f"{a.name} and {b.name} have no route in common that both drove ({_counts_text(left_out)}): a threat "
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


def _missing(run: ComparedRun, of_run: ByRoute, routes: Sequence[str]) -> list[tuple[str, int]]:
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


def _counts_text(left_out: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{len(routes)} {reason}" for reason, routes in left_out.items())
