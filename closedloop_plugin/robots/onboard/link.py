"""The vehicle's end of the connection to the planner: one socket that never blocks its owner."""

import contextlib
import os
import select
import socket
import time
from typing import Any, List, Tuple

from closedloop_plugin.robots.onboard import wire

CONNECT_S = 2.0
GREETING_S = 3.0  # for the whole handshake; a dead peer behind a tunnel lets itself be connected to, and says nothing
_CHUNK = 65536
_UNSENT_MAX = 2 * wire.BLOB_MAX  # bytes: a planner that asks and never reads


class LinkLost(Exception):
    """`reason`: a few words, to count by."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class WakePipe:
    """Ends a wait from another thread, or from a signal's handler."""

    def __init__(self) -> None:
        self.read, self._write = os.pipe()
        for end in (self.read, self._write):
            os.set_blocking(end, False)

    def __call__(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it has been called often enough
            os.write(self._write, b".")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.read, _CHUNK)

    def wait(self, seconds: float) -> None:
        """Until called, or for so long."""
        if select.select([self.read], [], [], seconds)[0]:
            self.clear()


class PlannerLink:
    """`heard_at`: when the last byte came, on the monotonic clock."""

    def __init__(self, sock: socket.socket, wake: WakePipe) -> None:
        self._sock, self._wake = sock, wake
        self._reader = wire.FrameReader(blob_max=0)  # a planner has no pictures for us
        self._early: List[wire.Frame] = []
        self._out = bytearray()
        self.heard_at = time.monotonic()
        sock.setblocking(False)

    @property
    def busy(self) -> bool:
        """What was sent has not left yet."""
        return bool(self._out)

    def unread(self, frames: List[wire.Frame]) -> None:
        """For the next wait."""
        self._early = frames

    def send(self, kind: str, blob: bytes = b"", **header: Any) -> None:
        self._out += wire.pack(kind, header, blob)
        if len(self._out) > _UNSENT_MAX:
            raise LinkLost("link stuck", f"{len(self._out)} bytes have not left")
        self._flush()

    def wait(self, seconds: float) -> List[wire.Frame]:
        """What has come by then; earlier where something comes, or the wake is called. LinkLost, BadFrame."""
        if self._early:
            early, self._early = self._early, []
            return early
        waiting = [self._sock.fileno(), self._wake.read]
        readable, writable, _ = select.select(waiting, waiting[:1] if self._out else [], [], max(0.0, seconds))
        if self._wake.read in readable:
            self._wake.clear()
        if writable:
            self._flush()
        if waiting[0] not in readable:
            return []
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError as exc:
            raise LinkLost("link lost", str(exc)) from None
        if not data:
            raise LinkLost("link lost", "the planner, or the tunnel, hung up")
        self.heard_at = time.monotonic()
        return self._reader.feed(data)

    def close(self, patience_s: float = 0.0) -> None:
        """Let the last words leave, for so long."""
        end = time.monotonic() + patience_s
        with contextlib.suppress(LinkLost):
            while self._out and time.monotonic() < end:
                select.select([], [self._sock], [], end - time.monotonic())
                self._flush()
        self._sock.close()

    def _flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as exc:
            raise LinkLost("link lost", str(exc)) from None


def open_link(host: str, port: int, token: bytes, vehicle: str, wake: WakePipe) -> Tuple[PlannerLink, str]:
    """A connection to our own planner, and its session. LinkLost, BadFrame, BadToken: there is none."""
    try:
        sock = socket.create_connection((host, port), CONNECT_S)
    except OSError as exc:
        raise LinkLost("no connection", f"{host} port {port}: {exc}") from None
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link, end = PlannerLink(sock, wake), time.monotonic() + GREETING_S
        hello = _expect(link, "hello", end)
        auth = wire.client_auth(token, hello, vehicle)
        link.send("auth", **auth)
        return link, wire.client_check(token, hello, auth, _expect(link, "welcome", end))
    except BaseException:
        sock.close()
        raise


def _expect(link: PlannerLink, kind: str, end: float) -> wire.Header:
    """The one frame that must come next."""
    while time.monotonic() < end:
        frames = link.wait(end - time.monotonic())
        if not frames:
            continue
        found, header, _ = frames[0]
        if found == "done":
            wire.check(found, header)
            raise LinkLost("planner refuses", header["reason"][:200])
        if found != kind:
            raise wire.BadFrame("malformed", f"{found} instead of {kind}")
        link.unread(frames[1:])
        return header
    raise LinkLost("no handshake", f"nothing within {GREETING_S:g} s")
