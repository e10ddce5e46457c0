"""Weather and light as an OpenSCENARIO Environment, from CARLA's parameters.

CARLA's percentages have no physical unit; the formulas below are this project's, and stated in docs/openscenario.md.
"""

from __future__ import annotations

import math
from typing import Any

from closedloop_plugin.core.routes import Weather
from closedloop_plugin.threats.openscenario.library import xosc
from closedloop_plugin.worlds.embedded.camera.lighting import light_of
from closedloop_plugin.worlds.embedded.world import grip

CONTRAST = 3.912  # ln 50: Koschmieder's visual range is CONTRAST / extinction coefficient
NOON_LX = 120e3  # illuminance of an unclouded sky with the sun in the zenith
NIGHT_LX = 0.1
FULL_RAIN = 50.0  # mm/h at a precipitation of 100 %
FULL_WIND = 20.0  # m/s at a wind intensity of 100 %
OKTAS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")
WETNESS = ((5.0, "dry"), (40.0, "moist"), (math.inf, "wetWithPuddles"))  # up to this percentage


def environment(weather: Weather) -> Any:
    """The Environment of an EnvironmentAction."""
    lib = xosc()
    rain = weather.precipitation
    return lib.Environment(
        "weather",
        weather=lib.Weather(
            cloudstate=getattr(lib.FractionalCloudCover, f"{OKTAS[round(_share(weather.cloudiness) * 8)]}Oktas"),
            sun=lib.Sun(illuminance(weather), azimuth(weather), math.radians(weather.sun_altitude_angle)),
            fog=lib.Fog(visual_range(weather)),
            precipitation=lib.Precipitation(
                lib.PrecipitationType.rain if rain > 0 else lib.PrecipitationType.dry, FULL_RAIN * _share(rain)
            ),
            wind=lib.Wind(0.0, FULL_WIND * _share(weather.wind_intensity)),
        ),
        roadcondition=lib.RoadCondition(grip(weather), wetness=getattr(lib.Wetness, wetness(weather))),
    )


def illuminance(weather: Weather) -> float:
    """Lux. Cloud factor of Kasten and Czeplak (Solar Energy 24, 1980): 1 - 0.75 (oktas / 8)^3.4."""
    up = max(math.sin(math.radians(weather.sun_altitude_angle)), 0.0)
    return max(NOON_LX * up * (1 - 0.75 * _share(weather.cloudiness) ** 3.4), NIGHT_LX)


def azimuth(weather: Weather) -> float:
    """Radians in [0, 2 pi), counter-clockwise from north (+y). CARLA's is clockwise from +x (core/frames.py)."""
    return (-math.radians(weather.sun_azimuth_angle) - math.pi / 2) % math.tau


def visual_range(weather: Weather) -> float:
    """Metres, from the extinction coefficient with which the embedded camera draws fog and rain."""
    return CONTRAST / light_of(weather).thickness


def wetness(weather: Weather) -> str:
    """The member of Wetness, by the wetter of wetness and deposits."""
    percent = max(weather.wetness, weather.precipitation_deposits)
    return next(name for most, name in WETNESS if percent <= most)


def _share(percent: float) -> float:
    return min(max(percent, 0.0), 100.0) / 100
