"""Motion of simulated vehicles against kinematics computed by hand, reaction to odd commands, events, collisions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.robots.sandbox.scene import SandboxBody, SandboxEvent, SandboxScene
from closedloop_plugin.robots.vehicles.drivers import WHEELS_APART, WORD_SPEED
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES
from closedloop_plugin.robots.vehicles.vehicle import Actuation, Twist, WordCommand

TURNING_RADIUS = VEHICLES["limo-ackermann"].ceiling.turning_radius

NAMES = sorted(VEHICLES)
TWISTED = [name for name in NAMES if VEHICLES[name].kind == "twist"]


def driving(name: str, actuation: Actuation, seconds: float, every: float | None = None) -> SandboxBody:
    """A body `seconds` after the first command, which is repeated at intervals of `every` seconds, if given."""
    body = SandboxBody(VEHICLES[name])
    body.command(actuation)
    drive(body, seconds, actuation, every)
    return body


def drive(body: SandboxBody, seconds: float, actuation: Actuation | None = None, every: float | None = None) -> float:
    """Steps the body by 10 ms; returns the distance in m."""
    distance = 0.0
    for step in range(1, round(seconds / 0.01) + 1):
        x, y, _ = body.pose
        body.step(0.01)
        distance += math.dist((x, y), body.pose[:2])
        if actuation is not None and every and step % round(every / 0.01) == 0:
            body.command(actuation)
    return distance


@pytest.mark.parametrize("name", TWISTED)
def test_a_forward_twist_moves_straight_ahead(name: str) -> None:
    body = driving(name, Twist(0.3), 0.8)
    accel = VEHICLES[name].ceiling.accel
    assert body.x == pytest.approx(0.3 * 0.8 - 0.3**2 / (2 * accel), abs=0.005)
    assert (body.y, body.yaw) == (0.0, 0.0)


@pytest.mark.parametrize("name", TWISTED)
def test_a_positive_yaw_rate_turns_left(name: str) -> None:
    body = driving(name, Twist(0.3, 0.0, 0.4), 0.9)
    assert body.yaw > 0.2 and body.y > 0.0
    assert driving(name, Twist(0.3, 0.0, -0.4), 0.9).yaw == pytest.approx(-body.yaw, abs=1e-9)


def test_limo_turns_round_its_rear_axle_in_ackermann_mode() -> None:
    """0.3 m/s at 0.3 rad/s is a radius of 1 m for the rear axle; the middle, 0.1 m ahead, runs on one of 1.005 m."""
    body = driving("limo-ackermann", Twist(0.3, 0.0, 0.3), 3.0)
    assert body.wz == pytest.approx(0.3, rel=0.01)  # the wheel angle is sent in whole mrad
    assert body.vx == pytest.approx(0.3)
    assert math.hypot(body.vx, body.vy) / body.wz == pytest.approx(1.005, rel=0.01)


def test_limo_turns_no_tighter_than_its_steering_stop() -> None:
    body = driving("limo-ackermann", Twist(0.2, 0.0, 3.0), 2.0)
    assert body.vx / body.wz == pytest.approx(TURNING_RADIUS, rel=0.01)


def test_limo_turns_on_the_spot_in_all_modes_but_ackermann() -> None:
    turn = Twist(0.0, 0.0, 0.5)
    assert driving("limo-ackermann", turn, 1.0).yaw == 0.0
    for name in ("limo-differential", "limo-tracked", "limo-mecanum", "jetbot-waveshare"):
        body = driving(name, turn, 1.0)
        assert body.yaw == pytest.approx(0.5, abs=0.03) and (body.x, body.y) == (0.0, 0.0)


def test_an_impossible_angle_is_kept_until_the_next_command() -> None:
    """The reason for our clamp: a yaw rate without speed leaves the wheels at their stop."""
    body = driving("limo-ackermann", Twist(0.0, 0.0, 0.5), 0.5)
    body.command(Twist(0.3))
    body.step(0.01)
    assert body.wz > 0.0, "it still steers to the left as it starts"
    drive(body, 1.0)
    assert body.wz == pytest.approx(0.0, abs=1e-9)


def test_only_mecanum_wheels_move_sideways() -> None:
    aside = Twist(0.0, 0.2, 0.0)
    assert driving("limo-mecanum", aside, 1.0).y == pytest.approx(0.2, abs=0.01)
    assert driving("limo-differential", aside, 1.0).pose == (0.0, 0.0, 0.0)
    assert driving("jetbot-waveshare", aside, 0.9).pose == (0.0, 0.0, 0.0)


def test_words_drive_at_full_power() -> None:
    assert driving("jetbot-dusty-ros1", WordCommand("forward"), 1.0).vx == pytest.approx(WORD_SPEED)
    left = driving("jetbot-dusty-ros1", WordCommand("left"), 1.0)
    assert left.wz == pytest.approx(2 * WORD_SPEED / WHEELS_APART) and left.vx == 0.0
    assert driving("jetbot-dusty-ros1", WordCommand("right"), 1.0).wz == pytest.approx(-left.wz)


@pytest.mark.parametrize("name", NAMES)
def test_one_command_drives_indefinitely_unless_the_base_has_a_watchdog(name: str) -> None:
    vehicle = VEHICLES[name]
    body = driving(name, WordCommand("forward") if vehicle.kind == "word" else Twist(0.2), 5.0)
    assert (body.vx == 0.0) == (vehicle.watchdog_s is not None)


def test_the_watchdog_counts_from_the_last_command() -> None:
    body = driving("jetbot-waveshare", Twist(0.3), 3.0, every=0.05)
    assert body.vx == pytest.approx(0.3)
    brake = 2 * VEHICLES["jetbot-waveshare"].ceiling.accel
    assert drive(body, 3.0) == pytest.approx(1.0 * 0.3 + 0.3**2 / (2 * brake), abs=0.01)


def test_a_stop_has_the_hand_computed_braking_distance() -> None:
    body = driving("limo-ackermann", Twist(0.3), 1.0)
    body.command(Twist(0.0))
    assert drive(body, 1.0) == pytest.approx(0.3**2 / (2 * 5.0), abs=0.003)
    assert body.vx == 0.0


def test_odometry_ignores_placing_and_counts_slipping_wheels() -> None:
    body = driving("limo-differential", Twist(0.3), 1.0)
    before = body.odometry()
    body.place(1.0, 2.0, 0.5)
    assert body.pose == (1.0, 2.0, 0.5)
    assert body.odometry() == before | {"v": 0.0, "w": 0.0}
    body.step(0.01)
    body.block((1.0, 2.0, 0.5))
    assert body.odometry()["x"] > before["x"]
    assert body.pose == (1.0, 2.0, 0.5) and body.vx == 0.0


@given(
    st.sampled_from(TWISTED),
    st.lists(st.tuples(*[st.floats(allow_nan=True, allow_infinity=True)] * 3), min_size=1, max_size=5),
)
def test_any_command_keeps_the_body_within_its_physical_limits(
    name: str, commands: list[tuple[float, float, float]]
) -> None:
    """Also for NaN and infinity, which should never be sent."""
    body = SandboxBody(VEHICLES[name])
    ceiling = VEHICLES[name].ceiling
    for numbers in commands:
        body.command(Twist(*numbers))
        for _ in range(5):
            before = body.vx
            body.step(0.01)
            assert all(map(math.isfinite, (*body.pose, body.vx, body.vy, body.wz)))
            assert abs(body.vx) <= ceiling.speed + 1e-9
            assert abs(body.vx - before) <= 2 * ceiling.accel * 0.01 + 1e-9


def scene_at(x: float, y: float, yaw: float, name: str = "limo-differential") -> SandboxScene:
    scene = SandboxScene(VEHICLES[name])
    scene.place(x, y, yaw)
    return scene


def straight(scene: SandboxScene, seconds: float) -> list[SandboxEvent]:
    scene.command(Twist(0.3))
    return [event for _ in range(round(seconds / 0.01)) for event in scene.step(0.01)]


def test_the_vehicle_begins_at_the_start_of_the_lap() -> None:
    scene = SandboxScene(VEHICLES["limo-ackermann"])
    assert scene.body.pose == pytest.approx(scene.track.lap.pose(0.0))
    assert [event.what for event in scene.step(0.01)] == ["inside"]


def test_a_crossed_line_is_reported_once_and_does_not_stop_the_vehicle() -> None:
    start = SandboxScene(VEHICLES["limo-differential"]).track.segment("route1").start
    scene = scene_at(start[0], start[1], start[2] + math.pi / 2)
    events = straight(scene, 2.0)
    assert [event.what for event in events] == ["crossed line"]
    # 0.22 m from the middle to the line, 0.161 m from the vehicle's middle to its front
    assert events[0].x - start[0] == pytest.approx(0.22 - 0.161, abs=0.01)
    assert scene.body.vx == pytest.approx(0.3)


def test_an_obstacle_stops_the_vehicle_while_odometry_continues() -> None:
    house = next(box for box in SandboxScene(VEHICLES["limo-differential"]).track.obstacles if box.name == "house")
    scene = scene_at(house.x - 0.8, house.y, 0.0)
    events = straight(scene, 3.0)
    assert [event.what for event in events] == ["hit obstacle:house"]
    stopped = scene.body.pose
    driven = scene.body.odometry()["x"]
    straight(scene, 0.5)
    assert scene.body.pose == stopped
    assert scene.body.odometry()["x"] > driven
    assert scene.track.contains(*stopped, scene.body.footprint) == "crossed line", "it never stands inside an obstacle"


def test_the_vehicle_can_back_away_from_an_obstacle() -> None:
    house = next(box for box in SandboxScene(VEHICLES["limo-differential"]).track.obstacles if box.name == "house")
    scene = scene_at(house.x - 0.8, house.y, 0.0)
    straight(scene, 3.0)
    scene.command(Twist(-0.2))
    events = [event.what for _ in range(100) for event in scene.step(0.01)]
    assert events == ["crossed line"]
    assert scene.body.x < house.x - 0.5


def test_walls_stop_the_vehicle() -> None:
    scene = scene_at(3.3, 0.25, 0.0)
    events = straight(scene, 4.0)
    assert events[-1].what == "hit wall"
    assert scene.body.footprint.corners(*scene.body.pose)[:, 0].max() < 4.0


def test_placing_reports_an_event_and_the_new_state() -> None:
    scene = SandboxScene(VEHICLES["jetbot-waveshare"])
    scene.step(0.01)
    x, y, yaw = scene.track.segment("route4").start
    assert [event.what for event in scene.place(x, y, yaw)] == ["placed", "inside"]
    assert [event.what for event in scene.place(2.0, 1.8, 0.0)] == ["placed", "crossed line"]
    assert scene.place(x, y, yaw)[0] == SandboxEvent(scene.t, "placed", *scene.body.pose)


def test_a_placed_vehicle_still_executes_its_last_command() -> None:
    """Like a real vehicle whose wheels turn while it is lifted."""
    scene = SandboxScene(VEHICLES["limo-ackermann"])
    straight(scene, 0.5)
    scene.place(*scene.track.segment("route6").start)
    assert scene.body.vx == 0.0
    for _ in range(50):
        scene.step(0.01)
    assert scene.body.vx == pytest.approx(0.3)
