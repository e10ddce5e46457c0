"""RouteDraws: random numbers of one made route, independent of those of all others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class RouteDraws:
    """Random numbers whose seed is a hash of some parts, so that they depend on nothing that was drawn elsewhere."""

    def __init__(self, *parts: object) -> None:
        digest = hashlib.sha256(" ".join(str(part) for part in parts).encode()).digest()
        self.rng = np.random.default_rng(int.from_bytes(digest[:16], "big"))

    def between(self, low: float, high: float, digits: int = 1) -> float:
        """Uniform from low to high, rounded as in route files."""
        return round(float(self.rng.uniform(low, high)), digits)

    def interval(self, low: tuple[float, float], width: tuple[float, float]) -> tuple[float, float]:
        """(from, to): the lower end from the range `low`, the upper one farther by a value from the range `width`."""
        start = self.between(*low)
        return start, round(start + self.between(*width), 1)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def either(self, values: Sequence[T], shares: Sequence[float] | None = None) -> T:
        """One of the values, with these shares or equally often."""
        return values[int(self.rng.choice(len(values), p=shares))]

    def sign(self) -> int:
        return self.either((1, -1))

    def order(self, values: Sequence[T]) -> list[T]:
        """The values in random order."""
        return [values[i] for i in self.rng.permutation(len(values))]
