"""A course with a real vehicle: an operator places it, watches the lines, and reports crossed lines and collisions.

Completion is measured by the vehicle's odometry, once per motion: accurate to about the length of a motion, and less if
wheels slip. The operator must be beside the vehicle; the return key is the emergency stop while it drives.
"""

from __future__ import annotations

import math
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from closedloop_plugin.robots.course.referee import SegmentEndReason
from closedloop_plugin.robots.course.route_hint import Pose
from closedloop_plugin.robots.course.transports.linked import LinkedRun, LinkedTransport, PlannerSetup
from closedloop_plugin.robots.planner.decision_cycle import CycleResult
from closedloop_plugin.robots.sandbox.track import TrackSegment
from lmms_eval_ad2.errors import Ad2Error

GO = "d"  # not return alone, which is the stop: one pressed as a run ends must not start the next run
KEYS = "return: EMERGENCY STOP    l return: it crossed a line    h return: it hit something"
_ENDS = {"l": (SegmentEndReason.LINE, "seen by the operator"), "h": (SegmentEndReason.HIT, "seen by the operator")}


class OperatorKeyboard:
    """Lines typed by the operator, read by one thread for the whole course. `prompt` waits, `poll` does not."""

    def __init__(self, typed: TextIO = sys.stdin, show: Callable[[str], None] = print) -> None:
        self.show = show
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=[typed], name="ad2-operator", daemon=True).start()

    def _read(self, typed: TextIO) -> None:
        for line in typed:
            self._lines.put(line.strip().lower())
        self._lines.put(None)

    def prompt(self, text: str) -> str:
        """Show the text and wait for a line. Ad2Error at end of input."""
        while self.poll() is not None:
            pass  # lines typed before the prompt do not count
        self.show(text)
        line = self._lines.get()
        if line is None:
            raise Ad2Error("the course needs an operator at the keyboard, beside the vehicle")
        return line

    def poll(self) -> str | None:
        """The next line that was typed, or None."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return None
        if line is None:  # keep the end of input for the next call
            self._lines.put(None)
        return line


class VehicleTransport(LinkedTransport):
    """See the module docstring. The caller provides the tunnel to the vehicle."""

    name = "vehicle"
    judges = False

    def __init__(self, link: PlannerSetup, operator: OperatorKeyboard) -> None:
        super().__init__(link)
        if not link.robot.vehicle.topics.odom:
            raise Ad2Error(
                f"{link.robot.name} has no odometry (topics.odom), which is needed to measure completion: drive it "
                "with ad2 robot plan, or on a course with --transport local or ros"
            )
        self._operator = operator
        self._began = 0.0

    def place(self, segment: TrackSegment, seed: int) -> Pose:
        x, y, yaw = segment.start
        answer = ""
        while answer != GO:
            answer = self._operator.prompt(
                f"{segment.name} ({segment.geometry}): put the vehicle at x {x:.2f} m, y {y:.2f} m, heading "
                f"{math.degrees(yaw):.0f} degrees, and step back. {GO} return: drive    q return: end the course"
            )
            if answer == "q":
                raise Ad2Error("ended by the operator; the same command continues with this run")
        self._operator.show(KEYS)
        self._began = time.monotonic()
        return segment.start

    def poll(self, run: LinkedRun) -> None:
        line = self._operator.poll()
        if line in _ENDS:
            run.referee.stop(*_ENDS[line])
        elif line is not None:
            raise Ad2Error("emergency stop by the operator; the same command continues with this run")

    def on_cycle(self, run: LinkedRun, result: CycleResult) -> None:
        if run.hint.here is not None:
            run.see((time.monotonic() - self._began, *run.hint.here, run.hint.speed))
        super().on_cycle(run, result)

    def close(self) -> None:
        """Nothing to do: the client keeps running on the vehicle."""
