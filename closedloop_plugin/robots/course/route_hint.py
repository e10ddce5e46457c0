"""The route hint of a course: a target point on the planned path, relative to the pose from odometry."""

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
