"""The planner server: one vehicle at a time, frames in, orders out, and the emergency stop.

A vehicle authenticates with a shared token (onboard/wire.py). The network has its own threads; the model runs in the
thread that calls `work`, because some libraries need the main thread. The vehicle checks sessions, ages, limits and the
latch itself, so that it stops without the planner.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.planner.connection_listener import ConnectionListener
from closedloop_plugin.robots.planner.decision_cycle import (
    FAILURES_MAX,
    CycleResult,
    DecisionCycle,
    VehicleObservation,
)
from closedloop_plugin.robots.planner.journal import PlannerJournal
from closedloop_plugin.robots.planner.session import SessionLost, VehicleRefused, VehicleSession
from closedloop_plugin.robots.vehicles.base import Vehicle
from lmms_eval_ad2.core.errors import Ad2Error

CLOSE_S = 0.5  # for the vehicle to receive the last frames
MOTION_S = 0.5  # duration of the motion of each order, from the paper (section 3.2)


class PlannerServer:
    """`on_lost`: callbacks with the reason, called from a connection's thread."""

    def __init__(
        self,
        agent: Agent,
        interpreter: Interpreter | None,
        profile: Profile,
        vehicle: Vehicle,
        token: bytes,
        *,
        seed: int = 0,
        strict: bool = False,
        motion_s: float = MOTION_S,
        journal: PlannerJournal | None = None,
    ) -> None:
        """`strict`: a reply that cannot be interpreted stops the vehicle until released, not only for one motion."""
        self.motion_s = motion_s
        self.cycle = DecisionCycle(agent=agent, interpreter=interpreter, profile=profile, vehicle=vehicle, seed=seed)
        self.vehicle, self.journal, self.strict = vehicle, journal or PlannerJournal(), strict
        self.on_lost: list[Callable[[str], None]] = []
        self._token = token
        self._lock = threading.RLock()  # guards everything below and every order, stop and release that is sent
        self._changed = threading.Condition(self._lock)
        self._session: VehicleSession | None = None
        # The newest observation and its time of arrival.
        self._waiting: tuple[VehicleSession, VehicleObservation, float] | None = None
        self._last_seq = -1
        self._open: int | None = None  # seq of the frame that waits for its order; no other order may be sent
        self._stop: str | None = None  # reason of the latched stop
        self._stands = False  # the vehicle has confirmed the stop
        self._vehicle_reason = ""
        self._result: CycleResult | None = None
        self._thinking = self._closed = False

    def stop(self, reason: str, latch: bool = True) -> None:
        """Stop the vehicle now. With `latch` it stands until `release`, even if it reconnects meanwhile."""
        reason = reason[:500]
        with self._lock:
            self._stands = False
            if latch:
                self._stop = reason
            self._send("stop", reason=reason, latch=latch)
            self._cancel_open()
        self.journal.event("stop", detail=reason, latch=latch)  # after sending: a terminal may be slow

    def release(self) -> None:
        """Release the latch of `stop`. A stop that was set on the vehicle itself remains."""
        with self._lock:
            self.journal.event("release")
            self._stop = None
            self.cycle.failures = 0
            self._send("release")
            self._changed.notify_all()

    def serve(self, host: str, port: int, ready: Callable[[str, int], None] = lambda host, port: None) -> None:
        """Listen and send orders until `close`."""
        with self.listening(host, port) as address:
            ready(*address)
            self.work()

    @contextmanager
    def listening(self, host: str, port: int) -> Iterator[tuple[str, int]]:
        """Accept connections until the block ends; yields (host, port). Port 0: any free one."""
        try:
            server = socket.create_server((host, port))
        except OSError as exc:
            why = exc.strerror or str(exc)
            raise Ad2Error(f"cannot listen on {host} port {port} ({why}); choose another port, or 0 for any") from None
        listener = ConnectionListener(server, self._token, self.vehicle.name, self, self.journal)
        try:
            yield server.getsockname()[:2]
        finally:
            self.close()
            listener.close()

    def close(self, reason: str = "the planner ends") -> None:
        """Stop the vehicle without a latch, close its session and end `work`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._open = None
            self._send("stop", reason=reason, latch=False)
            self._send("done", reason=reason)
            self._changed.notify_all()
            if self._session:
                self._session.finish()
                self._changed.wait_for(lambda: self._session is None, CLOSE_S)
            if self._session:
                self._session.close()

    def work(self) -> None:
        """Decide on each observation and send the order, until `close`."""
        while (taken := self._next_observation()) is not None:
            session, obs, received_at = taken
            if not self._still_waiting(session, obs.seq):  # cancelled just now by a stop
                continue
            result = self.cycle.decide(obs)
            self._answer(session, result, received_at)
            self.journal.picture(session.id, obs.seq, obs.jpeg)
        self.cycle.finish()

    def state(self) -> dict[str, Any]:
        """The state for the control socket, as JSON values."""
        with self._lock:
            result = self._result
            return {
                "robot": self.vehicle.name,
                "state": self._state_name(),
                "connected": self._session is not None,
                "latched": self._stop,
                "stands": self._stands,
                "cycle": result.tick if result else None,
                "said": self._vehicle_reason,
            }

    def _state_name(self) -> str:
        if self._stop is not None:
            return "stopped"
        if self._session is None:
            return "waiting for the vehicle"
        return "thinking" if self._thinking else "driving"

    def _send(self, kind: str, **header: Any) -> bool:
        """Send a frame to the connected vehicle; False if there is none or it is lost."""
        try:
            if self._session is None:
                return False
            self._session.send(kind, **header)
            return True
        except SessionLost:
            return False

    def _still_waiting(self, session: VehicleSession, seq: int) -> bool:
        """Whether the vehicle still waits for the order to this frame."""
        with self._lock:
            return session is self._session and seq == self._open

    def _cancel_open(self) -> None:
        """Cancel the open frame, decided or not. The vehicle gets an order to stand at once, because it would wait for
        an answer after a release."""
        with self._lock:
            if self._open is not None:
                still = self.vehicle.actuation(COAST).to_onboard()
                self._send("cmd", obs=self._open, duration_s=self.motion_s, **vars(COAST), **still)
            self._open = self._waiting = None

    def _next_observation(self) -> tuple[VehicleSession, VehicleObservation, float] | None:
        with self._changed:
            self._thinking = False
            self._changed.wait_for(lambda: self._closed or (self._waiting is not None))
            taken, self._waiting = self._waiting, None
            self._thinking = True
            return None if self._closed else taken

    def _answer(self, session: VehicleSession, result: CycleResult, received_at: float) -> None:
        with self._lock:
            self._result = result
            why = self._send_order(session, result)
            spent = time.monotonic() - received_at
            if result.error and self.cycle.failures >= FAILURES_MAX:
                self.stop(f"{self.cycle.failures} failures in a row, the last: {result.error}")
            if result.unparsed and self.strict:
                self.stop(f"a reply that cannot be read (strict): {result.unparsed}")
        if why:
            self.journal.event("order not sent", why, seq=result.seq)
        overhead = max(spent - result.thinking_s, 0.0)
        self.journal.write({"event": "cycle", "session": session.id, **result.log(), "overhead_s": round(overhead, 5)})

    def _send_order(self, session: VehicleSession, result: CycleResult) -> str:
        """Send the order if the vehicle still waits for it; returns "" or the reason why not."""
        if session is not self._session:
            return "session is over"
        if result.seq != self._open:
            return "a newer picture waits" if self._waiting else "overtaken by a stop"
        self._open = None
        longest = self.vehicle.motion_s(result.actuation, self.motion_s)
        if not self._send("cmd", obs=result.seq, duration_s=longest, **result.order()):
            return "session is over"
        self._stands, self._vehicle_reason = False, ""
        return ""

    # ConnectionHandler, called from the threads of the connections.

    def admit(self, make: Callable[[], VehicleSession]) -> VehicleSession:
        """See ConnectionHandler.admit."""
        with self._lock:
            if self._closed:
                raise VehicleRefused("the planner ends")
            if self._session is not None:
                raise VehicleRefused("second client", peer_reason="another vehicle is connected")
            self._session = session = make()
            self._waiting, self._last_seq, self._open, self._vehicle_reason = None, -1, None, ""
            self.journal.event("connected", session=session.id)
            if self._stop is not None:
                self._stands = False
                self._send("stop", reason=self._stop, latch=True)
            return session

    def on_frame(self, session: VehicleSession, kind: str, header: wire.Header, blob: bytes) -> None:
        """See ConnectionHandler.on_frame."""
        if kind == "obs":
            self._on_observation(session, header, blob)
        elif kind == "stop":
            with self._lock:
                # The hindrance may be over when an order arrives that was decided before it: it must not be executed.
                self._cancel_open()
                self._stands, self._vehicle_reason = self._stop is None or header["latch"], header["reason"]
            self.journal.event("vehicle stands", detail=header["reason"], latch=header["latch"])
        elif kind == "done":
            with self._lock:
                self._vehicle_reason = header["reason"]
            self.journal.event("vehicle ends", detail=header["reason"])
        elif kind != "heartbeat":
            raise VehicleRefused("malformed", f"{kind} from a vehicle")

    def on_closed(self, session: VehicleSession, why: str) -> None:
        """See ConnectionHandler.on_closed."""
        with self._lock:
            self.journal.event("lost", why.split(":")[0], detail=why, session=session.id)
            if self._session is session:
                self._session = self._waiting = self._open = None
                self._changed.notify_all()
        for callback in self.on_lost:
            callback(why)

    def _on_observation(self, session: VehicleSession, header: wire.Header, blob: bytes) -> None:
        with self._changed:
            if header["seq"] <= self._last_seq:  # answered or superseded already
                self.journal.event("refused", "replayed", seq=header["seq"], session=session.id)
                return
            self._last_seq = self._open = header["seq"]
            if self._stop is not None:
                self._cancel_open()
                return
            seen = {name: header.get(name) for name in ("odom", "status", "motion")}
            obs = VehicleObservation(header["seq"], header["stamp"], blob, **seen)
            self._waiting = session, obs, time.monotonic()
            self._changed.notify_all()
