"""The vehicle's end of the link for tests of the planner; it can also violate the protocol."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image

from closedloop_plugin.robots.onboard import wire

TOKEN = bytes(range(32))


def jpeg(width: int = 64, height: int = 48) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), 90, np.uint8)).save(buffer, "JPEG")
    return buffer.getvalue()


class VehicleEnd:
    """One connection. `receive` returns the next frame other than a heartbeat; None: the planner has closed."""

    def __init__(self, port: int, token: bytes = TOKEN, vehicle: str = "limo-ackermann") -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.token, self.vehicle = token, vehicle
        self.reader = wire.FrameReader()
        self.frames: list[wire.Frame] = []
        self.heartbeats = 0
        self.session = ""
        self._ended = threading.Event()
        self._sending = threading.Lock()

    def handshake(self) -> wire.Header | None:
        """Handshake; returns the refusal of the planner, or None if the session is open."""
        kind, hello, _ = self.next()
        assert kind == "hello"
        auth = wire.client_auth(self.token, hello, self.vehicle)
        self.raw(wire.pack("auth", auth))
        answer = self.receive()
        if answer is None or answer[0] == "done":
            return answer[1] if answer else {}
        assert answer[0] == "welcome"
        self.session = wire.client_check(self.token, hello, auth, answer[1])
        return None

    def start_heartbeats(self) -> VehicleEnd:
        """Start sending heartbeats, as the client does."""
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def _beat(self) -> None:
        n = 0
        while not self._ended.wait(0.05):
            try:
                self.send("heartbeat", n=n)
            except OSError:
                return
            n += 1

    def raw(self, data: bytes) -> None:
        with self._sending:
            self.sock.sendall(data)

    def send(self, kind: str, blob: bytes = b"", **header: Any) -> None:
        self.raw(wire.pack(kind, {"session": self.session, **header}, blob))

    def send_observation(self, seq: int, stamp: float = 0.0, picture: bytes | None = None, **more: Any) -> None:
        header = {"seq": seq, "stamp": stamp, "odom": None, "status": None, "motion": None, **more}
        self.send("obs", jpeg() if picture is None else picture, **header)

    def next(self) -> wire.Frame:
        while not self.frames:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError
            self.frames += self.reader.feed(data)
        return self.frames.pop(0)

    def receive(self) -> wire.Frame | None:
        try:
            while (frame := self.next())[0] == "heartbeat":
                self.heartbeats += 1
                assert self.heartbeats < 1000, "nothing but heartbeats for 20 s"
            return frame
        except (EOFError, ConnectionError):
            return None

    def close(self) -> None:
        self._ended.set()
        self.sock.close()


@contextmanager
def connected(port: int, **how: Any) -> Iterator[VehicleEnd]:
    """A connected vehicle with heartbeats. Like the real client, retries while the previous vehicle is connected."""
    for _ in range(200):
        end = VehicleEnd(port, **how)
        refused = end.handshake()
        if refused is None or refused.get("reason") != "another vehicle is connected":
            break
        end.close()
        time.sleep(0.02)
    try:
        assert refused is None, refused
        yield end.start_heartbeats()
    finally:
        end.close()
