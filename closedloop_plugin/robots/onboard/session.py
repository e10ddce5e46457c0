"""One connection to a planner: a frame out, a command in, a motion, and the next frame once that has ended.

Everything that can go wrong ends the motion first and is told afterwards.
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

DEAD_S = 5.0  # without a byte: a frozen tunnel does not hang up
UNANSWERED_S = 30.0  # then the frame is given up; a planner that thinks longer than max_age_s answers in vain anyway


class OnboardContext(NamedTuple):
    """What outlives a connection."""

    settings: Dict[str, Any]
    io: VehicleIO
    outlet: Union[ActuationGate, RelayLink]
    motion: MotionExecutor
    latch: EmergencyStopLatch
    journal: OnboardJournal


class OnboardSession:
    """`turn` again and again, until it raises LinkLost (or wire.BadFrame: the stream is lost too)."""

    def __init__(self, car: OnboardContext, link: PlannerLink, name: str) -> None:
        self._car, self._link, self._name = car, link, name
        self._period = 1.0 / car.settings["heartbeat_hz"]
        self._beats, self._beat_at = 0, 0.0
        self._seq = 0
        self._asked: Optional[Tuple[int, float]] = None  # (seq, when) of the frame that waits for its command
        self._last_taken = float("-inf")
        self._told: Optional[str] = None  # what stands in the way, as the planner knows it

    def turn(self) -> None:
        for kind, header, _ in self._link.wait(self._next_look() - time.monotonic()):
            self._hear(kind, header)
        now = time.monotonic()
        if now >= self._beat_at:
            if not self._link.busy:
                self._send("heartbeat", n=self._beats)
            self._beats, self._beat_at = self._beats + 1, now + self._period
        hindrance = self._watch(now)
        if hindrance is None:
            self._ask(now)

    def end(self, reason: str) -> None:
        """Stand, and take leave."""
        self._stop(reason)
        self._send("done", reason=reason)
        self._link.close(0.2)

    def _next_look(self) -> float:
        """When there is something to do, if nothing comes before: a heartbeat is due, or a frame overdue."""
        heard_at = self._car.io.camera_heard() if self._car.motion.state.moving else None
        if heard_at is None:
            return self._beat_at
        return min(self._beat_at, heard_at + self._car.settings["camera_stall_s"])

    def _send(self, kind: str, blob: bytes = b"", **fields: Any) -> None:
        self._link.send(kind, blob, session=self._name, **fields)

    def _stop(self, reason: str) -> None:
        if self._car.motion.state.moving:
            self._car.motion.stop(reason)
            self._car.journal.count(f"stopped: {reason}")

    def _hear(self, kind: str, header: wire.Header) -> None:
        count = self._car.journal.count
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
                self._car.latch.set(PLANNER, header["reason"])
            self._send("stop", reason=header["reason"][:500], latch=header["latch"])
        elif kind == "release":
            if not self._car.latch.release(PLANNER):
                count("release refused", "the stop was set on the vehicle; release it there")
        elif kind == "done":
            raise LinkLost("planner is done", header["reason"][:200])
        elif kind != "heartbeat":
            count("unexpected", kind)
        return None

    def _command(self, cmd: wire.Header) -> None:
        """Obey it, or say why not. The frame it answers is answered in both cases."""
        settings, now = self._car.settings, time.monotonic()
        if self._asked is None or cmd["obs"] != self._asked[0]:
            return self._car.journal.count("not outstanding", f"obs {cmd['obs']}")
        age_s, self._asked = now - self._asked[1], None
        if age_s > settings["max_age_s"]:
            return self._car.journal.count("late", f"{age_s:.3f} s after its frame")
        hindrance = self._hindrance()
        if hindrance:
            return self._car.journal.count("cannot drive", hindrance)
        wanted = wire.actuation_of(cmd)
        problem = clamp.problem(wanted, settings["vehicle"])
        if problem:
            return self._car.journal.count("malformed", problem)
        duration_s = min(cmd["duration_s"], settings["motion_s"])
        self._car.motion.start(wanted, duration_s, cmd["obs"])
        self._car.journal.say("motion", seq=cmd["obs"], duration_s=duration_s, age_s=round(age_s, 4), **wanted)
        return None

    def _watch(self, now: float) -> Optional[str]:
        """What stands in the way of driving, or None; a motion that runs is ended, and the planner told."""
        settings, found = self._car.settings, self._hindrance()
        if self._car.motion.state.moving:
            heard_at = self._car.io.camera_heard()
            if found:
                self._stop(found)
            elif heard_at is None or now - heard_at >= settings["camera_stall_s"]:
                self._stop("camera stalled")
            elif now - self._link.heard_at > settings["link_silence_s"]:
                self._stop("link silent")
        elif now - self._link.heard_at > DEAD_S:
            raise LinkLost("link silent", f"nothing heard for {DEAD_S:g} s")
        if found != self._told:
            self._told = found
            self._car.journal.say("hindered" if found else "free", why=found)
            if found:
                self._send("stop", reason=found[:500], latch=self._car.latch.held() is not None)
            else:
                self._asked = None  # what was thought of before or meanwhile is not driven afterwards
        return found

    def _hindrance(self) -> Optional[str]:
        car = self._car
        stopped = car.latch.held()
        if stopped:
            return f"emergency stop: {stopped}"
        if not car.motion.state.moving and self._asked is None:
            car.io.latest_frame()  # packs it; a camera that cannot be used shows in fault()
        return car.io.fault() or car.outlet.fault() or self._wrong_mode()

    def _wrong_mode(self) -> Optional[str]:
        vehicle = self._car.settings["vehicle"]
        if vehicle.get("mode") is None:
            return None
        status = self._car.io.status()
        if status is None:
            return f"nothing is heard on {vehicle['topics']['status']}: which mode is the vehicle in?"
        if status.get("mode") == vehicle["mode"]:
            return None
        return f"the vehicle is in mode {status.get('mode')}, {vehicle['name']} is mode {vehicle['mode']}: switch it"

    def _ask(self, now: float) -> None:
        """Send the next frame, if nothing waits, nothing moves, and it was taken after the last motion had ended."""
        if self._asked is not None:
            if now - self._asked[1] < UNANSWERED_S:
                return
            self._asked = None
            self._car.journal.count("unanswered")
        state, frame = self._car.motion.state, self._car.io.latest_frame()
        if state.moving or frame is None or self._link.busy:
            return
        taken, jpeg, width, height = frame
        if taken <= max(self._last_taken, state.ended or 0.0) or now - taken > LATEST_S:
            return
        done = {"seq": state.seq, "ended": state.ended, "reason": state.reason} if state.seq >= 0 else None
        self._seq, self._last_taken = self._seq + 1, taken
        io = self._car.io
        self._asked = self._seq, now
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
