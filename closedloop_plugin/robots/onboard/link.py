"""The vehicle's end of the connection to the planner: handshake and frames over one non-blocking socket."""

import contextlib
import os
import select
import socket
import time
from typing import Any, List, Tuple

from closedloop_plugin.robots.onboard import wire

CONNECT_S = 2.0
HANDSHAKE_S = 3.0  # for the whole handshake; a tunnel accepts connections even if the planner behind it is dead
_CHUNK = 65536
_UNSENT_MAX = 2 * wire.BLOB_MAX  # bytes, in case the planner does not read


class LinkLost(Exception):
    """The connection is lost. `reason`: a short category for counting."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class WakePipe:
    """Ends a wait from another thread or a signal handler."""

    def __init__(self) -> None:
        self.read, self._write = os.pipe()
        for end in (self.read, self._write):
            os.set_blocking(end, False)

    def __call__(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full: it was called already
            os.write(self._write, b".")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.read, _CHUNK)

    def wait(self, seconds: float) -> None:
        """Wait until called, at most `seconds`."""
        if select.select([self.read], [], [], seconds)[0]:
            self.clear()


class PlannerLink:
    """Sends and receives frames. `heard_at`: time of the last received byte, s on the monotonic clock."""

    def __init__(self, sock: socket.socket, wake: WakePipe) -> None:
        self._sock, self._wake = sock, wake
        self._reader = wire.FrameReader(blob_max=0)  # a planner sends no blobs
        self._early: List[wire.Frame] = []
        self._out = bytearray()
        self.heard_at = time.monotonic()
        sock.setblocking(False)

    @property
    def busy(self) -> bool:
        """Whether sent data is still buffered."""
        return bool(self._out)

    def unread(self, frames: List[wire.Frame]) -> None:
        """Return these frames from the next wait."""
        self._early = frames

    def send(self, kind: str, blob: bytes = b"", **header: Any) -> None:
        self._out += wire.pack(kind, header, blob)
        if len(self._out) > _UNSENT_MAX:
            raise LinkLost("link stuck", f"{len(self._out)} bytes have not left")
        self._flush()

    def wait(self, seconds: float) -> List[wire.Frame]:
        """Wait for frames; returns early if data arrives or `wake` is called. Raises LinkLost, BadFrame."""
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
        """Close, after sending buffered data for at most `patience_s`."""
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
    """Connect and authenticate; returns the link and the session id. Raises LinkLost, BadFrame, BadToken."""
    try:
        sock = socket.create_connection((host, port), CONNECT_S)
    except OSError as exc:
        raise LinkLost("no connection", f"{host} port {port}: {exc}") from None
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link, end = PlannerLink(sock, wake), time.monotonic() + HANDSHAKE_S
        hello = _expect(link, "hello", end)
        auth = wire.client_auth(token, hello, vehicle)
        link.send("auth", **auth)
        return link, wire.client_check(token, hello, auth, _expect(link, "welcome", end))
    except BaseException:
        sock.close()
        raise


def _expect(link: PlannerLink, kind: str, end: float) -> wire.Header:
    """The next frame, which must be of this kind."""
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
    raise LinkLost("no handshake", f"nothing within {HANDSHAKE_S:g} s")
