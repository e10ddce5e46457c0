"""Guides a vehicle along a planned path: the route hint of every driver, and a privileged expert that replies in text.

The expert uses the track and the vehicle's pose. It gives an upper bound for the chain text -> rules -> Control ->
vehicle, and shows that a course can be completed. It is labelled as privileged; its results are not those of a model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.frames import to_ego, wrap
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Decision, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.interpreters.parsing.waypoints import steer_at
from closedloop_plugin.robots.sandbox.track import STEP, SandboxTrack, TrackSegment

Pose = tuple[float, float, float]  # x, y in metres, yaw in radians counter-clockwise

# Distance of the target point, in full-size metres. Shorter than the 8 m of the worlds: the bends here are as tight as
# a car can drive, and a chord of 8 m would cut them by more than the space beside the vehicle.
AHEAD_M = 4.5
BEYOND_M = 1.0  # length of the lap that is appended after a segment's end
REACH_M = 0.6  # search range along the path, so that the other side of the loop is never matched


def guide_path(track: SandboxTrack, segment: TrackSegment) -> RoutePath:
    """The segment's path and BEYOND_M of the lap after it, so that target points near the end follow the lap."""
    begin, _ = track.lap.locate(*segment.start[:2])
    along = begin + np.arange(0.0, segment.path.length + BEYOND_M, STEP)
    return RoutePath([track.lap.pose(float(s) % track.lap.length)[:2] for s in along], STEP)


class PathHint:
    """The RouteHint of one run. `start`: pose at which the vehicle was placed, in the path's frame.

    Odometry has an arbitrary origin: the first pose of a run is taken as `start`, and later ones relative to it. Drift
    of the odometry becomes an error of the hint, as with any navigator.
    """

    def __init__(self, path: RoutePath, start: Pose, scale: float) -> None:
        self.path, self.start = path, start
        self.ahead = AHEAD_M / scale
        self.here: Pose | None = None  # from the newest odometry, in the path's frame
        self.speed = 0.0  # m/s, likewise
        self._first: Pose | None = None
        self._s = 0.0

    def command(self, odometry: Mapping[str, Any] | None) -> tuple[RouteCommand, tuple[float, float]]:
        """The command and the target point, metres forward and to the LEFT of the vehicle."""
        if odometry is None:
            return RouteCommand.FOLLOW, (self.ahead, 0.0)
        x, y, yaw = self.here = self.pose(odometry)
        self.speed = float(odometry.get("v", 0.0))
        self._s, _ = self.path.locate(x, y, near=self._s, reach=REACH_M)
        goal_x, goal_y, _ = self.path.pose(self._s + self.ahead)
        return RouteCommand.FOLLOW, to_ego(goal_x, goal_y, x, y, yaw)

    def pose(self, odometry: Mapping[str, Any]) -> Pose:
        """The odometry pose in the path's frame: start * first^-1 * here (planar rigid transforms)."""
        here = (float(odometry["x"]), float(odometry["y"]), float(odometry["yaw"]))
        first = self._first = self._first or here
        forward, left = to_ego(here[0], here[1], *first)
        x, y, yaw = self.start
        c, s = math.cos(yaw), math.sin(yaw)
        return x + forward * c - left * s, y + forward * s + left * c, wrap(yaw + here[2] - first[2])


SIGHT_M = 0.6  # length of path ahead that is checked for bends, m on the track
# (radius of the tightest bend ahead in m, share of the top speed below it). LIMO's smallest radius is 0.46 m.
SPEED_SHARES = ((0.7, 0.6), (1.2, 0.8))
# Thresholds of |wanted steer - steer of the route hint|: from SLIGHT on a side is named, from TURN on with "turn".
SLIGHT, TURN = 0.06, 0.3


class TrackExpert:
    """An Agent whose replies are text commands. Call `set_path` before each run."""

    name = "track expert (privileged)"
    privileged = True
    local = True
    cameras: tuple[Camera, ...] = ()

    def __init__(self) -> None:
        self._path: RoutePath | None = None
        self._pose: Callable[[], Pose] | None = None
        self._scale = 1.0
        self._s = 0.0

    def set_path(self, path: RoutePath, pose: Callable[[], Pose], scale: float) -> None:
        """`pose`: returns the vehicle's true pose; `scale`: full-size metres per metre on the track."""
        self._path, self._pose, self._scale, self._s = path, pose, scale, 0.0

    def start(self, episode: str, seed: int) -> None:
        """No state per episode: a course drives one vehicle."""

    def end(self, episode: str) -> None:
        """See start."""

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        """See Agent.decide."""
        return [self._decide(request.observation.target) for request in requests]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "kind": "expert", "privileged": True, "version": 1}

    def _decide(self, hint: tuple[float, float]) -> Decision:
        if self._path is None or self._pose is None:
            return Decision(error="the track expert was given no path")
        x, y, yaw = self._pose()
        self._s, aside = self._path.locate(x, y, near=self._s, reach=REACH_M)
        goal_x, goal_y, _ = self._path.pose(self._s + AHEAD_M / self._scale)
        forward, left = to_ego(goal_x, goal_y, x, y, yaw)
        wanted = steer_at(forward * self._scale, left * self._scale)
        text = words(self._tightest_radius(), wanted, steer_at(*hint))
        return Decision({"action": text}, thought={"s": self._s, "aside_m": aside, "steer": wanted})

    def _tightest_radius(self) -> float:
        """Radius of the tightest bend ahead, m: arc length / change of yaw, over quarters of SIGHT_M."""
        assert self._path is not None
        piece = SIGHT_M / 4
        bend = max(abs(self._path.bend(self._s + i * piece, piece)) for i in range(4))
        return piece / max(bend, 1e-6)


def words(radius: float, wanted: float, hinted: float) -> str:
    """The reply: a command that corrects the route hint, with the speed as a suffix. Steer: right > 0.

    "Slow down" is not used: for a standing vehicle it means to stay.
    """
    speed = next((share for most, share in SPEED_SHARES if radius < most), 1.0)
    side = "right" if wanted > hinted else "left"
    difference = abs(wanted - hinted)
    if difference >= TURN and abs(wanted) >= TURN:
        command = f"Turn {'right' if wanted > 0 else 'left'}"
    elif difference >= SLIGHT:
        command = f"Follow the lane and steer slightly to the {side}"
    else:
        command = "Follow the lane carefully round the bend" if speed < 1 else "Keep following the lane"
    return f"{command} with speed = {speed:g}."
