"""What a navigator on the vehicle would say: the planned path, seen from where its odometry says that it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import to_ego, wrap
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import RouteCommand
from closedloop_plugin.robots.sandbox.track import STEP, SandboxTrack, TrackSegment

Pose = tuple[float, float, float]  # x, y in metres, yaw in radians counter-clockwise

# The hint's point lies so far ahead, in metres at a car's size. Shorter than the 8 m of the worlds: the bends here are
# as tight as a car can drive, and a chord of 8 m cuts them by more than a lane leaves beside the vehicle.
AHEAD_M = 4.5
BEYOND_M = 1.0  # of the lap behind a segment's end
REACH_M = 0.6  # of looking for the vehicle's place along the path, so that a loop's other side is never taken for it


def guide(track: SandboxTrack, segment: TrackSegment) -> RoutePath:
    """The segment's path and what follows it on the lap: who nears the end must see the bend behind it."""
    begin, _ = track.lap.locate(*segment.start[:2])
    along = begin + np.arange(0.0, segment.path.length + BEYOND_M, STEP)
    return RoutePath([track.lap.pose(float(s) % track.lap.length)[:2] for s in along], STEP)


class PathHint:
    """The route hint of one run (planner.RouteHint). `start`: where the vehicle was placed, in the path's frame.

    Odometry counts from wherever the vehicle was switched on. The first pose of a run is taken for `start`, all later
    ones relative to it; what odometry drifts by, the hint is wrong by, as with any navigator.
    """

    def __init__(self, path: RoutePath, start: Pose, scale: float) -> None:
        self.path, self.start = path, start
        self.ahead = AHEAD_M / scale
        self.here: Pose | None = None  # by the newest odometry, in the path's frame
        self.speed = 0.0  # m/s, likewise
        self._first: Pose | None = None
        self._s = 0.0

    def command(self, odometry: Mapping[str, Any] | None) -> tuple[RouteCommand, tuple[float, float]]:
        """The command, and a point of the path in metres forward and to the LEFT of the vehicle."""
        if odometry is None:
            return RouteCommand.FOLLOW, (self.ahead, 0.0)
        x, y, yaw = self.here = self.pose(odometry)
        self.speed = float(odometry.get("v", 0.0))
        self._s, _ = self.path.locate(x, y, near=self._s, reach=REACH_M)
        goal_x, goal_y, _ = self.path.pose(self._s + self.ahead)
        return RouteCommand.FOLLOW, to_ego(goal_x, goal_y, x, y, yaw)

    def pose(self, odometry: Mapping[str, Any]) -> Pose:
        """Odometry in the path's frame."""
        here = (float(odometry["x"]), float(odometry["y"]), float(odometry["yaw"]))
        first = self._first = self._first or here
        forward, left = to_ego(here[0], here[1], *first)
        x, y, yaw = self.start
        c, s = math.cos(yaw), math.sin(yaw)
        return x + forward * c - left * s, y + forward * s + left * c, wrap(yaw + here[2] - first[2])
