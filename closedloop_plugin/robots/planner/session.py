"""The planner's end of one connection: handshake, frames, heartbeat, and when it counts as lost."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from closedloop_plugin.robots.onboard import wire

GREETING_S = 5.0  # for the whole handshake
# Nothing heard for so long and the vehicle is given up; its own heartbeat comes every 20 ms. It may connect anew then.
SILENCE_S = 1.0
# Both ways. The vehicle stops by itself soon after it hears nothing.
HEARTBEAT_S = 0.02
LATE_S = 0.05  # a wait that ends so much too late is no silence of the vehicle, but this machine's: it waits anew


class VehicleRefused(Exception):
    """`reason`: a few words, to count by; `told`: what the other side may know of it ("" for nothing)."""

    def __init__(self, reason: str, detail: str = "", told: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.told = reason, told


class SessionLost(Exception):
    """The connection is gone, or nothing comes through it."""


class PlannerHandshake:
    """A connection before its welcome. A planner may still refuse who has proved to know the token."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._until = time.monotonic() + GREETING_S
        self._reader = wire.FrameReader(wire.HANDSHAKE_MAX, 0)
        self.hello = wire.server_hello()
        self.auth: wire.Header = {}
        sock.settimeout(GREETING_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def welcome(self, token: bytes, vehicle: str) -> wire.Header:
        """Hello, and what came back: the welcome that would open a session. Refused says why there is none."""
        try:
            self._sock.sendall(wire.pack("hello", self.hello))
            kind, self.auth, _ = self._first()
            if kind != "auth":
                raise VehicleRefused("malformed", f"{kind} before auth")
            welcome = wire.server_welcome(token, self.hello, self.auth)
        except wire.BadFrame as exc:
            raise VehicleRefused(exc.reason, str(exc)) from None
        except wire.BadToken as exc:
            raise VehicleRefused(exc.reason, told="wrong token") from None
        except OSError as exc:
            raise VehicleRefused("no handshake", str(exc) or type(exc).__name__) from None
        if self.auth["vehicle"] != vehicle:
            found = self.auth["vehicle"][:80]
            raise VehicleRefused(
                "another vehicle", found, f"this planner drives {vehicle}, and you are set up as {found}"
            )
        return welcome

    def refuse(self, told: str) -> None:
        """A word to somebody who is not let in; whether it arrives does not matter."""
        with suppress(OSError):
            self._sock.sendall(wire.pack("done", {"session": "", "reason": told}))

    def _first(self) -> wire.Frame:
        while True:
            left = self._until - time.monotonic()
            if left <= 0:
                raise VehicleRefused("no handshake", f"nothing within {GREETING_S:g} s")
            self._sock.settimeout(left)
            data = self._sock.recv(4096)
            if not data:
                raise VehicleRefused("no handshake", "it went away")
            if frames := self._reader.feed(data):
                if len(frames) > 1:
                    raise VehicleRefused("malformed", "frames before the welcome")
                return frames[0]


class VehicleSession:
    """One vehicle, welcome. `send` from any thread; `frames` in one; the heartbeat has its own."""

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
        """Lost where it cannot be sent within the silence that is borne."""
        data = wire.pack(kind, {"session": self.id, **header})
        try:
            with self._sending:
                self._sock.sendall(data)
        except OSError as exc:
            self.close()
            raise SessionLost(f"cannot send: {exc or type(exc).__name__}") from None

    def frames(self) -> Iterator[wire.Frame]:
        """As they come, until the end; Lost, or wire.BadFrame, says which."""
        reader, anew = wire.FrameReader(), False
        while True:
            asked = time.monotonic()
            try:
                data = self._sock.recv(65536)
            except TimeoutError:
                if not anew and time.monotonic() - asked > self.silence_s + LATE_S:
                    anew = True  # once: a machine that is always late would never give anybody up
                    continue
                raise SessionLost(f"silent for {self.silence_s:g} s") from None
            except OSError as exc:
                raise SessionLost(f"closed: {exc}") from None
            if not data:
                raise SessionLost("closed by the vehicle")
            anew = False
            yield from reader.feed(data)

    def finish(self) -> None:
        """Say no more; the vehicle closes once it has heard everything. `close` could overtake the last words."""
        self._ended.set()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._ended.set()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes who waits in recv
        self._sock.close()

    def _beat(self) -> None:
        n = 0
        while not self._ended.wait(HEARTBEAT_S):
            try:
                self.send("heartbeat", n=n)
            except SessionLost:
                return
            n += 1
