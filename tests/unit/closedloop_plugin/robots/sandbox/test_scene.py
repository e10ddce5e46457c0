"""SandboxScene: events, and collisions that stop the vehicle."""

from __future__ import annotations

import math

import pytest

from closedloop_plugin.robots.sandbox.scene import SandboxEvent, SandboxScene
from closedloop_plugin.robots.vehicles.base import Twist
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES


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
