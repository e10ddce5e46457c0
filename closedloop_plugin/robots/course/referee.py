"""The referee of one run: how much of the planned path was driven before a line was crossed or something was hit."""

from __future__ import annotations

import math
from enum import StrEnum

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.robots.course.route_hint import REACH_M
from closedloop_plugin.robots.sandbox.track import Footprint, SandboxTrack

END_M = 0.02  # so near its end a path counts as driven: the vehicle itself is ten times as long
# Who needs more decisions than at so little way each, and GRACE on top, has failed to drive: half a second at
# 5 cm/s. No seconds are counted: the time that a model thinks is no fault of the driving.
LEAST_M = 0.025
GRACE = 20


class SegmentEndReason(StrEnum):
    """Every way in which a run ends."""

    COMPLETED = "completed"
    LINE = "crossed line"
    HIT = "hit obstacle"
    SLOW = "too slow"
    AGENT = "agent failed"


# Says nothing about the driver's skill: not counted, and driven again with --retry-failed. (A run that somebody stops,
# or whose vehicle is lost, has no end and no record: the same command drives it again.)
AGAIN = (SegmentEndReason.AGENT,)


def most_decisions(length: float) -> int:
    """That a path of so many metres may take."""
    return GRACE + math.ceil(length / LEAST_M)


class SegmentReferee:
    """Sees every pose of the vehicle in order; `end` is set once and for all.

    `judges` False: lines and obstacles are a person's to see, the poses (of a vehicle's odometry) only count the way.
    """

    def __init__(self, path: RoutePath, track: SandboxTrack, footprint: Footprint, judges: bool = True) -> None:
        self.path, self.track, self.footprint, self.judges = path, track, footprint, judges
        self.end: SegmentEndReason | None = None
        self.what = ""
        self._furthest = 0.0
        self._s = 0.0
        self._left = most_decisions(path.length)

    @property
    def completion(self) -> float:
        """Percent of the planned path."""
        return 100.0 if self.end is SegmentEndReason.COMPLETED else 100.0 * self._furthest / self.path.length

    def see(self, x: float, y: float, yaw: float) -> SegmentEndReason | None:
        """What is hit or crossed at this pose comes before the way that it gained."""
        if self.end is not None:
            return self.end
        verdict = self.track.contains(x, y, yaw, self.footprint) if self.judges else "inside"
        if verdict != "inside":
            self.stop(
                SegmentEndReason.HIT if verdict.startswith(SegmentEndReason.HIT) else SegmentEndReason.LINE, verdict
            )
            return self.end
        self._s, _ = self.path.locate(x, y, near=self._s, reach=REACH_M)
        self._furthest = min(max(self._furthest, self._s), self.path.length)
        if self._s >= self.path.length - END_M:
            self.stop(SegmentEndReason.COMPLETED)
        return self.end

    def decided(self) -> None:
        """One more decision, and its motion, has begun."""
        self._left -= 1
        if self._left < 0:
            self.stop(SegmentEndReason.SLOW, f"not there after {most_decisions(self.path.length)} decisions")

    def stop(self, end: SegmentEndReason, what: str = "") -> None:
        """The first end counts."""
        if self.end is None:
            self.end, self.what = end, what
