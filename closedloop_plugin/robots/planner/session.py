"""The planner's end of a connection: handshake, heartbeat, detection of a lost vehicle. Runs in an event loop."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any

from closedloop_plugin.robots.onboard import wire

HANDSHAKE_S = 5.0  # for the whole handshake
HANDSHAKES_MAX = 32  # connections in their handshake at once
HANDSHAKES_PER_ADDRESS = 8
SILENCE_S = 1.0  # without data from the vehicle (which sends a heartbeat every 20 ms), the session is closed
HEARTBEAT_S = 0.02  # in both directions; without it the vehicle soon stops by itself
LATE_S = 0.05  # a heartbeat that is this much too late means that this machine was suspended, not the vehicle


class VehicleRefused(Exception):
    """`reason`: a short category for counting; `peer_reason`: the reason sent to the other side ("" for none)."""

    def __init__(self, reason: str, detail: str = "", peer_reason: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.peer_reason = reason, peer_reason


class ConnectionHandshakes:
    """The connections in their handshake, oldest first. A new one always finds room: a vehicle is authenticated within
    one round trip, so that the oldest connection of an address that fills its places is hardly the vehicle's."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Task[Any], str] = {}

    def add(self, new: asyncio.Task[Any], peer: str) -> None:
        """`peer`: the address. Cancels the oldest connection of an address that has too many."""
        by_address = Counter(self._open.values())
        if by_address[peer] >= HANDSHAKES_PER_ADDRESS:
            self._displace(peer)
        elif len(self._open) >= HANDSHAKES_MAX:
            self._displace(by_address.most_common(1)[0][0])
        self._open[new] = peer

    def remove(self, one: asyncio.Task[Any]) -> bool:
        """False if it was displaced or removed already."""
        return self._open.pop(one, None) is not None

    def _displace(self, peer: str) -> None:
        oldest = next(one for one, address in self._open.items() if address == peer)
        del self._open[oldest]
        oldest.cancel()


async def authenticate(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: bytes, vehicle: str
) -> wire.Header:
    """Authenticate a vehicle; returns the welcome that opens its session. VehicleRefused contains the reason."""
    hello, frames = wire.server_hello(), wire.FrameReader(wire.HANDSHAKE_MAX, 0)
    found: list[wire.Frame] = []
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            writer.write(wire.pack("hello", hello))
            while not found:
                data = await reader.read(4096)
                if not data:
                    raise VehicleRefused("no handshake", "it went away")
                found = frames.feed(data)
        if len(found) > 1:
            raise VehicleRefused("malformed", "frames before the welcome")
        kind, auth, _ = found[0]
        if kind != "auth":
            raise VehicleRefused("malformed", f"{kind} before auth")
        welcome = wire.server_welcome(token, hello, auth)
    except wire.BadFrame as exc:
        raise VehicleRefused(exc.reason, str(exc)) from None
    except wire.BadToken as exc:
        raise VehicleRefused(exc.reason, peer_reason="wrong token") from None
    except TimeoutError:
        raise VehicleRefused("no handshake", f"nothing within {HANDSHAKE_S:g} s") from None
    except OSError as exc:
        raise VehicleRefused("no handshake", str(exc) or type(exc).__name__) from None
    if auth["vehicle"] != vehicle:
        other = auth["vehicle"][:80]
        raise VehicleRefused("another vehicle", other, f"this planner drives {vehicle}, and you are set up as {other}")
    return welcome


class VehicleSession:
    """An authenticated vehicle. `send` and `finish` may be called from any thread, the others in the event loop.

    `lost`: why this end has closed the connection, or "".
    """

    def __init__(self, writer: asyncio.StreamWriter, welcome: wire.Header) -> None:
        self.id: str = welcome["session"]
        self.lost = ""
        self._loop, self._writer = asyncio.get_running_loop(), writer
        self._finished = False
        self.heard()
        writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until everything is sent
        writer.write(wire.pack("welcome", welcome))

    def send(self, kind: str, **header: Any) -> bool:
        """Send a frame, in the order of the calls; False if the connection is lost."""
        data = wire.pack(kind, {"session": self.id, **header})
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._write, data)
        return not self._writer.is_closing()

    def finish(self) -> None:
        """Send no more; the vehicle closes after it has received everything. `close` could discard sent data."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)

    def heard(self) -> None:
        """Data has arrived from the vehicle."""
        self._heard_at, self._excused = time.monotonic(), False

    def is_silent(self, due: float) -> bool:
        """Whether nothing has arrived for SILENCE_S. `due`: when this was to be called, s on the monotonic clock."""
        now = time.monotonic()
        if now - due > LATE_S and not self._excused:
            # Only once: on a machine that is always late, no session would ever be closed.
            self._heard_at, self._excused = now, True
        return now - self._heard_at > SILENCE_S

    async def keep_alive(self) -> None:
        """Send heartbeats; closes the connection if the vehicle is silent or receives nothing for SILENCE_S."""
        for n in count():
            due = time.monotonic() + HEARTBEAT_S
            await asyncio.sleep(HEARTBEAT_S)
            if self.is_silent(due):
                self._lose(f"silent for {SILENCE_S:g} s")
                return
            self._write(wire.pack("heartbeat", {"session": self.id, "n": n}))
            try:
                async with asyncio.timeout(SILENCE_S):
                    await self._writer.drain()
            except OSError as exc:  # TimeoutError is one
                self._lose(f"cannot send: {exc or type(exc).__name__}")
                return

    def close(self) -> None:
        self._writer.transport.abort()

    def _write(self, data: bytes) -> None:
        if not (self._finished or self._writer.is_closing()):
            self._writer.write(data)

    def _finish(self) -> None:
        self._finished = True
        with suppress(OSError, RuntimeError):
            self._writer.write_eof()

    def _lose(self, why: str) -> None:
        self.lost = self.lost or why
        self.close()
