"""A course with a real vehicle: a person puts it down, watches the lines, and says what it ran into.

How far it came is read off its odometry, one look a motion: to about a motion's length, and no better than the wheels
hold the floor. Whoever drives real vehicles sits beside them: the return key is the emergency stop while one moves.
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

GO = "d"  # not the bare return: that is the stop, and one pressed as a run ends must not begin the next
KEYS = "return: EMERGENCY STOP    l return: it crossed a line    h return: it hit something"
_SAID = {"l": (SegmentEndReason.LINE, "seen by the operator"), "h": (SegmentEndReason.HIT, "seen by the operator")}


class OperatorKeyboard:
    """Lines that a person types, from one thread for the whole course. `ask` waits for one, `heard` never does."""

    def __init__(self, typed: TextIO = sys.stdin, say: Callable[[str], None] = print) -> None:
        self.say = say
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=[typed], name="ad2-operator", daemon=True).start()

    def _read(self, typed: TextIO) -> None:
        for line in typed:
            self._lines.put(line.strip().lower())
        self._lines.put(None)

    def ask(self, text: str) -> str:
        """Ad2Error where nobody types any more."""
        while self.heard() is not None:
            pass  # what was typed before the question does not answer it
        self.say(text)
        line = self._lines.get()
        if line is None:
            raise Ad2Error("the course needs somebody at the keyboard, beside the vehicle")
        return line

    def heard(self) -> str | None:
        """What was typed since, or None."""
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return None
        if line is None:  # it stays ended for whoever asks next
            self._lines.put(None)
        return line


class VehicleTransport(LinkedTransport):
    """See the head of this file. The tunnel to the vehicle is the caller's."""

    name = "vehicle"
    judges = False

    def __init__(self, link: PlannerSetup, operator: OperatorKeyboard) -> None:
        super().__init__(link)
        if not link.robot.vehicle.topics.odom:
            raise Ad2Error(
                f"{link.robot.name} has no odometry (topics.odom), by which a real vehicle's way is measured: drive it "
                "with ad2 robot plan, or on a course with --transport local or ros"
            )
        self._operator = operator
        self._began = 0.0

    def place(self, segment: TrackSegment, seed: int) -> Pose:
        x, y, yaw = segment.start
        answer = ""
        while answer != GO:
            answer = self._operator.ask(
                f"{segment.name} ({segment.geometry}): put the vehicle at x {x:.2f} m, y {y:.2f} m, heading "
                f"{math.degrees(yaw):.0f} degrees, and step back. {GO} return: drive    q return: end the course"
            )
            if answer == "q":
                raise Ad2Error("ended by the operator; the same command goes on with this run")
        self._operator.say(KEYS)
        self._began = time.monotonic()
        return segment.start

    def look(self, run: LinkedRun) -> None:
        heard = self._operator.heard()
        if heard in _SAID:
            run.watch.stop(*_SAID[heard])
        elif heard is not None:
            raise Ad2Error("emergency stop by the operator; the same command goes on with this run")

    def hear(self, run: LinkedRun, turn: CycleResult) -> None:
        if run.hint.here is not None:
            run.see((time.monotonic() - self._began, *run.hint.here, run.hint.speed))
        super().hear(run, turn)

    def close(self) -> None:
        """The vehicle's client stays on the vehicle."""
