"""The referee of one run: measures how much of the planned path is driven before it ends, and why it ends."""

from __future__ import annotations

import math
from enum import StrEnum

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.robots.course.guidance import REACH_M
from closedloop_plugin.robots.sandbox.track import Footprint, SandboxTrack
from lmms_eval_ad2.core.printed import shortened

END_M = 0.02  # a path counts as completed this near to its end; the vehicle is ten times as long
# A run is too slow after EXTRA_DECISIONS + length / M_PER_DECISION decisions: 0.025 m is half a second at 5 cm/s.
# Decisions are counted, not seconds, because the latency of a model is not a fault of its driving.
M_PER_DECISION = 0.025
EXTRA_DECISIONS = 20
WHAT = 500  # characters of a reason, which may be the message of a model's server


class SegmentEndReason(StrEnum):
    """Every way in which a run ends."""

    COMPLETED = "completed"
    LINE = "crossed line"
    HIT = "hit obstacle"
    SLOW = "too slow"
    AGENT = "agent failed"


# Ends that do not measure driving: not counted, and driven again with --retry-failed. (A run that is interrupted has no
# record; the same command drives it again.)
RETRYABLE = (SegmentEndReason.AGENT,)


def max_decisions(length: float) -> int:
    """The number of decisions allowed for a path of `length` metres."""
    return EXTRA_DECISIONS + math.ceil(length / M_PER_DECISION)


class SegmentReferee:
    """Call `observe` with every pose in order. `end` is None until the run ends, and never changes afterwards."""

    def __init__(self, path: RoutePath, track: SandboxTrack, footprint: Footprint) -> None:
        self.path, self.track, self.footprint = path, track, footprint
        self.end: SegmentEndReason | None = None
        self.what = ""
        self._furthest = 0.0
        self._s = 0.0
        self._left = max_decisions(path.length)

    @property
    def completion(self) -> float:
        """Percent of the planned path."""
        return 100.0 if self.end is SegmentEndReason.COMPLETED else 100.0 * self._furthest / self.path.length

    def observe(self, x: float, y: float, yaw: float) -> SegmentEndReason | None:
        """Check a pose (m, rad). A collision or crossed line ends the run before the progress of this pose counts."""
        if self.end is not None:
            return self.end
        verdict = self.track.contains(x, y, yaw, self.footprint)
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

    def count_decision(self) -> None:
        """Count one decision; the run is too slow after max_decisions."""
        self._left -= 1
        if self._left < 0:
            self.stop(SegmentEndReason.SLOW, f"not there after {max_decisions(self.path.length)} decisions")

    def stop(self, end: SegmentEndReason, what: str = "") -> None:
        """End the run; only the first end counts. Of a long `what` the middle is left out."""
        if self.end is None:
            self.end, self.what = end, shortened(what, WHAT)
