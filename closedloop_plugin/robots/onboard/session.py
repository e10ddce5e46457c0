"""One connection to a planner: send a frame, receive a command, execute the motion, then send the next frame.

Every fault ends the motion first and is reported afterwards.
"""

import time
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from closedloop_plugin.robots.onboard import clamp, wire
from closedloop_plugin.robots.onboard.gate import ActuationGate
from closedloop_plugin.robots.onboard.io import LATEST_S, VehicleIO
from closedloop_plugin.robots.onboard.journal import OnboardJournal
from closedloop_plugin.robots.onboard.latch import PLANNER, EmergencyStopLatch
from closedloop_plugin.robots.onboard.link import LinkLost, PlannerLink
from closedloop_plugin.robots.onboard.motion import MotionExecutor
from closedloop_plugin.robots.onboard.relay_link import RelayLink

DEAD_S = 5.0  # without a byte: a frozen tunnel does not close the connection
UNANSWERED_S = 30.0  # then the frame is given up; commands older than max_age_s are refused anyway


class OnboardContext(NamedTuple):
    """The objects that outlive a connection."""

    settings: Dict[str, Any]
    io: VehicleIO
    outlet: Union[ActuationGate, RelayLink]
    motion: MotionExecutor
    latch: EmergencyStopLatch
    journal: OnboardJournal


class OnboardSession:
    """Call `turn` repeatedly until it raises LinkLost or wire.BadFrame: the connection is lost in both cases."""

    def __init__(self, context: OnboardContext, link: PlannerLink, name: str) -> None:
        self._context, self._link, self._name = context, link, name
        self._period = 1.0 / context.settings["heartbeat_hz"]
        self._beats, self._beat_at = 0, 0.0
        self._seq = 0
        self._outstanding: Optional[Tuple[int, float]] = None  # (seq, time sent) of the frame without a command yet
        self._last_taken = float("-inf")
        self._reported: Optional[str] = None  # the hindrance last reported to the planner

    def turn(self) -> None:
        for kind, header, _ in self._link.wait(self._next_event() - time.monotonic()):
            self._handle(kind, header)
        now = time.monotonic()
        if now >= self._beat_at:
            if not self._link.busy:
                self._send("heartbeat", n=self._beats)
            self._beats, self._beat_at = self._beats + 1, now + self._period
        hindrance = self._check(now)
        if hindrance is None:
            self._send_frame(now)

    def end(self, reason: str) -> None:
        """Stop, send the reason to the planner and close."""
        self._stop(reason)
        self._send("done", reason=reason)
        self._link.close(0.2)

    def _next_event(self) -> float:
        """When to act if nothing arrives before: the next heartbeat, or the moment at which the camera is stalled."""
        heard_at = self._context.io.camera_heard() if self._context.motion.state.moving else None
        if heard_at is None:
            return self._beat_at
        return min(self._beat_at, heard_at + self._context.settings["camera_stall_s"])

    def _send(self, kind: str, blob: bytes = b"", **fields: Any) -> None:
        self._link.send(kind, blob, session=self._name, **fields)

    def _stop(self, reason: str) -> None:
        if self._context.motion.state.moving:
            self._context.motion.stop(reason)
            self._context.journal.count(f"stopped: {reason}")

    def _handle(self, kind: str, header: wire.Header) -> None:
        count = self._context.journal.count
        try:
            wire.check(kind, header)
        except wire.BadFrame as exc:
            return count(exc.reason, str(exc))
        if header.get("session") != self._name:
            return count("wrong session", kind)
        if kind == "cmd":
            self._command(header)
        elif kind == "stop":
            self._stop("planner's stop")
            if header["latch"]:
                self._context.latch.set(PLANNER, header["reason"])
            self._send("stop", reason=header["reason"][:500], latch=header["latch"])
        elif kind == "release":
            if not self._context.latch.release(PLANNER):
                count("release refused", "the stop was set on the vehicle; release it there")
        elif kind == "done":
            raise LinkLost("planner is done", header["reason"][:200])
        elif kind != "heartbeat":
            count("unexpected", kind)
        return None

    def _command(self, cmd: wire.Header) -> None:
        """Start the motion, or count why not. Either way its frame is no longer outstanding."""
        settings, now = self._context.settings, time.monotonic()
        if self._outstanding is None or cmd["obs"] != self._outstanding[0]:
            return self._context.journal.count("not outstanding", f"obs {cmd['obs']}")
        age_s, self._outstanding = now - self._outstanding[1], None
        if age_s > settings["max_age_s"]:
            return self._context.journal.count("late", f"{age_s:.3f} s after its frame")
        hindrance = self._hindrance()
        if hindrance:
            return self._context.journal.count("cannot drive", hindrance)
        wanted = wire.actuation_of(cmd)
        problem = clamp.problem(wanted, settings["vehicle"])
        if problem:
            return self._context.journal.count("malformed", problem)
        duration_s = min(cmd["duration_s"], settings["motion_s"])
        self._context.motion.start(wanted, duration_s, cmd["obs"])
        self._context.journal.log("motion", seq=cmd["obs"], duration_s=duration_s, age_s=round(age_s, 4), **wanted)
        return None

    def _check(self, now: float) -> Optional[str]:
        """The current hindrance, or None. A hindrance ends the motion and is reported to the planner."""
        settings, found = self._context.settings, self._hindrance()
        if self._context.motion.state.moving:
            heard_at = self._context.io.camera_heard()
            if found:
                self._stop(found)
            elif heard_at is None or now - heard_at >= settings["camera_stall_s"]:
                self._stop("camera stalled")
            elif now - self._link.heard_at > settings["link_silence_s"]:
                self._stop("link silent")
        elif now - self._link.heard_at > DEAD_S:
            raise LinkLost("link silent", f"nothing heard for {DEAD_S:g} s")
        if found != self._reported:
            self._reported = found
            self._context.journal.log("hindered" if found else "free", why=found)
            if found:
                self._send("stop", reason=found[:500], latch=self._context.latch.held() is not None)
            else:
                self._outstanding = None  # a decision made before or during the hindrance must not be executed
        return found

    def _hindrance(self) -> Optional[str]:
        context = self._context
        stopped = context.latch.held()
        if stopped:
            return f"emergency stop: {stopped}"
        if not context.motion.state.moving and self._outstanding is None:
            context.io.latest_frame()  # encodes it, so that an unusable camera shows in fault()
        return context.io.fault() or context.outlet.fault() or self._wrong_mode()

    def _wrong_mode(self) -> Optional[str]:
        vehicle = self._context.settings["vehicle"]
        if vehicle.get("mode") is None:
            return None
        status = self._context.io.status()
        if status is None:
            return f"nothing is heard on {vehicle['topics']['status']}: which mode is the vehicle in?"
        if status.get("mode") == vehicle["mode"]:
            return None
        return f"the vehicle is in mode {status.get('mode')}, {vehicle['name']} is mode {vehicle['mode']}: switch it"

    def _send_frame(self, now: float) -> None:
        """Send the next frame, if none is outstanding, nothing moves, and it was taken after the last motion ended."""
        if self._outstanding is not None:
            if now - self._outstanding[1] < UNANSWERED_S:
                return
            self._outstanding = None
            self._context.journal.count("unanswered")
        state, frame = self._context.motion.state, self._context.io.latest_frame()
        if state.moving or frame is None or self._link.busy:
            return
        taken, jpeg, width, height = frame
        if taken <= max(self._last_taken, state.ended or 0.0) or now - taken > LATEST_S:
            return
        done = {"seq": state.seq, "ended": state.ended, "reason": state.reason} if state.seq >= 0 else None
        self._seq, self._last_taken = self._seq + 1, taken
        io = self._context.io
        self._outstanding = self._seq, now
        self._send(
            "obs",
            jpeg,
            seq=self._seq,
            stamp=taken,
            odom=io.odometry(),
            status=io.status(),
            motion=done,
            width=width,
            height=height,
        )
