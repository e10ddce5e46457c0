"""Conversion between routes.Weather and carla.WeatherParameters, which have the same field names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import carla

from closedloop_plugin.core.routes import Weather
from lmms_eval_ad2.errors import Ad2Error

NAMES = tuple(f.name for f in fields(Weather))
LOW_SUN, CLOUDS, FOG, CLOSE = 15.0, 80.0, 40.0, 10.0  # degrees, then percent: as the leaderboard's automatic lights


def parameters(weather: Weather) -> Any:
    """carla.WeatherParameters; fields that a route does not have (fog distance, dust) keep CARLA's defaults."""
    return carla.WeatherParameters(**{name: getattr(weather, name) for name in NAMES})


def needs_headlights(weather: Weather) -> bool:
    """Whether headlights are on: one condition is met, or two are within CLOSE of it."""
    margins = weather.sun_altitude_angle - LOW_SUN, CLOUDS - weather.cloudiness, FOG - weather.fog_density
    return min(margins) < 0 or sum(margin < CLOSE for margin in margins) >= 2


def program_weather(value: Any, otherwise: Weather) -> Weather:
    """Weather from a program's `param weather`: the name of a CARLA preset, or a dict of parameters (as in Scenic)."""
    if value is None:
        return otherwise
    if isinstance(value, str):
        preset = getattr(carla.WeatherParameters, value, None)
        if not isinstance(preset, carla.WeatherParameters):
            raise Ad2Error(f"param weather: CARLA has no preset {value!r}; ClearNoon, HardRainSunset ... or a dict")
        return replace(otherwise, **{name: float(getattr(preset, name)) for name in NAMES})
    if isinstance(value, Mapping):
        unknown = sorted(set(value) - set(NAMES))
        if unknown:
            raise Ad2Error(f"param weather: unknown {unknown[0]!r}; known: {', '.join(NAMES)}")
        return replace(otherwise, **{name: float(value) for name, value in value.items()})
    raise Ad2Error(f"param weather: expected a preset's name or a dict, found {type(value).__name__}")
