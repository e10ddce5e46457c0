"""Paired comparison of two runs over their common routes: standard routes against threats, or two drivers.

A threat scenario has the id of the route it plays on. Abilities are grouped by the standard route's scenario type in
both columns; a threat that replaced the standard scenario tests none. measures.py decides which episodes count.

The figures a and b, the drop a - b and the relative drop (a - b) / a have jackknife intervals that leave out the same
route of both runs (lmms_eval_ad2/scoring/metrics/intervals.py). p-values: paired_comparison.py of the same folder, with
Holm's correction over the five figures of the paper, and separately over the others.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from closedloop_plugin.scoring.ability import VARIANTS
from closedloop_plugin.scoring.measures import (
    MEASURES,
    SIGNS,
    ComparedEpisode,
    ComparedRun,
    DrivingMeasure,
    PairedRoutes,
    PairingRule,
    Part,
    Parts,
    pair_routes,
    parts_of,
    signs_tested,
)
from closedloop_plugin.scoring.official_record import REPLACED
from lmms_eval_ad2.report.compare import holm
from lmms_eval_ad2.report.table import Span, few
from lmms_eval_ad2.scoring.metrics.intervals import Bounds, ClusterJackknife, Floats
from lmms_eval_ad2.scoring.metrics.paired_comparison import paired

ALL = tuple(measure.name for measure in MEASURES)
_ROUNDING = 1e-9  # percent


@dataclass(frozen=True)
class DrivingComparisonRow:
    """A measure over the `n` routes for which both runs have a value. Spans are 95 % intervals, None if unknown.

    `relative`: drop in percent of a, None if a is 0. `spread_a`, `spread_b`: sample standard deviation of the figure
    over repetitions. `reason`: why there is no figure.
    """

    name: str
    title: str
    group: str
    higher_is_better: bool
    n: int
    a: float | None = None
    b: float | None = None
    drop: float | None = None
    relative: float | None = None
    ci_a: Span | None = None
    ci_b: Span | None = None
    ci_drop: Span | None = None
    ci_relative: Span | None = None
    p_value: float | None = None
    p_holm: float | None = None
    test: str = "none"
    spread_a: float | None = None
    spread_b: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class RouteDifference:
    """Driving Score of one route in both runs, averaged over repetitions; None: no value under the rule."""

    route: str
    scenario: str
    a: float | None
    b: float | None


@dataclass(frozen=True)
class DrivingComparison:
    """Result of `compare`. `left_out`: reason -> route ids; `repetitions`: number found in the records of each run.

    `rule`: see measures.py; `missing`: (route, repetition) of each run that counts 0; `n_common`: routes with a
    record in both; `by_route`: one per paired route.
    """

    rows: Sequence[DrivingComparisonRow]
    routes: Sequence[str]
    left_out: Mapping[str, Sequence[str]]
    repetitions: tuple[int, ...]
    notes: Sequence[str] = field(default_factory=tuple)
    rule: PairingRule = "common"
    missing: tuple[Sequence[tuple[str, int]], Sequence[tuple[str, int]]] = ((), ())
    n_common: int = 0
    by_route: Sequence[RouteDifference] = ()


def compare(
    a: ComparedRun,
    b: ComparedRun,
    rule: PairingRule = "common",
    seed: int = 0,
    measures: Collection[str] = ALL,
    signs: str = VARIANTS[0],
) -> DrivingComparison:
    """Compare two runs; rows are in the order of MEASURES, only those named. Raises Ad2Error without a common route.

    `signs`: variant of Traffic_Signs, see ability.py.
    """
    paired_routes = pair_routes(a, b, rule)
    sides = paired_routes.episodes
    tested = signs if signs_tested([*sides[0], *sides[1]], signs) else None
    values_a, values_b = (
        parts_of(side, tested, [route for route, _ in missing])
        for side, missing in zip(sides, paired_routes.missing, strict=True)
    )
    by_type = {measure.name for measure in MEASURES if measure.group == "ability"} | {"skill_score"}
    hidden = by_type if _all_replaced(sides) else set()
    shown = [m for m in MEASURES if m.name in measures and m.name not in hidden]
    rows = [_row(m, values_a[m.name], values_b[m.name], seed) for m in shown]
    return DrivingComparison(
        rows=_corrected(_with_spread(rows, paired_routes, tested)),
        routes=paired_routes.routes,
        left_out=paired_routes.left_out,
        repetitions=tuple(len({e.official.repetition for e in side}) for side in sides),
        notes=tuple(_notes(paired_routes, (a, b), signs, tested is not None, rule)),
        rule=rule,
        missing=paired_routes.missing,
        n_common=len(set.intersection(*({e.official.route_id for e in side} for side in sides))),
        by_route=_by_route(paired_routes, values_a["driving_score"][0], values_b["driving_score"][0]),
    )


def _all_replaced(sides: Sequence[Sequence[ComparedEpisode]]) -> bool:
    """Whether a run has only programs that replaced the standard scenario."""
    return any(side and all(e.official.replaced for e in side) for side in sides)


def _by_route(found: PairedRoutes, a: Part, b: Part) -> list[RouteDifference]:
    types = {e.official.route_id: e.scenario for side in found.episodes for e in side}
    return [
        RouteDifference(
            route, types.get(route, ""), *(of_run[route][0] if route in of_run else None for of_run in (a, b))
        )
        for route in found.routes
    ]


def _row(measure: DrivingMeasure, a: Parts, b: Parts, seed: int) -> DrivingComparisonRow:
    shared = [sorted(x.keys() & y.keys()) for x, y in zip(a, b, strict=True)]
    units = sorted({route for part in shared for route in part})
    row = DrivingComparisonRow(measure.name, measure.title, measure.group, measure.higher, len(units))
    if not all(shared):
        return replace(row, reason="no route that both drove has a value")
    sums = _table(units, shared, a), _table(units, shared, b)
    if not all((part[..., 1].sum(axis=0) > 0).all() for part in sums):
        return replace(row, reason="nothing was driven")
    figure_a, figure_b = (float(_figure(part.sum(axis=0))) for part in sums)
    drop = figure_a - figure_b
    ci_a, ci_b, ci_drop, ci_relative = _intervals(sums, measure.bounds)
    p_value, test = _tested(units, sums, seed)
    return replace(
        row,
        a=figure_a,
        b=figure_b,
        drop=drop,
        relative=100.0 * drop / figure_a if figure_a > 0 else None,
        ci_a=ci_a,
        ci_b=ci_b,
        ci_drop=ci_drop,
        ci_relative=ci_relative,
        p_value=p_value,
        test=test,
    )


def _table(units: Sequence[str], shared: Sequence[Sequence[str]], parts: Parts) -> Floats:
    """Array (units, parts, 2) of numerators and denominators; (0, 0) for a route that is not in a part."""
    found = np.zeros((len(units), len(parts), 2))
    place = {route: i for i, route in enumerate(units)}
    for k, (names, part) in enumerate(zip(shared, parts, strict=True)):
        for route in names:
            found[place[route], k] = part[route]
    return found


def _figure(sums: Floats) -> Floats:
    """(..., parts, 2) -> (...): mean over the parts of numerator / denominator."""
    return (sums[..., 0] / sums[..., 1]).mean(axis=-1)


def _intervals(sums: tuple[Floats, Floats], bounds: Bounds) -> tuple[Span | None, ...]:
    """Intervals of a, b, a - b and 100 (a - b) / a; None if a part has fewer than two routes.

    Without bounds an interval is also None if no route differs; the last, if a is 0 or if leaving out a route does not
    change it (b is 0).
    """
    a, b = (ClusterJackknife.of_ratios(part[..., 0], part[..., 1]) for part in sums)
    if a is None or b is None:
        return (None,) * 4
    width = bounds[1] - bounds[0]
    drop = a.minus(b)
    spans = [_span(a, bounds), _span(b, bounds), _span(drop, (-width, width))]
    if a.figure <= 0:
        return (*spans, None)
    # A move is the scaled change of a figure without a route (see intervals.unit_moves): x + move is carried through.
    x, y = a.figure + a.moves, b.figure + b.moves
    whole = 100.0 * drop.figure / a.figure
    relative = ClusterJackknife.of_moves(whole, 100.0 * (x - y) / x - whole, drop.weights)
    varies = float(np.abs(relative.moves).max()) > _ROUNDING
    return (*spans, _span(relative, (-math.inf, 100.0)) if varies else None)


def _span(found: ClusterJackknife, bounds: Bounds) -> Span | None:
    interval = found.interval(bounds)
    return None if interval is None else (interval.low, interval.high)


def _tested(units: Sequence[str], sums: tuple[Floats, Floats], seed: int) -> tuple[float | None, str]:
    """(p-value, test name) of the drop: a paired test of the contribution of each route to a and to b.

    For a mean the contribution is sum_k n_k / w_k, w_k = K sum(d_k) / routes, over the K parts: its mean over the
    routes is the figure. For a ratio of sums it is the residual n - r d with the pooled ratio
    r = sum(n_a + n_b) / sum(d_a + d_b): under the null hypothesis a route's two sides may be swapped, which leaves r
    unchanged.
    """
    a, b = sums
    if np.isin(a[..., 1], (0.0, 1.0)).all():
        weights = a[..., 1].sum(axis=0) * a.shape[1] / len(units)
        left, right = ((part[..., 0] / weights).sum(axis=1) for part in sums)
        if a.shape[1] == 1 and np.isin(np.stack([left, right]), (0.0, 100.0)).all():
            left, right = left / 100.0, right / 100.0  # binary: McNemar's test
    else:
        pooled = (a + b).sum(axis=0)
        ratio = pooled[:, 0] / pooled[:, 1]
        left, right = ((part[..., 0] - ratio * part[..., 1]).sum(axis=1) for part in sums)
    found = paired(
        dict(zip(units, left.tolist(), strict=True)), dict(zip(units, right.tolist(), strict=True)), seed=seed
    )
    return found.p_value, found.test


def _corrected(rows: Sequence[DrivingComparisonRow]) -> list[DrivingComparisonRow]:
    """Holm's correction in two families: the figures of the paper's tables, and the others."""
    found: dict[str, float | None] = {}
    for paper in (True, False):
        family = [row for row in rows if (row.group == "paper") == paper]
        found.update(zip((row.name for row in family), holm([row.p_value for row in family]), strict=True))
    return [replace(row, p_holm=found[row.name]) for row in rows]


def _with_spread(
    rows: Sequence[DrivingComparisonRow], found: PairedRoutes, tested: str | None
) -> list[DrivingComparisonRow]:
    spreads = [_spread(*side, tested) for side in zip(found.episodes, found.missing, strict=True)]
    return [replace(row, spread_a=spreads[0].get(row.name), spread_b=spreads[1].get(row.name)) for row in rows]


def _spread(
    episodes: Sequence[ComparedEpisode], missing: Sequence[tuple[str, int]], tested: str | None
) -> dict[str, float]:
    """Sample standard deviation over the figures of the single repetitions, for measures with at least two."""
    values: dict[str, list[float]] = {}
    for k in sorted({e.official.repetition for e in episodes}):
        of_k = [e for e in episodes if e.official.repetition == k]
        for name, parts in parts_of(of_k, tested, [route for route, rep in missing if rep == k]).items():
            sums = [np.array(list(part.values())).sum(axis=0) for part in parts if part]
            if len(sums) == len(parts) and all(total[1] > 0 for total in sums):
                values.setdefault(name, []).append(float(_figure(np.stack(sums))))
    return {name: statistics.stdev(each) for name, each in values.items() if len(each) > 1}


def _notes(
    found: PairedRoutes, sides: tuple[ComparedRun, ComparedRun], signs: str, tested: bool, rule: PairingRule
) -> list[str]:
    """Remarks on the rows, one sentence each."""
    notes = ["abilities and Skill Score are grouped by the standard route's scenario type in both columns"]
    if _all_replaced(found.episodes):
        notes, tested = [], True
    for side, episodes in zip(sides, found.episodes, strict=True):
        replaced = sum(e.official.replaced for e in episodes)
        if replaced:
            notes.append(f"{side.name}: {replaced} of {len(episodes)} episode(s) test no ability: {REPLACED}")
    if not tested:
        lacking = f"because some records lack the junction test of {signs}"
        notes.append(f"{SIGNS}: success rate only in both columns, {lacking}")
    elif signs != VARIANTS[0]:
        notes.append(f"{SIGNS} and the Skill Score are those of Bench2Drive's variant {signs}")
    for side, episodes, missing in zip(sides, found.episodes, found.missing, strict=True):
        if missing:
            notes.append(_missing_note(side.name, missing))
        faults = Counter(e.official.fault for e in side.episodes if e.official.fault)
        if faults:
            text = ", ".join(f"{fault} {n}" for fault, n in sorted(faults.items()))
            notes.append(f"{side.name}: episodes not driven are left out, not counted 0; by fault of: {text}")
        crashed = [e.official.route_id for e in episodes if e.official.crashed]
        if crashed and rule == "whole":
            notes.append(f"{side.name}: {len(crashed)} record(s) of a crash count as they are: {few(crashed)}")
        uneven = Counter(Counter(e.official.route_id for e in episodes).values())
        if len(uneven) > 1 and rule == "common":
            notes.append(f"{side.name}: routes have {min(uneven)} to {max(uneven)} repetitions; each route counts once")
    if any(e.drawn for e in found.episodes[0]) and not any(e.drawn for e in found.episodes[1]):
        notes.append(f"{sides[0].name} has scenarios with free parameters and {sides[1].name} none: the drop is a - b")
    return notes


def _missing_note(name: str, missing: Sequence[tuple[str, int]]) -> str:
    routes = list(dict.fromkeys(route for route, _ in missing))
    return (
        f"{name}: {len(missing)} episode(s) without a record count 0 in Driving Score and Success Rate, and are left "
        f"out of the other figures: {few(routes)}"
    )
