"""Properties of all actuations: finite, within limits, correct sign, no impossible wheel angle for LIMO."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.state import Control
from closedloop_plugin.robots.vehicles.base import Twist, VehicleCalibration, WordCommand
from closedloop_plugin.robots.vehicles.limo import ACKERMANN, INNER
from closedloop_plugin.robots.vehicles.limo_driver import RELEASES, LimoDriverRelease, driver_angle, frame
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

FINITE = st.floats(allow_nan=False, allow_infinity=False)
USUAL = st.floats(-1.0, 1.0)
CONTROLS = st.builds(Control, FINITE | USUAL, FINITE | USUAL, FINITE | st.just(0.0))
GAIN = st.floats(0.2, 5.0)
CALIBRATIONS = st.just(VehicleCalibration()) | st.builds(
    VehicleCalibration, GAIN, GAIN, st.floats(-0.5, 0.5), st.floats(1.0, 60.0), st.floats(0.02, 0.5)
)


@given(st.sampled_from(list(VEHICLES.values())), CONTROLS, CALIBRATIONS)
def test_actuations_stay_within_the_limits(vehicle, control: Control, calibration: VehicleCalibration) -> None:
    sent = replace(vehicle, calibration=calibration).actuation(control)
    if isinstance(sent, WordCommand):
        assert sent.text in ("forward", "left", "right", "stop")
        return
    limits = vehicle.limits
    assert all(map(math.isfinite, (sent.vx, sent.vy, sent.wz)))
    assert 0.0 <= sent.vx <= limits.speed
    assert sent.vy == 0.0
    assert abs(sent.wz) <= limits.yaw_rate
    assert sent.vx > 0.0 or sent.wz == 0.0  # a standing vehicle never turns


@given(st.sampled_from(list(VEHICLES.values())), CONTROLS)
def test_steer_to_the_right_turns_to_the_right(vehicle, control: Control) -> None:
    sent = vehicle.actuation(control)
    right = math.copysign(1.0, control.steer)
    if isinstance(sent, Twist):
        assert sent.wz * right <= 0.0
    else:
        assert sent.text != ("left" if right > 0 else "right")


@given(CONTROLS, CALIBRATIONS, st.sampled_from(list(RELEASES.values())))
def test_limos_wheel_angle_is_always_possible(
    control: Control, calibration: VehicleCalibration, release: LimoDriverRelease
) -> None:
    """The driver cannot be relied on: no release clamps correctly, one compares in the wrong unit."""
    sent = replace(VEHICLES["limo-ackermann"], calibration=calibration).actuation(control)
    assert isinstance(sent, Twist)
    angle = driver_angle(sent, release)
    if sent == Twist(0.0):
        assert math.isnan(angle)
        assert frame(sent, ACKERMANN, release).steering == 0
    else:
        assert abs(angle) <= INNER + 1e-9
        assert angle * sent.wz >= 0.0


def test_the_bound_above_can_fail() -> None:
    """A differential base's Twist: radius 0.28563 m, atan(0.2 / 0.19963) = 45.05 degrees if nothing is clamped."""
    sent = VEHICLES["limo-differential"].actuation(Control(-1.0, 1.0))
    assert isinstance(sent, Twist)
    assert math.degrees(driver_angle(sent, RELEASES["2025-01"])) == pytest.approx(45.05, abs=0.01)
    assert math.degrees(driver_angle(sent, RELEASES["2021-12"])) == pytest.approx(28.0, abs=0.1)
