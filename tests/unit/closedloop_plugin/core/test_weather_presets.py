"""CARLA's weather presets, and `param weather` of programs."""

from __future__ import annotations

from typing import Any

import pytest

from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.weather_presets import NAMES, PRESETS, program_weather
from lmms_eval_ad2.core.errors import Ad2Error


@pytest.mark.integration
def test_the_presets_are_carlas() -> None:
    carla = pytest.importorskip("carla")
    parameters = carla.WeatherParameters
    if not hasattr(parameters, "ClearNoon"):
        pytest.skip("a stand-in for the carla package")
    known = {name for name in dir(parameters) if isinstance(getattr(parameters, name), parameters)} - {"Default"}
    assert known == set(PRESETS)
    for name, weather in PRESETS.items():
        assert [getattr(weather, x) for x in NAMES] == pytest.approx(
            [getattr(getattr(parameters, name), x) for x in NAMES]
        )


def test_a_preset_or_single_parameters_replace_the_weather() -> None:
    route = Weather(cloudiness=30.0, fog_density=9.0)
    assert program_weather(None, route) is route
    found = program_weather("HardRainSunset", route)
    assert (found.precipitation, found.sun_altitude_angle, found.fog_density) == (100.0, 15.0, 7.0)
    assert program_weather({"precipitation": 40}, route) == Weather(
        cloudiness=30.0, fog_density=9.0, precipitation=40.0
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("ClearNon", "no preset 'ClearNon'; did you mean 'ClearNoon'"),
        ({"fog": 3}, r"unknown 'fog' .known: cloudiness"),
        ({"fog_density": "much"}, "fog_density: expected a number, found 'much'"),
        (3, "expected a preset's name or a dict, found int"),
    ],
)
def test_a_wrong_weather_is_named(value: Any, message: str) -> None:
    with pytest.raises(Ad2Error, match=message):
        program_weather(value, Weather())
