"""Lighting of a scene from CARLA's weather parameters: brightness, sky colours, fog, wetness."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from closedloop_plugin.core.routes import Weather


@dataclass(frozen=True, eq=False)
class SceneLighting:
    """Colours are RGB floats 0..255, shares 0..1. One object per weather (see light_of), hashed by identity."""

    day: float  # 0 night .. 1 day
    ambient: np.ndarray  # (3,) factor on every surface
    direct: np.ndarray  # (3,) additional factor on a surface that faces the sun
    sun: np.ndarray  # (3,) unit vector towards the sun, map frame
    zenith: np.ndarray  # (3,) colour of the sky overhead
    horizon: np.ndarray  # (3,) colour of the sky at the horizon
    fog: np.ndarray  # (3,) colour of distant objects
    thickness: float  # extinction coefficient k, 1/m: contrast at d metres is exp(-k d)
    clouds: float  # share of the sky
    wet: float  # share of reflection on the road
    rain: float
    wind: float

    @property
    def night(self) -> float:
        return 1.0 - self.day

    @property
    def far(self) -> float:
        """Visibility, m, at most 220: contrast is below 1.5 % = exp(-4.2) beyond."""
        return min(220.0, 4.2 / self.thickness)

    def clear(self, distance: np.ndarray | float) -> np.ndarray:
        """Share of an object's own colour at that distance (m): exp(-k d), Beer-Lambert."""
        return np.exp(-self.thickness * np.asarray(distance, dtype=float))


def _mix(a: np.ndarray, b: np.ndarray, share: float) -> np.ndarray:
    return a + (b - a) * share


@lru_cache(maxsize=64)
def light_of(weather: Weather) -> SceneLighting:
    """Lighting for a weather: night with the sun below -6 degrees, full day above 12, dusk in between."""
    altitude = weather.sun_altitude_angle
    day = min(max((altitude + 6.0) / 18.0, 0.0), 1.0)
    day = day * day * (3 - 2 * day)  # smoothstep
    clouds = min(max(weather.cloudiness / 100, 0.0), 1.0)
    rain = min(max(weather.precipitation / 100, 0.0), 1.0)
    fog = min(max(weather.fog_density / 100, 0.0), 1.0)
    low = day * max(0.0, 1.0 - max(altitude, 0.0) / 25.0) * (1 - clouds)  # share of a warm, low sun
    grey = max(clouds**1.5, 0.6 * rain)
    warm = np.array([1.0, 0.82, 0.62])
    tint = _mix(np.ones(3), warm, low)
    ambient = _mix(np.array([0.15, 0.165, 0.21]), _mix(np.full(3, 0.7), np.full(3, 0.8), grey) * tint, day)
    direct = tint * (0.42 * day * (1 - 0.9 * grey))
    zenith = _mix(np.array([66.0, 122.0, 200.0]), np.array([150.0, 156.0, 164.0]), grey)
    horizon = _mix(np.array([196.0, 216.0, 236.0]), np.array([192.0, 196.0, 200.0]), grey)
    horizon = _mix(horizon, np.array([255.0, 196.0, 130.0]), 0.75 * low)
    zenith = zenith * (1 - 0.25 * rain) * _mix(np.ones(3), np.array([0.85, 0.75, 0.8]), low)
    horizon = horizon * (1 - 0.22 * rain)
    zenith = _mix(np.array([7.0, 10.0, 24.0]), zenith, day)
    horizon = _mix(np.array([20.0, 24.0, 42.0]), horizon, day)
    mist = _mix(horizon, _mix(np.array([44.0, 47.0, 56.0]), np.array([200.0, 203.0, 206.0]), day), min(1.0, fog * 2))
    haze = min(1.0, 1.6 * fog)  # thick fog hides the sky too
    side, up = math.cos(math.radians(altitude)), math.sin(math.radians(altitude))
    azimuth = -math.radians(weather.sun_azimuth_angle)  # CARLA's is clockwise, the map frame's counter-clockwise
    return SceneLighting(
        day=day,
        ambient=ambient,
        direct=direct,
        sun=np.array([side * math.cos(azimuth), side * math.sin(azimuth), up]),
        zenith=_mix(zenith, mist, haze),
        horizon=_mix(horizon, mist, haze),
        fog=mist,
        thickness=0.0011 + 0.06 * fog**2 + 0.004 * rain,
        clouds=clouds * (1 - haze),
        wet=min(1.0, max(weather.wetness / 100, 0.8 * rain, 0.6 * weather.precipitation_deposits / 100)),
        rain=rain,
        wind=weather.wind_intensity / 100,
    )
