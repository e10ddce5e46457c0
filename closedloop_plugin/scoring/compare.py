"""Paired comparison of two runs of one driver over their common routes, typically standard routes against threats.

A threat scenario has the id of the route it plays on. Abilities are grouped by the standard route's scenario type in
both columns. Only routes that both runs have are compared; the others are listed. An episode in which the world or the
agent failed is left out and listed, never counted as 0.

The figures a and b, the drop a - b and the relative drop (a - b) / a have jackknife intervals that leave out the same
route of both runs (lmms_eval_ad2/metrics/intervals.py). p-values: lmms_eval_ad2/metrics/paired_comparison.py, with
Holm's correction over the five figures of the paper, and separately over the others.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.scoring.measures import (
    MEASURES,
    SIGNS,
    ComparedEpisode,
    DrivingMeasure,
    Parts,
    parts_of,
    signs_tested,
)
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.metrics.intervals import Bounds, ClusterJackknife, Floats
from lmms_eval_ad2.metrics.paired_comparison import paired
from lmms_eval_ad2.report.compare import holm

FAILED = (EndReason.WORLD_FAILED, EndReason.AGENT_FAILED, EndReason.INVALID)
Span = tuple[float, float]
_ROUNDING = 1e-9  # percent


@dataclass(frozen=True)
class ComparedRun:
    """A run. `routes`: the requested route ids; `records`: at most one per episode."""

    name: str
    routes: Sequence[str]
    records: Sequence[EpisodeRecord]


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
class DrivingComparison:
    """Result of `compare`. `left_out`: reason -> route ids; `repetitions`: number found in the records of each run."""

    rows: Sequence[DrivingComparisonRow]
    routes: Sequence[str]
    left_out: Mapping[str, Sequence[str]]
    repetitions: tuple[int, int]
    notes: Sequence[str] = field(default_factory=tuple)


def compare(a: ComparedRun, b: ComparedRun, seed: int = 0) -> DrivingComparison:
    """Compare two runs; rows are in the order of MEASURES. Raises Ad2Error if both drove no common route."""
    records_a, excluded_a = _usable_records(a)
    records_b, excluded_b = _usable_records(b)
    both = [route for route in a.routes if route in records_a and route in records_b]
    routes = [route for route in both if _place(records_a[route][0]) == _place(records_b[route][0])]
    left_out = _left_out(a, b, excluded_a, excluded_b, both)
    if others := [route for route in both if route not in routes]:
        left_out["on another route under the same id"] = others
    if not routes:
        raise Ad2Error(
            f"{a.name} and {b.name} have no route in common that both drove ({_counts_text(left_out)}): a threat "
            "scenario has the id of its route"
        )
    types = {route: records_a[route][0].scenario for route in routes}
    left, right = (
        [ComparedEpisode.of(r, types[route]) for route in routes for r in records[route]]
        for records in (records_a, records_b)
    )
    tested = signs_tested([*left, *right])
    values_a, values_b = parts_of(left, tested), parts_of(right, tested)
    rows = [_row(m, values_a[m.name], values_b[m.name], seed) for m in MEASURES]
    rows = _with_spread(rows, left, right, tested)
    repetitions = (_repetitions(left), _repetitions(right))
    notes = _notes(left, right, (a, b), tested)
    return DrivingComparison(_corrected(rows), routes, left_out, repetitions, tuple(notes))


def _usable_records(run: ComparedRun) -> tuple[dict[str, list[EpisodeRecord]], dict[str, str]]:
    """(records by route without failed episodes, reason for each route that has none)."""
    latest = {(r.route_id, r.repetition): r for r in run.records}
    by_route: dict[str, list[EpisodeRecord]] = {}
    excluded = dict.fromkeys(run.routes, "no record")
    for (route, _), record in sorted(latest.items()):
        if record.map.get("experimental", False):
            excluded[route] = "experimental map"
        elif record.end in FAILED:
            excluded[route] = record.end
        else:
            by_route.setdefault(route, []).append(record)
    return by_route, {route: reason for route, reason in excluded.items() if route not in by_route}


def _place(record: EpisodeRecord) -> tuple[str, str]:
    """Identifies a route independently of its id: two suites may use the same ids."""
    return record.town, record.scenario_name


def _left_out(
    a: ComparedRun, b: ComparedRun, excluded_a: Mapping[str, str], excluded_b: Mapping[str, str], routes: Sequence[str]
) -> dict[str, list[str]]:
    """reason -> routes of either run that are not in `routes` (those that both drove)."""
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

    The last is also None if a is 0, or if leaving out a route does not change it (b is 0).
    """
    a, b = (ClusterJackknife.of_ratios(part[..., 0], part[..., 1]) for part in sums)
    if a is None or b is None:
        return (None,) * 4
    width = bounds[1] - bounds[0]
    drop = _joint(a, b, lambda x, y: x - y)
    spans = [_span(a, bounds), _span(b, bounds), _span(drop, (-width, width))]
    if a.figure <= 0:
        return (*spans, None)
    relative = _joint(a, b, lambda x, y: 100.0 * (x - y) / x)
    varies = float(np.abs(relative.moves).max()) > _ROUNDING
    return (*spans, _span(relative, (-math.inf, 100.0)) if varies else None)


def _joint(a: ClusterJackknife, b: ClusterJackknife, figure: Callable[[Any, Any], Any]) -> ClusterJackknife:
    """Jackknife of a figure of both runs, leaving out the same route of both."""
    # moves[i] is the scaled change of a figure without route i (see intervals.unit_moves), carried through `figure`.
    whole = figure(a.figure, b.figure)
    moved = figure(a.figure + a.moves, b.figure + b.moves) - whole
    return ClusterJackknife(whole, moved, (a.weights + b.weights) / 2)


def _span(found: ClusterJackknife, bounds: Bounds) -> Span:
    interval = found.interval(bounds)
    return interval.low, interval.high


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


def _repetitions(episodes: Sequence[ComparedEpisode]) -> int:
    return len({p.episode.repetition for p in episodes})


def _with_spread(
    rows: Sequence[DrivingComparisonRow], a: Sequence[ComparedEpisode], b: Sequence[ComparedEpisode], tested: bool
) -> list[DrivingComparisonRow]:
    spreads = [_spread(side, tested) for side in (a, b)]
    return [replace(row, spread_a=spreads[0].get(row.name), spread_b=spreads[1].get(row.name)) for row in rows]


def _spread(episodes: Sequence[ComparedEpisode], tested: bool) -> dict[str, float]:
    """Sample standard deviation over the figures of the single repetitions, for measures with at least two."""
    values: dict[str, list[float]] = {}
    for k in sorted({p.episode.repetition for p in episodes}):
        for name, parts in parts_of([p for p in episodes if p.episode.repetition == k], tested).items():
            sums = [np.array(list(part.values())).sum(axis=0) for part in parts if part]
            if len(sums) == len(parts) and all(total[1] > 0 for total in sums):
                values.setdefault(name, []).append(float(_figure(np.stack(sums))))
    return {name: statistics.stdev(each) for name, each in values.items() if len(each) > 1}


def _notes(
    a: Sequence[ComparedEpisode], b: Sequence[ComparedEpisode], sides: tuple[ComparedRun, ComparedRun], tested: bool
) -> list[str]:
    """Remarks on the rows, one sentence each."""
    found = ["abilities and Skill Score are grouped by the standard route's scenario type in both columns"]
    if not tested:
        found.append(f"{SIGNS}: success rate only in both columns, because some records lack the junction test")
    for side, episodes in zip(sides, (a, b), strict=True):
        failed = Counter(r.end for r in side.records if r.end in FAILED)
        if failed:
            text = ", ".join(f"{n} {end}" for end, n in sorted(failed.items()))
            found.append(f"{side.name}: episodes without a valid drive are left out, not counted 0: {text}")
        uneven = Counter(Counter(p.episode.route_id for p in episodes).values())
        if len(uneven) > 1:
            found.append(f"{side.name}: routes have {min(uneven)} to {max(uneven)} repetitions; each route counts once")
    if any(p.episode.drawn for p in a) and not any(p.episode.drawn for p in b):
        found.append(f"{sides[0].name} has scenarios with free parameters and {sides[1].name} none: the drop is a - b")
    return found
