"""The vehicle's end of the link to `ad2 robot plan`, as in docs/robots-link.md: frames and handshake.

Written independently of the package's code, so that a change of the protocol is detected.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import struct
import time
from typing import Any

Json = dict[str, Any]
Frame = tuple[str, Json]

PREFIX = struct.Struct(">4sBII")  # magic, version, bytes of the header, bytes of the blob
MAGIC, VERSION = b"AD2R", 1
NONCE = "5a" * 32
WAIT_S = 120.0


class VehicleEnd:
    """One connection. Answers each heartbeat of the planner with a heartbeat."""

    def __init__(self, port: int, token: bytes, vehicle: str) -> None:
        self.sock = _connected(port)
        self.session, self.beats = "", 0
        kind, hello = self._next()
        assert (kind, hello["version"]) == ("hello", VERSION)
        self._send("auth", nonce=NONCE, mac=mac(token, "client", hello["nonce"], NONCE, vehicle), vehicle=vehicle)
        kind, welcome = self._next()
        assert kind == "welcome", welcome
        assert welcome["mac"] == mac(token, "server", NONCE, hello["nonce"], welcome["session"])
        self.session = welcome["session"]

    def send_observation(self, seq: int, stamp: float, picture: bytes, odom: Json | None) -> Frame:
        """Send a picture; returns the planner's answer."""
        self._send("obs", picture, seq=seq, stamp=stamp, odom=odom, status=None, motion=None)
        return self.next()

    def next(self) -> Frame:
        """The next frame other than a heartbeat; ("closed", {}) if the planner has closed the connection."""
        while True:
            try:
                kind, header = self._next()
            except (EOFError, ConnectionError):
                return "closed", {}
            if kind != "heartbeat":
                return kind, header
            self._send("heartbeat", n=self.beats)
            self.beats += 1

    def close(self) -> None:
        self.sock.close()

    def _send(self, kind: str, blob: bytes = b"", **header: Any) -> None:
        session = {"session": self.session} if self.session else {}
        text = json.dumps({**session, **header, "kind": kind}).encode("ascii")
        self.sock.sendall(PREFIX.pack(MAGIC, VERSION, len(text), len(blob)) + text + blob)

    def _next(self) -> Frame:
        magic, version, header_size, blob_size = PREFIX.unpack(self._read(PREFIX.size))
        assert (magic, version) == (MAGIC, VERSION)
        header = json.loads(self._read(header_size))
        self._read(blob_size)
        return header.pop("kind"), header

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data


def _connected(port: int) -> socket.socket:
    """Connect; waits for a planner that is still loading."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def mac(token: bytes, side: str, first: str, second: str, last: str) -> str:
    message = side.encode() + bytes.fromhex(first) + bytes.fromhex(second) + last.encode()
    return hmac.new(token, message, hashlib.sha256).hexdigest()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
