"""Random numbers of one made route, independent of those of all others, and its weather."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from closedloop_plugin.core.routes import Weather

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


# Of the 220 routes: night (sun below the horizon) 24 %, sun below 20 degrees 23 %; rain 75 % at night and 40 % by day,
# four fifths of it heavy; dense fog 64 % at night and 21 % by day.
NIGHT, LOW_SUN = 0.24, 0.23
RAIN_AT_NIGHT, RAIN_BY_DAY, HEAVY = 0.75, 0.40, 0.83
FOG_AT_NIGHT, FOG_BY_DAY = 0.64, 0.21


def drawn_weather(draws: RouteDraws) -> Weather:
    night = draws.chance(NIGHT)
    low = draws.chance(LOW_SUN / (1 - NIGHT))
    rain = draws.chance(RAIN_AT_NIGHT if night else RAIN_BY_DAY)
    heavy = draws.chance(HEAVY)
    fog = draws.chance(FOG_AT_NIGHT if night else FOG_BY_DAY)
    falls = draws.between(*((50, 100) if heavy else (15, 50)), 0) if rain else 0.0
    return Weather(
        cloudiness=draws.between(60, 100, 0) if rain else draws.between(0, 80, 0),
        precipitation=falls,
        precipitation_deposits=draws.between(50, 100, 0) if rain else draws.either((0.0, 50.0), (0.55, 0.45)),
        wetness=draws.between(20, 100, 0) if draws.chance(0.5 if rain else 0.15) else 0.0,
        wind_intensity=falls if rain else 10.0,
        sun_azimuth_angle=draws.between(0, 360, 0),
        sun_altitude_angle=draws.between(*((-90, -8) if night else (0, 20) if low else (30, 90)), 0),
        fog_density=draws.between(*((50, 100) if night else (40, 70)), 0) if fog else draws.between(0, 10, 0),
    )
