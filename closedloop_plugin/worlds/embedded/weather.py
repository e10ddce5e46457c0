"""What weather does to tyres, from CARLA's parameters. What it does to the eyes is the camera's (camera/light.py)."""

from __future__ import annotations

import math

from closedloop_plugin.core.routes import Weather


def grip(weather: Weather) -> float:
    """Share of the dry tyre limit, 1.0 dry to 0.6 in standing water. Rain wets a dry road as it falls."""
    wet = max(_share(weather.wetness), 0.6 * _share(weather.precipitation))
    return max(0.6, 1.0 - 0.2 * wet - 0.2 * _share(weather.precipitation_deposits))


def _share(percent: float) -> float:
    return min(max(percent, 0.0), 100.0) / 100 if math.isfinite(percent) else 0.0
