"""The planner server: one vehicle at a time, its pictures in, its orders out, and the emergency stop.

Who connects proves that it knows the token (onboard/wire.py). Network in threads of its own; the model thinks in the
thread that calls `work`, where its libraries expect to be. What the vehicle's own end checks once more (sessions,
ages, limits, the latch) is checked there because nothing here is needed to stand: it stands by itself.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.planner.connection_listener import ConnectionListener
from closedloop_plugin.robots.planner.decision_cycle import (
    PATIENCE,
    CycleResult,
    DecisionCycle,
    RouteHint,
    VehicleObservation,
)
from closedloop_plugin.robots.planner.journal import PlannerJournal
from closedloop_plugin.robots.planner.session import SessionLost, VehicleRefused, VehicleSession
from closedloop_plugin.robots.vehicles.base import Vehicle
from lmms_eval_ad2.errors import Ad2Error

FAREWELL_S = 0.5  # for the vehicle to hear the last words
MOTION_S = 0.5  # the paper's: each order moves the vehicle for so long
_WORDS = 600  # characters of an answer that the state shows


class PlannerServer:
    """`on_cycle` hears every CycleResult, `on_lost` why a session ended (both from the planner's threads)."""

    def __init__(
        self,
        agent: Agent,
        interpreter: Interpreter | None,
        profile: Profile,
        vehicle: Vehicle,
        token: bytes,
        course: RouteHint | None = None,
        *,
        seed: int = 0,
        strict: bool = False,
        motion_s: float = MOTION_S,
        journal: PlannerJournal | None = None,
        patience: int | None = PATIENCE,
    ) -> None:
        """`strict`: words that cannot be read stop the vehicle for good, instead of letting it stand for one motion.
        `patience`: so many failures in a row do, too; None: somebody else counts them."""
        self.motion_s, self._patience = motion_s, patience
        self.cycle = DecisionCycle(agent, interpreter, profile, vehicle, course, seed)
        self.vehicle, self.journal, self.strict = vehicle, journal or PlannerJournal(), strict
        self.on_cycle: list[Callable[[CycleResult], None]] = []
        self.on_lost: list[Callable[[str], None]] = []
        self._token = token
        self._lock = threading.RLock()  # of everything below, and around every order, stop and release that is sent
        self._changed = threading.Condition(self._lock)
        self._session: VehicleSession | None = None
        self._waiting: tuple[VehicleSession, VehicleObservation, float] | None = (
            None  # the newest obs, and when it came
        )
        self._last_seq = -1
        self._open: int | None = None  # seq of the picture whose order is not sent yet; no other order may leave
        self._stop: str | None = None  # the latch: why
        self._stands = False  # the vehicle said so, since the stop
        self._said = ""
        self._seen_at: float | None = None
        self._turn: CycleResult | None = None
        self._thinking = self._closed = False
        self._driving = threading.Lock()  # of the cycle: it has one thread at a time

    def begin(self, episode: str, hint: RouteHint | None = None) -> None:
        """A new drive for the agent, with its navigator. Waits for a decision that is being made; what was seen before
        is not answered in it. (An order that has left is driven to its end.)"""
        self._void()
        with self._driving:
            self._void()
            self.cycle.hint = hint or self.cycle.hint
            self.cycle.begin(episode)

    def stop(self, reason: str, latch: bool = True) -> None:
        """The vehicle is to stand, now. With `latch` it stands until `release`, whoever connects meanwhile."""
        reason = reason[:500]
        with self._lock:
            self._stands = False
            if latch:
                self._stop = reason
            self._send("stop", reason=reason, latch=latch)
            self._void()
        self.journal.event("stop", detail=reason, latch=latch)  # after it: a terminal may take its time

    def release(self) -> None:
        """Undo the latch of `stop`. One that was set on the vehicle itself stays."""
        with self._lock:
            self.journal.event("release")
            self._stop = None
            self.cycle.failures = 0
            self._send("release")
            self._changed.notify_all()

    def serve(self, host: str, port: int, ready: Callable[[str, int], None] = lambda host, port: None) -> None:
        """Listen and drive until `close`."""
        with self.listening(host, port) as where:
            ready(*where)
            self.work()

    @contextmanager
    def listening(self, host: str, port: int) -> Iterator[tuple[str, int]]:
        """Vehicles may connect until the block ends; gives the address. Port 0: any free one."""
        try:
            server = socket.create_server((host, port))
        except OSError as exc:
            why = exc.strerror or str(exc)
            raise Ad2Error(f"cannot listen on {host} port {port} ({why}); choose another port, or 0 for any") from None
        door = ConnectionListener(server, self._token, self.vehicle.name, self, self.journal)
        try:
            yield server.getsockname()[:2]
        finally:
            self.close()
            door.close()

    def close(self, reason: str = "the planner ends") -> None:
        """The vehicle is told to stand (it may move again with another planner); `work` ends."""
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
                self._changed.wait_for(lambda: self._session is None, FAREWELL_S)
            if self._session:
                self._session.close()

    def work(self) -> None:
        """Answer every picture until `close`."""
        while (taken := self._take()) is not None:
            session, sight, came = taken
            with self._driving:
                if not self._asks(session, sight.seq):  # overtaken by a stop or a new drive, just now
                    continue
                turn = self.cycle.decide(sight)
            self._answer(session, turn, came)
            self.journal.picture(session.id, sight.seq, sight.jpeg)
            for heard in self.on_cycle:
                heard(turn)
        with self._driving:
            self.cycle.finish()

    def state(self) -> dict[str, Any]:
        """For the console, for `ad2 robot stop`, for logs. JSON."""
        with self._lock:
            turn, now = self._turn, time.monotonic()
            words = ""
            if turn:
                words = turn.error or turn.unparsed or " | ".join(turn.decision.texts.values())
            return {
                "robot": self.vehicle.name,
                "state": self._word(),
                "connected": self._session is not None,
                "latched": self._stop,
                "stands": self._stands,
                "frame_age_s": None if self._seen_at is None else round(now - self._seen_at, 3),
                "cycle": turn.tick if turn else None,
                "words": words[:_WORDS],
                "order": turn.told() if turn else None,
                "thinking_s": turn.thinking_s if turn else None,
                "said": self._said,
                "counts": dict(self.journal.counts.copy() + self.cycle.counts.copy()),  # others count meanwhile
            }

    def _word(self) -> str:
        if self._stop is not None:
            return "stopped"
        if self._session is None:
            return "waiting for the vehicle"
        return "thinking" if self._thinking else "driving"

    def _send(self, kind: str, **header: Any) -> bool:
        """To the vehicle that is connected, if one is and hears."""
        try:
            if self._session is None:
                return False
            self._session.send(kind, **header)
            return True
        except SessionLost:
            return False

    def _asks(self, session: VehicleSession, seq: int) -> bool:
        """Whether the vehicle still waits for the order to this picture."""
        with self._lock:
            return session is self._session and seq == self._open

    def _void(self) -> None:
        """What was seen so far moves nothing any more, be it thought about or not. The vehicle gets its answer at once,
        to stand: after a release it would wait for one."""
        with self._lock:
            if self._open is not None:
                still = self.vehicle.actuation(COAST).to_onboard()
                self._send("cmd", obs=self._open, duration_s=self.motion_s, **asdict(COAST), **still)
            self._open = self._waiting = None

    def _take(self) -> tuple[VehicleSession, VehicleObservation, float] | None:
        with self._changed:
            self._thinking = False
            self._changed.wait_for(lambda: self._closed or (self._waiting is not None))
            taken, self._waiting = self._waiting, None
            self._thinking = True
            return None if self._closed else taken

    def _answer(self, session: VehicleSession, turn: CycleResult, came: float) -> None:
        with self._lock:
            self._turn = turn
            why = self._order(session, turn)
            spent = time.monotonic() - came
            if turn.error and self._patience is not None and self.cycle.failures >= self._patience:
                self.stop(f"{self.cycle.failures} failures in a row, the last: {turn.error}")
            if turn.unparsed and self.strict:
                self.stop(f"a reply that cannot be read (strict): {turn.unparsed}")
        if why:
            self.journal.event("order not sent", why, seq=turn.seq)
        overhead = max(spent - turn.thinking_s, 0.0)
        self.journal.write({"event": "cycle", "session": session.id, **turn.log(), "overhead_s": round(overhead, 5)})

    def _order(self, session: VehicleSession, turn: CycleResult) -> str:
        """Send it, if the vehicle still waits for it; else why not."""
        if session is not self._session:
            return "session is over"
        if turn.seq != self._open:
            return "a newer picture waits" if self._waiting else "overtaken by a stop or a new drive"
        self._open = None
        longest = self.vehicle.motion_s(turn.actuation, self.motion_s)
        if not self._send("cmd", obs=turn.seq, duration_s=longest, **turn.told()):
            return "session is over"
        self._stands, self._said = False, ""
        return ""

    # What the door and the sessions behind it say, each from a thread of its own.

    def admit(self, make: Callable[[], VehicleSession]) -> VehicleSession:
        """See Host.admit."""
        with self._lock:
            if self._closed:
                raise VehicleRefused("the planner ends")
            if self._session is not None:
                raise VehicleRefused("second client", told="another vehicle is connected")
            self._session = session = make()
            self._waiting, self._last_seq, self._open, self._said = None, -1, None, ""
            self.journal.event("connected", session=session.id)
            if self._stop is not None:
                self._stands = False
                self._send("stop", reason=self._stop, latch=True)
            return session

    def hear(self, session: VehicleSession, kind: str, header: wire.Header, blob: bytes) -> None:
        """See Host.hear."""
        if kind == "obs":
            self._see(session, header, blob)
        elif kind == "stop":
            with self._lock:
                # Why it stands may lie behind it when our order arrives: that was thought before, and is not driven.
                self._void()
                self._stands, self._said = self._stop is None or header["latch"], header["reason"]
            self.journal.event("vehicle stands", detail=header["reason"], latch=header["latch"])
        elif kind == "done":
            with self._lock:
                self._said = header["reason"]
            self.journal.event("vehicle ends", detail=header["reason"])
        elif kind != "heartbeat":
            raise VehicleRefused("malformed", f"{kind} from a vehicle")

    def gone(self, session: VehicleSession, why: str) -> None:
        """See Host.gone."""
        with self._lock:
            self.journal.event("lost", why.split(":")[0], detail=why, session=session.id)
            if self._session is session:
                self._session = self._waiting = self._open = None
                self._changed.notify_all()
        for heard in self.on_lost:
            heard(why)

    def _see(self, session: VehicleSession, header: wire.Header, blob: bytes) -> None:
        with self._changed:
            if header["seq"] <= self._last_seq:  # one that was answered, or overtaken
                self.journal.event("refused", "replayed", seq=header["seq"], session=session.id)
                return
            self._last_seq = self._open = header["seq"]
            self._seen_at = time.monotonic()
            if self._stop is not None:
                self._void()
                return
            seen = {name: header.get(name) for name in ("odom", "status", "motion")}
            self._waiting = session, VehicleObservation(header["seq"], header["stamp"], blob, **seen), self._seen_at
            self._changed.notify_all()
