"""Weather both ways: ours (routes.Weather) and carla.WeatherParameters, whose names are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import carla

from closedloop_plugin.core.routes import Weather
from lmms_eval_ad2.errors import Ad2Error

NAMES = tuple(f.name for f in fields(Weather))
LOW_SUN, CLOUDS, FOG, CLOSE = 15.0, 80.0, 40.0, 10.0  # degrees, percent, percent: of the leaderboard's own light switch


def parameters(weather: Weather) -> Any:
    """carla.WeatherParameters; what a route does not speak of (fog distance, dust) stays CARLA's default."""
    return carla.WeatherParameters(**{name: getattr(weather, name) for name in NAMES})


def dark(weather: Weather) -> bool:
    """Whether cars have their headlights on: one thing alone is enough, or two nearly so."""
    left = weather.sun_altitude_angle - LOW_SUN, CLOUDS - weather.cloudiness, FOG - weather.fog_density
    return min(left) < 0 or sum(one < CLOSE for one in left) >= 2


def stated(said: Any, otherwise: Weather) -> Weather:
    """What a program's `param weather` says, Scenic's way: a preset of CARLA's by name, or a dict of parameters."""
    if said is None:
        return otherwise
    if isinstance(said, str):
        preset = getattr(carla.WeatherParameters, said, None)
        if not isinstance(preset, carla.WeatherParameters):
            raise Ad2Error(f"param weather: CARLA has no preset {said!r}; ClearNoon, HardRainSunset ... or a dict")
        return replace(otherwise, **{name: float(getattr(preset, name)) for name in NAMES})
    if isinstance(said, Mapping):
        unknown = sorted(set(said) - set(NAMES))
        if unknown:
            raise Ad2Error(f"param weather: unknown {unknown[0]!r}; known: {', '.join(NAMES)}")
        return replace(otherwise, **{name: float(value) for name, value in said.items()})
    raise Ad2Error(f"param weather: expected a preset's name or a dict, found {type(said).__name__}")
