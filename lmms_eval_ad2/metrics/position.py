"""Is an option chosen for its place? How often each place was chosen, against how often without any preference."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from lmms_eval_ad2.metrics.intervals import (
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
    """Shares as fractions, by place from 0. `expected`: without preference, each offered place equally often.

    `distance`: total variation distance of the two, 0 (no preference) to 1. It cannot be below 0, so a model without
    any preference has a small positive one by chance; compare with a random model's on the same questions.
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
    """Preference of the chosen `places` (from 0), each out of `offered` many; None without any choice.

    Intervals (95 %) by leaving out clusters, None with fewer than two. Raises ValueError for a place that was not
    offered.
    """
    if not places:
        return None
    if any(not 0 <= place < many for place, many in zip(places, offered, strict=True)):
        raise ValueError("a chosen place was not offered")
    names = clusters if clusters is not None else range(len(places))
    chosen, even = _by_cluster(places, offered, names)
    shares, expected = _shares(chosen.sum(axis=0), even.sum(axis=0))
    hits = ([float(place == k) for place in places] for k in range(len(shares)))
    return PositionBias(
        n=len(places),
        counts=tuple(int(c) for c in chosen.sum(axis=0)),
        shares=tuple(map(float, shares)),
        expected=tuple(map(float, expected)),
        distance=float(_distance(shares, expected)),
        ci=_span(chosen, even),
        share_ci=tuple(mean_interval(hit, clusters=names, bounds=FRACTION) for hit in hits),
    )


def _by_cluster(places: Sequence[int], offered: Sequence[int], clusters: Sequence[Hashable]) -> tuple[Floats, Floats]:
    """Choices and their expectation, summed by cluster: both of shape (clusters, places)."""
    numbers: dict[Hashable, int] = {}
    rows = [numbers.setdefault(name, len(numbers)) for name in clusters]
    chosen = np.zeros((len(numbers), max(offered)))
    even = np.zeros_like(chosen)
    for row, place, many in zip(rows, places, offered, strict=True):
        chosen[row, place] += 1
        even[row, :many] += 1 / many
    return chosen, even


def _shares(chosen: Floats, even: Floats) -> tuple[Floats, Floats]:
    total = chosen.sum(axis=-1, keepdims=True)
    return chosen / total, even / total


def _distance(shares: Floats, expected: Floats) -> Floats:
    distance: Floats = np.abs(shares - expected).sum(axis=-1) / 2
    return distance


def _span(chosen: Floats, even: Floats) -> ConfidenceInterval | None:
    """The interval of the distance, from what is left of it without each cluster; None with fewer than two clusters."""
    if len(chosen) < 2:
        return None
    all_chosen, all_even = chosen.sum(axis=0), even.sum(axis=0)
    without = _distance(*_shares(all_chosen - chosen, all_even - even))
    weights = chosen.sum(axis=1) / chosen.sum()
    distance = float(_distance(*_shares(all_chosen, all_even)))
    span = ClusterJackknife(distance, unit_moves(distance, without, len(chosen)), weights).interval(NOT_NEGATIVE)
    return ConfidenceInterval(span.low, min(1.0, span.high))
