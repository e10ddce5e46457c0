"""The planner server: one vehicle at a time, frames in, orders out, and the emergency stop.

A vehicle authenticates with a shared token (onboard/wire.py). The network is an event loop in its own thread; the model
runs in the thread that calls `work`, because some libraries need the main thread. The vehicle checks sessions, ages,
limits and the latch itself, so that it stops without the planner.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.planner import control
from closedloop_plugin.robots.planner.decision_cycle import (
    FAILURES_MAX,
    CycleResult,
    DecisionCycle,
    VehicleObservation,
)
from closedloop_plugin.robots.planner.journal import PlannerJournal
from closedloop_plugin.robots.planner.session import ConnectionHandshakes, VehicleRefused, VehicleSession, authenticate
from closedloop_plugin.robots.vehicles.vehicle import Vehicle
from lmms_eval_ad2.core.errors import Ad2Error

CLOSE_S = 0.5  # for the vehicle to receive the last frames
MOTION_S = 0.5  # duration of the motion of each order, from the paper (section 3.2)


class PlannerServer:
    """`on_lost`: callbacks with the reason, called in the event loop: they must not block."""

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
        self._handshakes = ConnectionHandshakes()
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
        self._tick: int | None = None  # of the last decision
        self._thinking = self._closed = False

    # Called from any thread.

    def stop(self, reason: str, latch: bool = True) -> None:
        """Stop the vehicle now. With `latch` it stands until `release`, even if it reconnects meanwhile."""
        reason = reason[:500]
        with self._lock:
            self._stands = False
            if latch:
                self._stop = reason
            self._send("stop", reason=reason, latch=latch)
            self._cancel_open()
        self.journal.event("stop", detail=reason, latch=latch)

    def release(self) -> None:
        """Release the latch of `stop`. A stop that was set on the vehicle itself remains."""
        with self._lock:
            self.journal.event("release")
            self._stop = None
            self.cycle.failures = 0
            self._send("release")
            self._changed.notify_all()

    def state(self) -> dict[str, Any]:
        """The state for the control socket, as JSON values."""
        with self._lock:
            if self._stop is not None:
                name = "stopped"
            elif self._session is None:
                name = "waiting for the vehicle"
            else:
                name = "thinking" if self._thinking else "driving"
            return {
                "robot": self.vehicle.name,
                "state": name,
                "connected": self._session is not None,
                "latched": self._stop,
                "stands": self._stands,
                "cycle": self._tick,
                "said": self._vehicle_reason,
            }

    @contextmanager
    def listening(self, host: str, port: int, control_file: Path | None = None) -> Iterator[tuple[str, int]]:
        """Serve vehicles, and requests at the control socket, until the block ends; yields (host, port).

        Port 0: any free one. Ad2Error: the port or the control socket is in use.
        """
        with ExitStack() as opened:
            opened.callback(self.journal.close)
            requests = opened.enter_context(control.bound(control_file)) if control_file else None
            try:
                vehicles = opened.enter_context(socket.create_server((host, port)))
            except OSError as exc:
                why = exc.strerror or str(exc)
                raise Ad2Error(
                    f"cannot listen on {host} port {port} ({why}); choose another port, or 0 for any"
                ) from None
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(self._on_loop_error)
            thread = threading.Thread(target=loop.run_forever, name="ad2-planner", daemon=True)
            thread.start()
            opened.callback(loop.close)
            opened.callback(thread.join)
            opened.callback(loop.call_soon_threadsafe, loop.stop)
            asyncio.run_coroutine_threadsafe(self._serve(vehicles, requests), loop).result()
            try:
                yield vehicles.getsockname()[:2]
            finally:
                self.close()
                asyncio.run_coroutine_threadsafe(self._end_connections(), loop).result()

    def close(self, reason: str = "the planner ends") -> None:
        """Stop the vehicle without a latch, close its session and end `work`. Not called in the event loop."""
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

    def work(self) -> None:
        """Decide on each observation and send the order, until `close`."""
        while (taken := self._next_observation()) is not None:
            session, obs, received_at = taken
            result = self.cycle.decide(obs)
            self._answer(session, result, received_at)
            self.journal.picture(session.id, obs.seq, obs.jpeg)
        self.cycle.finish()

    # Called from the thread of `work`.

    def _next_observation(self) -> tuple[VehicleSession, VehicleObservation, float] | None:
        with self._changed:
            self._thinking = False
            self._changed.wait_for(lambda: self._closed or (self._waiting is not None))
            taken, self._waiting = self._waiting, None
            self._thinking = True
            return None if self._closed else taken

    def _answer(self, session: VehicleSession, result: CycleResult, received_at: float) -> None:
        with self._lock:
            self._tick = result.observation.tick
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

    # Called with the lock held.

    def _send(self, kind: str, **header: Any) -> bool:
        """Send a frame to the connected vehicle; False if there is none or it is lost."""
        return self._session is not None and self._session.send(kind, **header)

    def _cancel_open(self) -> None:
        """Cancel the open frame, decided or not. The vehicle gets an order to stand at once, because it would wait for
        an answer after a release."""
        if self._open is not None:
            still = self.vehicle.actuation(COAST).to_onboard()
            self._send("cmd", obs=self._open, duration_s=self.motion_s, **vars(COAST), **still)
        self._open = self._waiting = None

    # In the event loop.

    async def _serve(self, vehicles: socket.socket, requests: socket.socket | None) -> None:
        self._servers = [await asyncio.start_server(self._connection, sock=vehicles)]
        if requests is not None:
            self._servers.append(await asyncio.start_unix_server(self._request, sock=requests, limit=control.LINE_MAX))

    async def _end_connections(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "socket.accept()" in context.get("message", ""):  # out of file descriptors; asyncio tries again
            self.journal.event("refused", "cannot accept", detail=str(context.get("exception")))
        else:
            loop.default_exception_handler(context)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request at the control socket. An invalid one gets no reply."""
        with closing(writer), suppress(OSError, ValueError, RecursionError):  # TimeoutError is an OSError
            async with asyncio.timeout(control.ANSWER_S):
                request = json.loads(await reader.readline())
                do = request.get("do") if isinstance(request, dict) else None
                if do == "stop":
                    self.stop(str(request.get("reason") or "asked for"))
                elif do == "release":
                    self.release()
                reply = self.state() if do in ("state", "stop", "release") else {"error": f"no such request: {do}"}
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a vehicle from its handshake to its end."""
        (peer, *_), this = writer.get_extra_info("peername") or ("left",), asyncio.current_task()
        assert this is not None
        self._handshakes.add(this, peer)
        try:
            welcome = await authenticate(reader, writer, self._token, self.vehicle.name)
            session = self._admit(writer, welcome)
        except VehicleRefused as exc:
            if exc.peer_reason:
                writer.write(wire.pack("done", {"session": "", "reason": exc.peer_reason}))
            self.journal.event("refused", exc.reason, detail=str(exc)[:300], peer=peer)
            writer.close()
            return
        except asyncio.CancelledError:  # by ConnectionHandshakes, or because the planner ends
            if not self._handshakes.remove(this):
                self.journal.event("refused", "displaced", detail="a newer connection took its place", peer=peer)
            writer.transport.abort()
            raise
        finally:
            self._handshakes.remove(this)
        await self._session_frames(session, reader)

    def _admit(self, writer: asyncio.StreamWriter, welcome: wire.Header) -> VehicleSession:
        """Open a session for an authenticated vehicle. VehicleRefused if another one is connected."""
        with self._lock:
            if self._closed:
                raise VehicleRefused("the planner ends")
            if self._session is not None:
                raise VehicleRefused("second client", peer_reason="another vehicle is connected")
            self._session = session = VehicleSession(writer, welcome)
            self._waiting, self._last_seq, self._open, self._vehicle_reason = None, -1, None, ""
            self.journal.event("connected", session=session.id)
            if self._stop is not None:
                self._stands = False
                self._send("stop", reason=self._stop, latch=True)
            return session

    async def _session_frames(self, session: VehicleSession, reader: asyncio.StreamReader) -> None:
        """Handle the frames of a session until it is lost."""
        why, frames = "internal error", wire.FrameReader()
        beats = asyncio.create_task(session.keep_alive())
        try:
            while data := await reader.read(65536):
                session.heard()
                for kind, header, blob in frames.feed(data):
                    wire.check(kind, header)
                    if header.get("session") != session.id:
                        raise VehicleRefused("other session", kind)
                    self._on_frame(session, kind, header, blob)
            why = session.lost or "closed by the vehicle"
        except asyncio.CancelledError:
            why = "closed: the planner ends"
            raise
        except OSError as exc:
            why = session.lost or f"closed: {exc}"
        except (wire.BadFrame, VehicleRefused) as exc:
            why = f"refused: {exc.reason}"
            self.journal.event("refused", exc.reason, detail=str(exc)[:300], session=session.id)
        finally:
            beats.cancel()
            session.close()
            with self._lock:
                self.journal.event("lost", why.split(":")[0], detail=why, session=session.id)
                self._session = self._waiting = self._open = None
                self._changed.notify_all()
            for callback in self.on_lost:
                callback(why)

    def _on_frame(self, session: VehicleSession, kind: str, header: wire.Header, blob: bytes) -> None:
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

    def _on_observation(self, session: VehicleSession, header: wire.Header, blob: bytes) -> None:
        with self._changed:
            if header["seq"] <= self._last_seq:  # answered or superseded already
                self.journal.event("refused", "replayed", seq=header["seq"], session=session.id)
                return
            self._last_seq = self._open = header["seq"]
            if self._stop is not None:
                self._cancel_open()
                return
            obs = VehicleObservation(header["seq"], header["stamp"], blob, header.get("odom"))
            self._waiting = session, obs, time.monotonic()
            self._changed.notify_all()
