"""Weather: hand-worked values of the formulas in docs/openscenario.md."""

from __future__ import annotations

import math

import pytest

from closedloop_plugin.core.routes import Weather

pytest.importorskip("scenariogeneration")
from closedloop_plugin.threats.openscenario.environment import (
    azimuth,
    environment,
    illuminance,
    visual_range,
    wetness,
)


def test_illuminance_of_a_clear_an_overcast_and_a_night_sky() -> None:
    # 120 klx sin 30 = 60 klx; all eight oktas leave a quarter
    assert illuminance(Weather(cloudiness=0, sun_altitude_angle=30)) == pytest.approx(60e3)
    assert illuminance(Weather(cloudiness=100, sun_altitude_angle=30)) == pytest.approx(15e3)
    assert illuminance(Weather(sun_altitude_angle=-20)) == 0.1


def test_azimuth_is_counter_clockwise_from_north() -> None:
    assert azimuth(Weather(sun_azimuth_angle=0)) == pytest.approx(1.5 * math.pi)  # +x is east
    assert azimuth(Weather(sun_azimuth_angle=90)) == pytest.approx(math.pi)  # -y is south


def test_the_visual_range_is_that_of_the_cameras_extinction() -> None:
    # 0.0011 + 0.06 * 0.5^2 = 0.0161 per metre
    assert visual_range(Weather(fog_density=50)) == pytest.approx(3.912 / 0.0161)


@pytest.mark.parametrize(("percent", "expected"), [(0, "dry"), (5, "dry"), (20, "moist"), (90, "wetWithPuddles")])
def test_wetness_by_the_wetter_value(percent: float, expected: str) -> None:
    assert wetness(Weather(precipitation_deposits=percent)) == expected


def test_the_element_has_the_numbers() -> None:
    found = environment(Weather(cloudiness=50, precipitation=40, wind_intensity=30)).get_element()
    sky = found.find("Weather")
    assert sky is not None and sky.get("fractionalCloudCover") == "fourOktas"
    assert {k: v for child in sky for k, v in child.attrib.items() if "precipitation" in k or k == "speed"} == {
        "precipitationType": "rain", "precipitationIntensity": "20.0", "speed": "6.0",
    }  # fmt: skip
