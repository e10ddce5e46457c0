"""Daylight and visibility, with expected values computed by hand."""

from __future__ import annotations

import math

import pytest

from closedloop_plugin.core.routes import Weather
from closedloop_plugin.worlds.embedded.camera.lighting import light_of


@pytest.mark.parametrize(("altitude", "day"), [(-10.0, 0.0), (3.0, 0.5), (45.0, 1.0)])
def test_daylight_depends_on_the_altitude_of_the_sun(altitude: float, day: float) -> None:
    """3 degrees is half way from -6 to 12."""
    assert light_of(Weather(sun_altitude_angle=altitude)).day == pytest.approx(day)


def test_visibility_decreases_exponentially_with_fog() -> None:
    clear, thick = light_of(Weather(fog_density=0.0)), light_of(Weather(fog_density=100.0))
    assert float(clear.clear(100.0)) == pytest.approx(math.exp(-0.11))
    assert float(thick.clear(50.0)) == pytest.approx(math.exp(-0.0611 * 50))
    assert thick.far < 100.0 < clear.far
