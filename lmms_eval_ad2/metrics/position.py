"""Is an option chosen for its place? How often each place was chosen, against how often without any preference."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from lmms_eval_ad2.metrics.summary import Floats, Interval

_CELLS = 2_000_000  # drawn at once: bounds the memory of a bootstrap


@dataclass(frozen=True, slots=True)
class Preference:
    """Shares as fractions, by place from 0. `expected`: without preference, each offered place equally often.

    `distance`: total variation distance of the two, 0 (no preference) to 1. It cannot be below 0, so a model without
    any preference has a small positive one by chance; compare with a random model's on the same questions.
    """

    n: int
    counts: tuple[int, ...]
    shares: tuple[float, ...]
    expected: tuple[float, ...]
    distance: float
    ci: Interval | None
    share_ci: tuple[Interval | None, ...]


def preference(
    places: Sequence[int],
    offered: Sequence[int],
    *,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> Preference | None:
    """Preference of the chosen `places` (from 0), each out of `offered` many; None without any choice.

    Intervals by cluster bootstrap (percentiles), None with fewer than two clusters. Raises ValueError for a place
    that was not offered.
    """
    if not places:
        return None
    if any(not 0 <= place < many for place, many in zip(places, offered, strict=True)):
        raise ValueError("a chosen place was not offered")
    chosen, even = _by_cluster(places, offered, clusters if clusters is not None else range(len(places)))
    shares, expected = _shares(chosen.sum(axis=0), even.sum(axis=0))
    drawn = _resampled(chosen, even, np.random.default_rng(seed), resamples)
    spans: list[Interval | None] = [None] * (1 + len(shares))
    if drawn is not None:
        low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2), axis=0)
        spans = [Interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    return Preference(
        n=len(places),
        counts=tuple(int(c) for c in chosen.sum(axis=0)),
        shares=tuple(map(float, shares)),
        expected=tuple(map(float, expected)),
        distance=float(_distance(shares, expected)),
        ci=spans[0],
        share_ci=tuple(spans[1:]),
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


def _resampled(chosen: Floats, even: Floats, rng: np.random.Generator, resamples: int) -> Floats | None:
    """Distance and shares of each draw, of shape (resamples, 1 + places); None with fewer than two clusters."""
    count = len(chosen)
    if count < 2:
        return None
    parts = []
    step = max(1, _CELLS // count)
    for start in range(0, resamples, step):
        # How often each cluster was drawn, in place of the draws themselves.
        weights = rng.multinomial(count, np.full(count, 1 / count), size=min(step, resamples - start))
        shares, expected = _shares(weights @ chosen, weights @ even)
        parts.append(np.concatenate([_distance(shares, expected)[:, None], shares], axis=1))
    return np.concatenate(parts)
