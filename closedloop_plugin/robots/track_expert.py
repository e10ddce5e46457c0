"""An expert that speaks: it sees the track and itself on it, and says in words what a driver would.

Privileged, and labelled so. It shows what the chain words -> rules -> Control -> vehicle can do at its best, and that
a course can be driven at all; it is no measure of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Decision
from closedloop_plugin.interpreters.parsing.waypoints import steer_at

Pose = tuple[float, float, float]  # of the vehicle on the track: x, y in metres, yaw in radians

AHEAD_M = 4.5  # the point that it steers for, at a car's size
SEES_M = 0.6  # how far ahead of itself it looks for bends
REACH_M = 0.6  # of looking for its place along the path
# Radius of the tightest bend in sight, m -> share of the top speed. LIMO turns on 0.46 m and no less.
PACES = ((0.7, 0.6), (1.2, 0.8))
# Steer that it wants less the one that the route hint leads to: from here on it says which way, then that it is a turn.
SLIGHT, TURN = 0.06, 0.3


class TrackExpert:
    """`take` tells it which path is driven next, how to `look` where the vehicle really is (asked at every decision),
    and the vehicle's scale."""

    name = "track expert (privileged)"
    privileged = True
    local = True
    cameras: tuple[Camera, ...] = ()

    def __init__(self) -> None:
        self._path: RoutePath | None = None
        self._look: Callable[[], Pose] | None = None
        self._scale = 1.0
        self._s = 0.0

    def take(self, path: RoutePath, look: Callable[[], Pose], scale: float) -> None:
        self._path, self._look, self._scale, self._s = path, look, scale, 0.0

    def start(self, episode: str, seed: int) -> None:
        """Nothing to keep by episode: a course drives one vehicle."""

    def end(self, episode: str) -> None:
        """See start."""

    def decide(self, asks: Sequence[DecisionRequest]) -> list[Decision]:
        """See Agent.decide."""
        return [self._one(ask.observation.target) for ask in asks]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "kind": "expert", "privileged": True, "version": 1}

    def _one(self, hint: tuple[float, float]) -> Decision:
        if self._path is None or self._look is None:
            return Decision(error="the track expert was given no path")
        x, y, yaw = self._look()
        self._s, aside = self._path.locate(x, y, near=self._s, reach=REACH_M)
        goal_x, goal_y, _ = self._path.pose(self._s + AHEAD_M / self._scale)
        forward, left = to_ego(goal_x, goal_y, x, y, yaw)
        wanted = steer_at(forward * self._scale, left * self._scale)
        said = words(self._tightest(), wanted, steer_at(*hint))
        return Decision({"action": said}, thought={"s": self._s, "aside_m": aside, "steer": wanted})

    def _tightest(self) -> float:
        """Radius of the sharpest bend ahead, m, measured over a quarter of the sight at a time."""
        assert self._path is not None
        piece = SEES_M / 4
        bend = max(abs(self._path.bend(self._s + i * piece, piece)) for i in range(4))
        return piece / max(bend, 1e-6)


def words(radius: float, wanted: float, hinted: float) -> str:
    """What it says: a command, its correction of the navigator, and the speed as a suffix. Steer: right > 0.

    No "slow down": said by a standing vehicle it means to stay.
    """
    pace = next((share for most, share in PACES if radius < most), 1.0)
    side = "right" if wanted > hinted else "left"
    apart = abs(wanted - hinted)
    if apart >= TURN and abs(wanted) >= TURN:
        what = f"Turn {'right' if wanted > 0 else 'left'}"
    elif apart >= SLIGHT:
        what = f"Follow the lane and steer slightly to the {side}"
    else:
        what = "Follow the lane carefully round the bend" if pace < 1 else "Keep following the lane"
    return f"{what} with speed = {pace:g}."
