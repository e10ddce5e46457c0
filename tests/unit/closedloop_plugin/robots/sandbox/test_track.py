"""The sandbox's floor: ten segments that every vehicle can drive inside the yellow lines."""

from __future__ import annotations

import math

import numpy as np
import pytest

from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.robots.sandbox.scene import FOOTPRINTS, SandboxScene
from closedloop_plugin.robots.sandbox.track import HALF_WIDTH, sandbox
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES
from closedloop_plugin.robots.vehicles.vehicle import Twist

TURNING_RADIUS = VEHICLES["limo-ackermann"].ceiling.turning_radius

TRACK = sandbox()
LIMO = FOOTPRINTS["limo"]


def test_the_lap_consists_of_ten_segments() -> None:
    assert len(TRACK.segments) == 10
    assert sum(s.path.length for s in TRACK.segments) == pytest.approx(TRACK.lap.length, abs=0.01)
    for before, after in zip(TRACK.segments, (*TRACK.segments[1:], TRACK.segments[0]), strict=True):
        assert before.path.xy[-1] == pytest.approx(after.path.xy[0], abs=1e-6)
    assert TRACK.segment("route9").geometry == "sharp right bend"


def test_the_segments_include_straights_and_gentle_and_sharp_bends() -> None:
    turns = [math.degrees(s.path.bend(0.0, s.path.length)) for s in TRACK.segments]
    assert min(turns) < -60 and max(turns) > 120, "sharp bends to both sides"
    assert any(abs(turn) < 1 for turn in turns), "a straight"
    assert any(5 < abs(turn) < 30 for turn in turns), "a gentle bend"
    assert sum(turns) == pytest.approx(360, abs=3)


def test_no_bend_is_tighter_than_an_ackermann_limo_can_drive() -> None:
    assert 1 / abs(TRACK.lap.curvature).max() > TURNING_RADIUS + 0.1


def test_everything_is_on_the_floor() -> None:
    for line in (TRACK.left, TRACK.right, *(box.corners for box in TRACK.obstacles)):
        assert (line > 0).all() and (line < TRACK.size).all()


@pytest.mark.parametrize("robot", ["limo-ackermann", "limo-differential", "jetbot-waveshare"])
def test_a_vehicle_that_follows_the_middle_stays_inside(robot: str) -> None:
    for segment in TRACK.segments:
        assert pursue(robot, segment.path) == "arrived", f"{robot} on {segment.name}, {segment.geometry}"


def test_a_complete_lap_can_be_driven() -> None:
    assert pursue("limo-ackermann", TRACK.lap) == "arrived"


def test_driving_straight_on_crosses_a_line_in_a_bend() -> None:
    assert pursue("limo-ackermann", TRACK.segment("route2").path, steer=False) == "crossed line"


def pursue(robot: str, path: RoutePath, steer: bool = True, speed: float = 0.3) -> str:
    """Drive the simulated body by pure pursuit; returns the collision, or "arrived"."""
    scene, s = SandboxScene(VEHICLES[robot]), 0.0
    scene.place(*path.pose(0.0))
    for step in range(math.ceil(path.length / speed * 200) + 300):
        x, y, yaw = scene.body.pose
        s, _ = path.locate(x, y, near=s, reach=0.5)
        if s > path.length - 0.02:
            return "arrived"
        if step % 5 == 0:
            goal_x, goal_y, _ = path.pose(s + 0.25)
            ahead, left = to_ego(goal_x, goal_y, x, y, yaw)
            bend = 2 * left / (ahead**2 + left**2) if steer else 0.0
            scene.command(Twist(speed, 0.0, speed * bend))
        if found := [e.what for e in scene.step(0.01) if e.what != "inside"]:
            return found[0]
    return f"stuck at {s:.2f} m"


def test_a_vehicle_that_touches_the_line_has_crossed_it() -> None:
    x, y, yaw = TRACK.lap.pose(0.5)
    assert TRACK.contains(x, y, yaw, LIMO) == "inside"
    for side in (-1, 1):
        for aside, verdict in ((HALF_WIDTH - 0.111, "inside"), (HALF_WIDTH - 0.109, "crossed line")):
            assert TRACK.contains(*TRACK.lap.pose(0.5, side * aside), LIMO) == verdict


def test_cones_narrow_the_lane() -> None:
    cones = [box for box in TRACK.obstacles if "cone" in box.name]
    middle = np.mean([(box.x, box.y) for box in cones], axis=0)
    s, aside = TRACK.lap.locate(*map(float, middle))
    assert aside == pytest.approx(0.0, abs=1e-6)
    assert TRACK.contains(*TRACK.lap.pose(s), LIMO) == "inside"
    assert TRACK.contains(*TRACK.lap.pose(s, 0.07), LIMO) == "hit obstacle:left cone"
    assert TRACK.contains(*TRACK.lap.pose(s, -0.07), LIMO) == "hit obstacle:right cone"


def test_a_vehicle_off_the_lane_is_not_inside() -> None:
    assert TRACK.contains(2.0, 1.2, 0.0, LIMO) == "crossed line"
    assert TRACK.on_floor(2.0, 1.2, 0.0, LIMO)
    assert not TRACK.on_floor(3.9, 1.2, 0.0, LIMO)
