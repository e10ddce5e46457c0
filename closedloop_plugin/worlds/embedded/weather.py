"""What weather does to tyres, eyes and lamps. CARLA's parameters in, plain numbers out."""

from __future__ import annotations

import math

from closedloop_plugin.routes import Weather


def grip(weather: Weather) -> float:
    """Share of the dry tyre limit, 1.0 dry to 0.6 in standing water. Rain wets a dry road as it falls."""
    wet = max(_share(weather.wetness), 0.6 * _share(weather.precipitation))
    return max(0.6, 1.0 - 0.2 * wet - 0.2 * _share(weather.precipitation_deposits))


def visibility(weather: Weather) -> float:
    """Metres at which a contrast falls to 2 % (Koschmieder): 3,000 clear, about 120 in full fog, rain takes some."""
    haze = 3.9 / 3000 + 0.031 * _share(weather.fog_density) ** 1.5 + 0.004 * _share(weather.precipitation)
    return 3.9 / haze


def night(weather: Weather) -> bool:
    """Headlights are on: sun low or gone, thick fog, heavy rain."""
    dim = weather.fog_density > 40 or weather.precipitation > 60
    return weather.sun_altitude_angle < 5.0 or dim


def _share(percent: float) -> float:
    return min(max(percent, 0.0), 100.0) / 100 if math.isfinite(percent) else 0.0
