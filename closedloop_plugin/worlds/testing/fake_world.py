"""FakeWorld: a minimal World without Scenic: a kinematic car, one parked obstacle, a synthetic camera image.

For tests of the runner and of everything that only needs the World interface. Its scores have no meaning.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.core.state import (
    Actor,
    ActorKind,
    Control,
    DrivingSurface,
    EgoContact,
    GroundTruth,
    Observation,
    RouteCommand,
)
from closedloop_plugin.maps.base import RoadMap, RouteSection
from closedloop_plugin.worlds.base import EpisodeSetup, ParameterDomain, WorldError

WHEELBASE = 2.8  # m
FULL_LOCK = 0.6  # rad at steer 1
THROTTLE, BRAKE, DRAG = 4.0, 8.0, 0.1  # m/s2, m/s2, 1/s
LANE = 3.5  # m
PARKED = (3.2, 4.5)  # m, range of the obstacle's offset to the right of the path
_BEND = tuple((40 * math.sin(a), 40 - 40 * math.cos(a)) for a in np.linspace(0, math.pi / 2, 30))


class FakeWorld:
    """Bicycle kinematics; the obstacle is beside the lane at 60 % of the route, at an offset drawn with the seed."""

    backend = "fake"
    version = "1"

    def __init__(self, intrusion: float | None = None) -> None:
        """`intrusion`: fixed offset of the obstacle, m to the left of the path."""
        self._intrusion = intrusion
        self._road: RoadMap | None = None
        self._done: str | None = None

    def reset(self, setup: EpisodeSetup) -> Observation:
        self._setup, self._done, self._tick = setup, None, 0
        self._road = road_of(setup.route)
        x, y, yaw = self._road.path.pose(0.0)
        self._parked = Actor(
            id="parked", kind=ActorKind.CAR, x=x, y=y, yaw=yaw, speed=0.0, length=4.5, width=1.9, height=1.5
        )
        self._ego = replace(self._parked, id="ego", role="ego", colour=(200, 30, 30))
        beside = self._beside = float(setup.values.get("beside", random.Random(setup.seed).uniform(*PARKED)))
        ox, oy, oyaw = self._road.path.pose(
            0.6 * self._road.path.length, -beside if self._intrusion is None else self._intrusion
        )
        self._parked = replace(self._parked, x=ox, y=oy, yaw=oyaw)
        self._s = 0.0
        return self._observe()

    def step(self, control: Control) -> Observation:
        if self._road is None:
            raise WorldError("step before reset")
        if self._done:
            raise WorldError(f"step after the end: {self._done}")
        self._ego = self._moved(control.checked())
        self._tick += 1
        self._s = self._road.path.locate(self._ego.x, self._ego.y, near=self._s)[0]
        if self._tick >= self._setup.max_ticks:
            self._done = "tick limit"
        return self._observe()

    def truth(self) -> GroundTruth:
        offset = self._offset()
        surface = DrivingSurface.ONCOMING if offset > 0 else DrivingSurface.SHOULDER
        if abs(offset) <= LANE / 2:
            surface = DrivingSurface.LANE
        hit = math.dist((self._ego.x, self._ego.y), (self._parked.x, self._parked.y)) < 1.9
        contact = EgoContact("parked", ActorKind.CAR, self._parked.x, self._parked.y, 1500 * self._ego.speed)
        return GroundTruth(
            tick=self._tick,
            time_s=self._tick * self._setup.timestep,
            ego=self._ego,
            actors=(self._parked,),
            signals={},
            contacts=(contact,) if hit else (),
            surface=surface if abs(offset) < 1.5 * LANE else DrivingSurface.OFF,
        )

    @property
    def road(self) -> RoadMap:
        if self._road is None:
            raise WorldError("no road before reset")
        return self._road

    @property
    def done(self) -> str | None:
        return self._done

    @property
    def drawn(self) -> Mapping[str, Any]:
        return {"beside": self._beside}

    @property
    def weather(self) -> Weather:
        return self._setup.weather or (self._setup.route.weather if self._setup.route else Weather())

    def space(self, setup: EpisodeSetup) -> Mapping[str, ParameterDomain]:
        self.close()
        return {"beside": ParameterDomain(*PARKED)}

    def close(self) -> None:
        self._road = None

    def _moved(self, control: Control) -> Actor:
        """One timestep of the kinematic bicycle: v' = v + a dt, yaw rate = v tan(wheel angle) / wheelbase."""
        dt, ego = self._setup.timestep, self._ego
        pull = THROTTLE * control.throttle - BRAKE * control.brake - DRAG * ego.speed
        speed = max(0.0, ego.speed + pull * dt)
        rate = -speed * math.tan(control.steer * FULL_LOCK) / WHEELBASE  # steer right > 0, yaw left > 0
        yaw = ego.yaw + rate * dt
        vx, vy = speed * math.cos(yaw), speed * math.sin(yaw)
        was = ego.speed * math.cos(ego.yaw), ego.speed * math.sin(ego.yaw)
        x, y, ax, ay = ego.x + vx * dt, ego.y + vy * dt, (vx - was[0]) / dt, (vy - was[1]) / dt
        return replace(ego, x=x, y=y, yaw=yaw, speed=speed, yaw_rate=rate, ax=ax, ay=ay, steer=control.steer)

    def _offset(self) -> float:
        return self.road.path.locate(self._ego.x, self._ego.y, near=self._s)[1]

    def _observe(self) -> Observation:
        ego, path = self._ego, self.road.path
        x, y, _ = path.pose(self._s + 8.0)
        picture = {c.name: (c, self._tick, self._offset()) for c in self._setup.cameras}
        return Observation(
            tick=self._tick,
            time_s=self._tick * self._setup.timestep,
            speed=ego.speed,
            command=RouteCommand.FOLLOW,
            target=to_ego(x, y, ego.x, ego.y, ego.yaw),
            images=lambda name: _picture(*picture[name]),
            speed_limit=self.road.speed_limit,
            route_offset=self._offset(),
        )


def road_of(route: Route | None) -> RoadMap:
    """A one-lane road along the route's points; without a route a quarter circle of radius 40 m. Writes no file."""
    points = route.points if route else _BEND
    path = RoutePath(points)
    sha, town = hashlib.sha256(repr(points).encode()).hexdigest(), route.town if route else "none"
    pieces = (RouteSection(0.0, path.length, "invented"),)
    return RoadMap(file=Path("fake.xodr"), source="corridor", town=town, sha256=sha, path=path, pieces=pieces)


def _picture(camera: Camera, tick: int, offset: float) -> np.ndarray:
    """Sky above ground with a bright column at the lane; depends on the tick."""
    image = np.zeros((camera.height, camera.width, 3), np.uint8)
    image[: camera.height // 2] = (150, 190, 230)
    image[camera.height // 2 :] = (90, 90, 95)
    column = int(np.clip(camera.width / 2 * (1 + offset / 10), 0, camera.width - 1))
    image[camera.height // 2 :, column] = 255
    image[0, : tick % camera.width + 1] = 0
    return image
