"""Connection of the fake client: request, answer, and the failures of CARLA's client."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from typing import Any

DEFAULT_S = 5.0  # as in carla.Client


class Wire:
    """One connection, made at the first call. A silent server causes a RuntimeError after the time-out; an answer that
    is not JSON aborts this process, as the real client's unpacking does. Calls of several threads follow each other:
    an answer belongs to the thread that asked."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port, self.timeout_s = host, port, DEFAULT_S
        self._socket: socket.socket | None = None
        self._lost = False
        self._lock = threading.Lock()

    def rpc(self, call: str, seconds: float = 0.0, **arguments: Any) -> dict[str, Any]:
        """The server's answer. `seconds`: replaces the client's time-out."""
        with self._lock:
            return self._answered(seconds or self.timeout_s, json.dumps({"call": call, **arguments}).encode() + b"\n")

    def _answered(self, allowed: float, request: bytes) -> dict[str, Any]:
        deadline = time.monotonic() + allowed
        if self._lost:
            raise RuntimeError("the connection to the simulator is closed")
        try:
            connection = self._connected(deadline)
            connection.sendall(request)
            line = self._line(connection, deadline)
        except TimeoutError:
            self._drop()
            raise RuntimeError(
                f"time-out of {round(allowed * 1000)}ms while waiting for the simulator, make sure the simulator is "
                f"ready and connected to {self.host}:{self.port}"
            ) from None
        except OSError as exc:
            self._lost = True
            self._drop()
            raise RuntimeError(f"the connection to the simulator is closed ({exc})") from None
        try:
            return dict(json.loads(line))
        except ValueError:
            sys.stderr.write("terminate called after throwing an instance of 'clmdep_msgpack::v1::type_error'\n")
            sys.stderr.flush()
            os.abort()

    def close(self) -> None:
        self._drop()

    def _connected(self, deadline: float) -> socket.socket:
        while self._socket is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            try:
                self._socket = socket.create_connection((self.host, self.port), timeout=left)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except ConnectionRefusedError:
                time.sleep(min(left, 0.02))
        return self._socket

    def _line(self, connection: socket.socket, deadline: float) -> bytes:
        received = b""
        while not received.endswith(b"\n"):
            connection.settimeout(max(deadline - time.monotonic(), 1e-3))
            part = connection.recv(65536)
            if not part:
                raise ConnectionResetError("by the simulator")
            received += part
        return received

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
