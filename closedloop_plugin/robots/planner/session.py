"""The planner's end of one connection: handshake, frames, heartbeat, detection of a lost vehicle."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from closedloop_plugin.robots.onboard import wire

HANDSHAKE_S = 5.0  # for the whole handshake
SILENCE_S = 1.0  # without data from the vehicle (which sends a heartbeat every 20 ms), the session is closed
HEARTBEAT_S = 0.02  # in both directions; without it the vehicle soon stops by itself
LATE_S = 0.05  # a receive that times out this much too late means that this machine was suspended: receive again


class VehicleRefused(Exception):
    """`reason`: a short category for counting; `peer_reason`: the reason sent to the other side ("" for none)."""

    def __init__(self, reason: str, detail: str = "", peer_reason: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.peer_reason = reason, peer_reason


class SessionLost(Exception):
    """The connection is closed or silent."""


class PlannerHandshake:
    """A connection before the welcome. The planner may refuse even an authenticated vehicle."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._deadline = time.monotonic() + HANDSHAKE_S
        self._reader = wire.FrameReader(wire.HANDSHAKE_MAX, 0)
        self.hello = wire.server_hello()
        self.auth: wire.Header = {}
        sock.settimeout(HANDSHAKE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def welcome(self, token: bytes, vehicle: str) -> wire.Header:
        """Authenticate the vehicle; returns the welcome that opens its session. VehicleRefused contains the reason."""
        try:
            self._sock.sendall(wire.pack("hello", self.hello))
            kind, self.auth, _ = self._first_frame()
            if kind != "auth":
                raise VehicleRefused("malformed", f"{kind} before auth")
            welcome = wire.server_welcome(token, self.hello, self.auth)
        except wire.BadFrame as exc:
            raise VehicleRefused(exc.reason, str(exc)) from None
        except wire.BadToken as exc:
            raise VehicleRefused(exc.reason, peer_reason="wrong token") from None
        except OSError as exc:
            raise VehicleRefused("no handshake", str(exc) or type(exc).__name__) from None
        if self.auth["vehicle"] != vehicle:
            found = self.auth["vehicle"][:80]
            raise VehicleRefused(
                "another vehicle", found, f"this planner drives {vehicle}, and you are set up as {found}"
            )
        return welcome

    def refuse(self, reason: str) -> None:
        """Send the reason to a refused client; delivery is not guaranteed."""
        with suppress(OSError):
            self._sock.sendall(wire.pack("done", {"session": "", "reason": reason}))

    def _first_frame(self) -> wire.Frame:
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise VehicleRefused("no handshake", f"nothing within {HANDSHAKE_S:g} s")
            self._sock.settimeout(left)
            data = self._sock.recv(4096)
            if not data:
                raise VehicleRefused("no handshake", "it went away")
            if frames := self._reader.feed(data):
                if len(frames) > 1:
                    raise VehicleRefused("malformed", "frames before the welcome")
                return frames[0]


class VehicleSession:
    """An authenticated vehicle. `send` may be called from any thread, `frames` from one; heartbeats have their own."""

    def __init__(self, sock: socket.socket, welcome: wire.Header, silence_s: float = SILENCE_S) -> None:
        self.id: str = welcome["session"]
        self.silence_s = silence_s
        self._sock = sock
        self._sending = threading.Lock()
        self._ended = threading.Event()
        sock.settimeout(silence_s)
        sock.sendall(wire.pack("welcome", welcome))
        threading.Thread(target=self._beat, name="ad2-heartbeat", daemon=True).start()

    def send(self, kind: str, **header: Any) -> None:
        """Send a frame. SessionLost if it cannot be sent within `silence_s`."""
        data = wire.pack(kind, {"session": self.id, **header})
        try:
            with self._sending:
                self._sock.sendall(data)
        except OSError as exc:
            self.close()
            raise SessionLost(f"cannot send: {exc or type(exc).__name__}") from None

    def frames(self) -> Iterator[wire.Frame]:
        """Yield received frames. Ends with SessionLost or wire.BadFrame."""
        reader, retried = wire.FrameReader(), False
        while True:
            started = time.monotonic()
            try:
                data = self._sock.recv(65536)
            except TimeoutError:
                if not retried and time.monotonic() - started > self.silence_s + LATE_S:
                    retried = True  # only once: on a machine that is always late, no session would ever be closed
                    continue
                raise SessionLost(f"silent for {self.silence_s:g} s") from None
            except OSError as exc:
                raise SessionLost(f"closed: {exc}") from None
            if not data:
                raise SessionLost("closed by the vehicle")
            retried = False
            yield from reader.feed(data)

    def finish(self) -> None:
        """Send no more; the vehicle closes after it has received everything. `close` could discard sent data."""
        self._ended.set()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._ended.set()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes the thread in recv
        self._sock.close()

    def _beat(self) -> None:
        n = 0
        while not self._ended.wait(HEARTBEAT_S):
            try:
                self.send("heartbeat", n=n)
            except SessionLost:
                return
            n += 1
