"""CARLA's weather presets by name, and the weather of a program's `param weather`.

Values of carla.WeatherParameters of CARLA 0.9.16; a test compares them if the carla package is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from closedloop_plugin.core.routes import Weather
from lmms_eval_ad2.core.errors import Ad2Error, near_hint
from lmms_eval_ad2.core.numbers import is_number

NAMES = tuple(f.name for f in fields(Weather))
NIGHT, SUNSET, NOON = -90.0, 15.0, 45.0  # altitude of the sun, degrees
# name -> cloudiness, precipitation, deposits, wetness, wind (%), altitude of the sun (degrees), fog (%).
_ROWS: dict[str, tuple[float, float, float, float, float, float, float]] = {
    "ClearNight": (5, 0, 0, 0, 10, NIGHT, 60),
    "ClearNoon": (5, 0, 0, 0, 10, NOON, 2),
    "ClearSunset": (5, 0, 0, 0, 10, SUNSET, 2),
    "CloudyNight": (60, 0, 0, 0, 10, NIGHT, 60),
    "CloudyNoon": (60, 0, 0, 0, 10, NOON, 3),
    "CloudySunset": (60, 0, 0, 0, 10, SUNSET, 3),
    "DustStorm": (100, 0, 0, 0, 100, NOON, 2),
    "HardRainNight": (100, 100, 90, 100, 100, NIGHT, 100),
    "HardRainNoon": (100, 100, 90, 0, 100, NOON, 7),
    "HardRainSunset": (100, 100, 90, 0, 100, SUNSET, 7),
    "MidRainSunset": (60, 60, 60, 0, 60, SUNSET, 3),
    "MidRainyNight": (80, 60, 60, 80, 60, NIGHT, 60),
    "MidRainyNoon": (60, 60, 60, 0, 60, NOON, 3),
    "SoftRainNight": (60, 30, 50, 60, 30, NIGHT, 60),
    "SoftRainNoon": (20, 30, 50, 0, 30, NOON, 3),
    "SoftRainSunset": (20, 30, 50, 0, 30, SUNSET, 2),
    "WetCloudyNight": (60, 0, 50, 60, 10, NIGHT, 60),
    "WetCloudyNoon": (60, 0, 50, 0, 10, NOON, 3),
    "WetCloudySunset": (60, 0, 50, 0, 10, SUNSET, 2),
    "WetNight": (5, 0, 50, 60, 10, NIGHT, 60),
    "WetNoon": (5, 0, 50, 0, 10, NOON, 3),
    "WetSunset": (5, 0, 50, 0, 10, SUNSET, 2),
}
_COLUMNS = (
    "cloudiness", "precipitation", "precipitation_deposits", "wetness", "wind_intensity", "sun_altitude_angle",
    "fog_density",
)  # fmt: skip
PRESETS = {name: replace(Weather(), **dict(zip(_COLUMNS, map(float, row), strict=True))) for name, row in _ROWS.items()}


def program_weather(value: Any, otherwise: Weather) -> Weather:
    """Weather from a program's `param weather`: the name of a preset, or a dict of parameters (as in Scenic)."""
    if value is None:
        return otherwise
    if isinstance(value, str):
        if value not in PRESETS:
            raise Ad2Error(f"param weather: CARLA has no preset {value!r}{near_hint(value, PRESETS)}; or a dict")
        return PRESETS[value]
    if not isinstance(value, Mapping):
        raise Ad2Error(f"param weather: expected a preset's name or a dict, found {type(value).__name__}")
    for name, number in value.items():
        if name not in NAMES:
            raise Ad2Error(f"param weather: unknown {name!r}{near_hint(str(name), NAMES)}")
        if not is_number(number):
            raise Ad2Error(f"param weather: {name}: expected a number, found {number!r}")
    return replace(otherwise, **{name: float(number) for name, number in value.items()})
