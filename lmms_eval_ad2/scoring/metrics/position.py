"""Position bias of multiple-choice answers: how often each position is chosen, compared with no preference.

Used for circular evaluation, in which the options of a question are shifted from one presentation to the next.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from lmms_eval_ad2.scoring.metrics.intervals import (
    FRACTION,
    NOT_NEGATIVE,
    ClusterJackknife,
    ConfidenceInterval,
    Floats,
    mean_interval,
    unit_moves,
)


@dataclass(frozen=True, slots=True)
class PositionBias:
    """Shares of the answers by position, counted from 0, as fractions.

    `expected`: shares without preference, in which each offered position is equally likely. `distance`: total variation
    distance of `shares` and `expected`, 0 (no preference) to 1. It is never negative, so chance alone makes it slightly
    positive; compare it with that of a random model on the same questions.
    """

    n: int
    counts: tuple[int, ...]
    shares: tuple[float, ...]
    expected: tuple[float, ...]
    distance: float
    ci: ConfidenceInterval | None
    share_ci: tuple[ConfidenceInterval | None, ...]


def preference(
    places: Sequence[int],
    offered: Sequence[int],
    *,
    clusters: Sequence[Hashable] | None = None,
) -> PositionBias | None:
    """Position bias of the chosen `places` (positions from 0), each one of `offered` options; None without choices.

    95 % intervals by the cluster jackknife, None for fewer than two clusters. Raises ValueError for a position that
    was not offered.
    """
    if not places:
        return None
    if any(not 0 <= place < n for place, n in zip(places, offered, strict=True)):
        raise ValueError("a chosen position was not offered")
    names = clusters if clusters is not None else range(len(places))
    chosen, uniform = _by_cluster(places, offered, names)
    shares, expected = _shares(chosen.sum(axis=0), uniform.sum(axis=0))
    hits = ([float(place == k) for place in places] for k in range(len(shares)))
    return PositionBias(
        n=len(places),
        counts=tuple(int(c) for c in chosen.sum(axis=0)),
        shares=tuple(map(float, shares)),
        expected=tuple(map(float, expected)),
        distance=float(_distance(shares, expected)),
        ci=_distance_interval(chosen, uniform),
        share_ci=tuple(mean_interval(hit, clusters=names, bounds=FRACTION) for hit in hits),
    )


def _by_cluster(places: Sequence[int], offered: Sequence[int], clusters: Sequence[Hashable]) -> tuple[Floats, Floats]:
    """Number of choices and its expectation per cluster: both of shape (clusters, positions).

    Without preference a question with n options adds 1/n to each of its positions.
    """
    numbers: dict[Hashable, int] = {}
    rows = [numbers.setdefault(name, len(numbers)) for name in clusters]
    chosen = np.zeros((len(numbers), max(offered)))
    uniform = np.zeros_like(chosen)
    for row, place, n in zip(rows, places, offered, strict=True):
        chosen[row, place] += 1
        uniform[row, :n] += 1 / n
    return chosen, uniform


def _shares(chosen: Floats, uniform: Floats) -> tuple[Floats, Floats]:
    total = chosen.sum(axis=-1, keepdims=True)
    return chosen / total, uniform / total


def _distance(shares: Floats, expected: Floats) -> Floats:
    """Total variation distance d = 1/2 * sum_k |share_k - expected_k| over the positions k (last axis)."""
    distance: Floats = np.abs(shares - expected).sum(axis=-1) / 2
    return distance


def _distance_interval(chosen: Floats, uniform: Floats) -> ConfidenceInterval | None:
    """Jackknife interval of the distance; None for fewer than two clusters, or if all are alike."""
    if len(chosen) < 2:
        return None
    all_chosen, all_uniform = chosen.sum(axis=0), uniform.sum(axis=0)
    without = _distance(*_shares(all_chosen - chosen, all_uniform - uniform))  # d(-g), shape (clusters,)
    weights = chosen.sum(axis=1) / chosen.sum()
    distance = float(_distance(*_shares(all_chosen, all_uniform)))
    found = ClusterJackknife.of_moves(distance, unit_moves(distance, without, len(chosen)), weights)
    interval = found.interval(NOT_NEGATIVE)
    return None if interval is None else ConfidenceInterval(interval.low, min(1.0, interval.high))
