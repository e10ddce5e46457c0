"""From a Control to an actuation: computed by hand (LIMO's figures are wheelbase 0.2 m, track 0.172 m, 28 degrees), and
properties of all actuations: finite, within limits, correct sign, no impossible wheel angle for LIMO.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.state import COAST, FULL_BRAKE, Control
from closedloop_plugin.driver.interpreters.parsing.waypoints import steer_at
from closedloop_plugin.robots.onboard.clamp import problem, vehicle_problem
from closedloop_plugin.robots.vehicles.drivers import (
    ACKERMANN,
    INNER,
    driven,
    driver_angle,
    serial_frame,
)
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES
from closedloop_plugin.robots.vehicles.vehicle import Twist, VehicleCalibration, WordCommand

TURNING_RADIUS = VEHICLES["limo-ackermann"].ceiling.turning_radius

TWISTED = [v for v in VEHICLES.values() if v.kind == "twist"]
IDS = [v.name for v in TWISTED]


def twist(name: str, *control: float, **calibration: float) -> Twist:
    vehicle = replace(VEHICLES[name], calibration=VehicleCalibration(**calibration))
    sent = vehicle.actuation(Control(*control))
    assert isinstance(sent, Twist)
    return sent


def test_the_seven_supported_vehicles() -> None:
    assert list(VEHICLES) == [
        "limo-differential", "limo-ackermann", "limo-tracked", "limo-mecanum", "jetbot-waveshare",
        "jetbot-dusty-ros1", "jetbot-dusty-ros2",
    ]  # fmt: skip
    assert [v.mode for v in VEHICLES.values()] == [0, 1, 0, 2, None, None, None]
    assert [v.name for v in VEHICLES.values() if v.watchdog_s] == ["jetbot-waveshare"]


def test_limos_turning_radius() -> None:
    """0.2 / tan 28 = 0.3761 to the inner rear wheel, and half a track: 0.4621 m; a central wheel turns 23.4 degrees."""
    assert pytest.approx(0.46215, abs=1e-5) == TURNING_RADIUS
    assert math.degrees(math.atan(0.2 / TURNING_RADIUS)) == pytest.approx(23.4, abs=0.01)


@pytest.mark.parametrize("name", ["limo-ackermann", "limo-differential", "limo-mecanum", "jetbot-waveshare"])
def test_half_steer_is_17_5_degrees(name: str) -> None:
    """0.75 x 0.4 = 0.3 m/s; tan 17.5 / 0.2 = 1.5765 / m; 0.3 x 1.5765 = 0.47295 rad/s, to the right."""
    sent = twist(name, 0.5, 0.75)
    assert (sent.vx, sent.vy) == (pytest.approx(0.3), 0.0)
    assert sent.wz == pytest.approx(-0.47295, abs=1e-5)


def test_full_lock_is_limited_by_the_turning_radius_or_the_yaw_rate() -> None:
    """tan 35 / 0.2 = 3.501 / m. Ackermann: 0.4 / 0.46215 = 0.86553 rad/s. Differential: 1 rad/s at 1 / 3.501 m/s.
    JetBot, whose yaw rate is not the limit: 0.4 x 3.501 = 1.40042 rad/s."""
    assert twist("limo-ackermann", -1.0, 1.0) == Twist(0.4, 0.0, pytest.approx(0.86553, abs=1e-5))
    assert twist("limo-differential", -1.0, 1.0) == Twist(pytest.approx(0.28563, abs=1e-5), 0.0, 1.0)
    assert twist("jetbot-waveshare", -1.0, 1.0) == Twist(0.4, 0.0, pytest.approx(1.40042, abs=1e-5))


@pytest.mark.parametrize("vehicle", VEHICLES.values(), ids=list(VEHICLES))
def test_brake_overrides_throttle_and_without_throttle_the_vehicle_stops(vehicle) -> None:
    still = WordCommand("stop") if vehicle.kind == "word" else Twist(0.0)
    for control in (COAST, FULL_BRAKE, Control(1.0, 1.0, 0.05), Control(-0.7, 0.0, 0.0), Control(0.3, 0.9, 1.0)):
        assert vehicle.actuation(control) == still
    assert vehicle.actuation(Control(0.0, 0.5, 0.049)) != still  # below the threshold of post-processing


@pytest.mark.parametrize("steer", [-0.66, -0.2, 0.1, 0.4, 0.66])
def test_the_same_steer_is_the_same_arc_on_every_platform(steer: float) -> None:
    """Up to LIMO's stop at 23.4 degrees; steer = 1 is 35 degrees."""
    arcs = {v.name: sent.wz / sent.vx for v in TWISTED if (sent := twist(v.name, steer, 0.6))}
    assert set(arcs) == set(IDS)
    expected = -math.tan(steer * math.radians(35)) / 0.2
    assert all(arc == pytest.approx(expected, abs=1e-9) for arc in arcs.values()), arcs


@pytest.mark.parametrize(("forward", "left"), [(8.0, 0.0), (8.0, 1.5), (8.0, -2.5), (6.0, 1.0)])
def test_the_arc_of_an_interpreter_is_driven(forward: float, left: float) -> None:
    """Pure pursuit aims a car's rear axle at a point; the robot drives the same arc, scaled down. The tolerance
    covers the wheelbases of the two cars, 2.9 m and 2.8 m."""
    sent = twist("limo-ackermann", steer_at(forward, left), 0.5)
    circle = 2 * left / ((forward + 1.45) ** 2 + left**2)
    assert sent.wz / sent.vx / 14.0 == pytest.approx(circle, rel=0.05, abs=1e-9)


@pytest.mark.parametrize("vehicle", TWISTED, ids=IDS)
def test_the_driver_of_each_platform_executes_the_sent_twist(vehicle) -> None:
    for steer in (-1.0, -0.5, -0.1, 0.0, 0.2, 0.7, 1.0):
        sent = vehicle.actuation(Control(steer, 0.75))
        moved = driven(vehicle, sent)
        assert moved.vx == pytest.approx(sent.vx, abs=0.0011)  # whole mm/s
        assert moved.wz == pytest.approx(sent.wz, abs=0.004)  # whole mrad, of the wheel or of the yaw rate


def test_speed_and_yaw_gains() -> None:
    """Independent on a differential base; on Ackermann speed_gain keeps the arc and yaw_gain changes it."""
    plain, quick = twist("limo-differential", 0.2, 0.5), twist("limo-differential", 0.2, 0.5, speed_gain=1.2)
    assert (quick.vx, quick.wz) == (pytest.approx(1.2 * plain.vx), pytest.approx(plain.wz))
    plain, quick = twist("limo-ackermann", 0.2, 0.5), twist("limo-ackermann", 0.2, 0.5, speed_gain=1.2)
    assert (quick.vx, quick.wz) == (pytest.approx(1.2 * plain.vx), pytest.approx(1.2 * plain.wz))
    bent = twist("limo-ackermann", 0.2, 0.5, yaw_gain=1.5)
    assert (bent.vx, bent.wz) == (pytest.approx(plain.vx), pytest.approx(1.5 * plain.wz))


def test_steer_offset_is_added_to_every_steer() -> None:
    assert twist("limo-ackermann", 0.1, 0.5, steer_offset=-0.1).wz == 0.0
    assert twist("limo-ackermann", 0.0, 0.5, steer_offset=0.3) == twist("limo-ackermann", 0.3, 0.5)


def test_words_are_the_nearest_of_straight_and_full_lock() -> None:
    vehicle = VEHICLES["jetbot-dusty-ros1"]
    commands = [vehicle.actuation(Control(steer, 0.2)) for steer in (-1.0, -0.5, -0.49, 0.0, 0.49, 0.5)]
    assert commands == [WordCommand(w) for w in ("left", "left", "forward", "forward", "forward", "right")]
    assert vehicle.actuation(Control(0.0, 0.0)) == WordCommand("stop")
    assert [vehicle.motion_s(WordCommand(w)) for w in ("left", "forward", "stop")] == [0.1, 0.5, 0.5]
    assert VEHICLES["limo-ackermann"].motion_s(Twist(0.1), longest=0.4) == 0.4


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("vehicle", VEHICLES.values(), ids=list(VEHICLES))
def test_a_control_that_is_not_finite_is_refused(vehicle, bad: float) -> None:
    for control in (Control(bad, 0.5), Control(0.0, bad), Control(0.0, 0.5, bad)):
        with pytest.raises(ValueError, match="not finite"):
            vehicle.actuation(control)


@pytest.mark.parametrize("vehicle", VEHICLES.values(), ids=list(VEHICLES))
def test_onboard_settings_are_json_that_the_clamp_accepts(vehicle) -> None:
    settings = json.loads(json.dumps(vehicle.to_onboard(), allow_nan=False))
    assert vehicle_problem(settings) is None
    assert problem(vehicle.actuation(Control(0.3, 0.5)).to_onboard(), settings) is None
    assert settings["topics"]["cmd"] and "" not in settings["topics"].values()


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


@given(CONTROLS, CALIBRATIONS)
def test_limos_wheel_angle_is_always_possible(control: Control, calibration: VehicleCalibration) -> None:
    """The driver cannot be relied on: it compares in the wrong unit."""
    sent = replace(VEHICLES["limo-ackermann"], calibration=calibration).actuation(control)
    assert isinstance(sent, Twist)
    angle = driver_angle(sent)
    if sent == Twist(0.0):
        assert math.isnan(angle)
        assert serial_frame(sent, ACKERMANN).steering == 0
    else:
        assert abs(angle) <= INNER + 1e-9
        assert angle * sent.wz >= 0.0


def test_the_bound_above_can_fail() -> None:
    """A differential base's Twist: radius 0.28563 m, atan(0.2 / 0.19963) = 45.05 degrees if nothing is clamped."""
    sent = VEHICLES["limo-differential"].actuation(Control(-1.0, 1.0))
    assert isinstance(sent, Twist)
    assert math.degrees(driver_angle(sent)) == pytest.approx(45.05, abs=0.01)
