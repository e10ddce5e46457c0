"""CarlaWorld on the fake CARLA in a real town, on a straight stretch of road, with programs written in the tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import carla
import fake_carla
from fake_carla.client import STAGES
from fake_carla.server import Server

from closedloop_plugin.carla.world.world import CarlaWorld
from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import COAST, Control, GroundTruth
from closedloop_plugin.scoring.referee.referee import Referee
from closedloop_plugin.worlds.base import EpisodeSetup

DT = 0.05
HEAD = """model scenic.domains.driving.model
from closedloop_plugin.worlds.bridge.rail import Rail
stage = globalParameters.stage
route = stage.road.path
"""
EGO = "ego = new Car at stage.spot(0), facing stage.heading(0)\n"
FREE = "with regionContainedIn everywhere, with allowCollisions True"  # also allowed next to the road
LENGTH_M = 110.0


def _straight_ahead(waypoint: Any, length: float) -> list[Any] | None:
    """Waypoints of the lane every 2 m, or None if it is not straight for `length` metres."""
    ahead = [waypoint]
    while len(ahead) < length / 2:
        following = [
            w
            for w in ahead[-1].next(2.0)
            if abs(math.remainder(w.transform.rotation.yaw - waypoint.transform.rotation.yaw, 360.0)) < 1.5
        ]
        if not following:
            return None
        ahead.append(following[0])
    return ahead


def _route(town: str, waypoints: list[Any]) -> Route:
    locations = [w.transform.location for w in waypoints]
    points = tuple(from_carla(p.x, p.y)[:2] for p in locations)
    pose = from_carla(locations[0].x, locations[0].y, waypoints[0].transform.rotation.yaw)
    return Route(f"{town}-1", town, points, "Nothing", "Nothing_1", pose)


def _map(town: str, maps: Path) -> Any:
    return carla.Map(town, (maps / f"{town}.xodr").read_text("utf-8"))


def straight_route(town: str, maps: Path, length: float = LENGTH_M) -> Route:
    """`length` metres of a straight lane without a junction, next to an oncoming lane."""
    for waypoint in _map(town, maps).generate_waypoints(20.0):
        ahead, left = _straight_ahead(waypoint, length), waypoint.get_left_lane()
        beside = left is not None and left.lane_type == carla.LaneType.Driving and left.lane_id * waypoint.lane_id < 0
        if beside and ahead and not any(w.is_junction for w in ahead):
            return _route(town, ahead)
    raise AssertionError(f"{town} has no such stretch")


def junction_route(town: str, maps: Path) -> Route:
    """Straight through a junction with a light, from 20 m before it to 30 m beyond it."""
    for waypoint in _map(town, maps).generate_waypoints(5.0):
        ahead = _straight_ahead(waypoint, 75.0)
        if ahead is None or waypoint.is_junction or not waypoint.get_landmarks_of_type(45.0, "1000001"):
            continue
        inside = [i for i, w in enumerate(ahead) if w.is_junction]
        contiguous = bool(inside) and len(inside) == inside[-1] - inside[0] + 1
        if contiguous and 8 <= inside[0] <= 12 and inside[-1] < len(ahead) - 8:
            return _route(town, ahead)
    raise AssertionError(f"{town} has no such junction")


@dataclass
class Rig:
    """`world` and `route` are ready; `play` begins an episode of a program."""

    world: CarlaWorld
    server: Server
    route: Route
    folder: Path

    def play(self, text: str, seed: int = 1, head: str = HEAD, **more: Any) -> GroundTruth:
        program = self.folder / "p.scenic"
        program.write_text(head + text)
        self.world.reset(EpisodeSetup(self.route, seed, program=program, **{"traffic": False, **more}))
        return self.world.truth()

    def ticks(self, count: int, control: Control = COAST) -> list[GroundTruth]:
        seen = []
        for _ in range(count):
            self.world.step(control)
            seen.append(self.world.truth())
        return seen

    @property
    def simulation(self) -> Any:
        return self.world._simulation

    @property
    def stage(self) -> Any:
        """The actors of the fake server itself."""
        return STAGES[self.server.state.token]

    def body(self, index: int) -> Any:
        """State of the index-th object of the scene (0: the ego) in the server."""
        return self.stage.bodies[self.simulation.actors.members[index].actor.id]

    def clear(self) -> None:
        self.world.close()


@contextmanager
def rig_on(town: str, maps: Path, folder: Path) -> Iterator[Rig]:
    with fake_carla.installed(maps) as server:
        world = CarlaWorld(folder / "maps", f"127.0.0.1:{server.port}")
        rig = Rig(world, server, straight_route(town, maps), folder)
        yield rig
        world.close()
        assert not server.state.actors, "a world removes the actors that it created"
        assert not server.state.synchronous


def infractions(rig: Rig, seen: list[GroundTruth]) -> set[str]:
    """The kinds of infractions that the referee finds, without minimum speed."""
    referee = Referee(profile("bench2drive"), rig.world.road, rig.route)
    for truth in seen:
        referee.tick(truth)
    found = referee.outcome().infractions
    return {kind for kind, texts in found.items() if texts} - {"min_speed_infractions"}
