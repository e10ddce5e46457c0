"""Conversion between routes.Weather and carla.WeatherParameters, which have the same field names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import carla

from closedloop_plugin.core.routes import Weather

NAMES = tuple(f.name for f in fields(Weather))
LOW_SUN, CLOUDS, FOG, CLOSE = 15.0, 80.0, 40.0, 10.0  # degrees, then percent: as the leaderboard's automatic lights


def parameters(weather: Weather) -> Any:
    """carla.WeatherParameters; fields that a route does not have (fog distance, dust) keep CARLA's defaults."""
    return carla.WeatherParameters(**{name: getattr(weather, name) for name in NAMES})


def needs_headlights(weather: Weather) -> bool:
    """Whether headlights are on: one condition is met, or two are within CLOSE of it."""
    margins = weather.sun_altitude_angle - LOW_SUN, CLOUDS - weather.cloudiness, FOG - weather.fog_density
    return min(margins) < 0 or sum(margin < CLOSE for margin in margins) >= 2
