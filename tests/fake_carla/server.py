"""Server of the fake client: a TCP server that keeps the state that outlives a client on a real CARLA server.

One JSON object per line, request and answer. Physics runs in the client; the server has the version, the town, the
synchronous flag, the actors and the number of ticks. It can be set to die, hang, answer garbage, start slowly or send
no pictures. In a thread: `Server()`. As a process: `python -m fake_carla.server --port 0`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import socketserver
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

VERSION = "0.9.16"
FIRST_TOWN = "Town10HD_Opt"  # as on a real server
NEVER = -1


@dataclass
class Mode:
    """Injected failures. Ticks count from the server's start; -1: never. A control file has the same names as JSON."""

    die_after: int = NEVER  # the process ends during the tick after this many
    hang_after: int = NEVER  # no answers from then on
    garbage_after: int = NEVER  # answers that violate the protocol; 0: from the first request
    blind_after: int = NEVER  # cameras deliver nothing from then on
    slow_s: float = 0.0  # listens at once, but answers only after this time
    version: str = VERSION


@dataclass
class State:
    """State that outlives a client."""

    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    town: str = FIRST_TOWN
    opendrive: str = ""  # of a world that was generated from text
    episode: int = 1
    synchronous: bool = False
    fixed_delta_seconds: float = 0.0
    recording: str = ""
    ticks: int = 0
    next_id: int = 1000  # lower ids are lights and signs of the map
    actors: dict[str, dict[str, Any]] = field(default_factory=dict)  # id -> type_id and pose
    calls: dict[str, int] = field(default_factory=dict)


class Server(socketserver.ThreadingTCPServer):
    """In a thread of this process: `with Server() as server: Client("127.0.0.1", server.port)`."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int = 0, mode: Mode | None = None, control: Path | None = None, alone: bool = False):
        super().__init__(("127.0.0.1", port), _Connection)
        self.port: int = self.server_address[1]
        self.mode, self.state = mode or Mode(), State()
        self._control, self._alone, self._lock = control, alone, threading.Lock()
        self._killed, self._connections = threading.Event(), set[socket.socket]()
        self._ready, self._ready_at = threading.Event(), time.monotonic() + self.mode.slow_s

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Simulate the death of the process: close the listening socket and all connections."""
        self._killed.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in list(self._connections):
                with contextlib.suppress(OSError):  # closed meanwhile
                    connection.shutdown(socket.SHUT_RDWR)

    def wake(self) -> None:
        """End the slow start."""
        self._ready.set()

    def answer(self, line: bytes) -> bytes | None:
        """The answer to one request; None: close the connection."""
        self._ready.wait(max(0.0, self._ready_at - time.monotonic()))
        with self._lock:
            self._reload_mode()
            mode, ticks = self.mode, self.state.ticks
            if 0 <= mode.garbage_after <= ticks:
                return b"HTTP/1.1 400 Bad Request\r\n\r\n"
            hangs = 0 <= mode.hang_after <= ticks
        if hangs:
            self._killed.wait()
            return None
        request = json.loads(line)
        call = request.pop("call")
        with self._lock:
            self.state.calls[call] = self.state.calls.get(call, 0) + 1
            if call == "tick" and 0 <= mode.die_after <= ticks:
                if self._alone:
                    os._exit(3)
                return None
            return json.dumps(_CALLS[call](self, **request)).encode() + b"\n"

    def _reload_mode(self) -> None:
        if self._control and self._control.is_file():
            self.mode = Mode(**json.loads(self._control.read_text()))

    # -- the calls -------------------------------------------------------------------------------------------------
    def _hello(self) -> dict[str, Any]:
        s = self.state
        known = {name: getattr(s, name) for name in ("token", "town", "opendrive", "episode", "actors", "ticks")}
        return known | {"version": self.mode.version, "synchronous": s.synchronous, "delta": s.fixed_delta_seconds}

    def _ask(self) -> dict[str, Any]:
        """Any other request: an empty answer."""
        return {}

    def _load(self, town: str, opendrive: str = "", reset: bool = True) -> dict[str, Any]:
        s = self.state
        s.town, s.opendrive, s.actors, s.episode = town, opendrive, {}, s.episode + 1
        if reset:
            s.synchronous, s.fixed_delta_seconds = False, 0.0
        return self._hello()

    def _settings(self, synchronous: bool, delta: float) -> dict[str, Any]:
        self.state.synchronous, self.state.fixed_delta_seconds = synchronous, delta
        return {"frame": self.state.ticks}

    def _spawn(self, type_id: str, pose: list[float]) -> dict[str, Any]:
        number = self.state.next_id
        self.state.next_id += 1
        self.state.actors[str(number)] = {"type_id": type_id, "pose": pose}
        return {"id": number}

    def _destroy(self, id: int) -> dict[str, Any]:
        return {"ok": self.state.actors.pop(str(id), None) is not None}

    def _tick(self) -> dict[str, Any]:
        self.state.ticks += 1
        return {"frame": self.state.ticks, "blind": 0 <= self.mode.blind_after < self.state.ticks}

    def _record(self, file: str) -> dict[str, Any]:
        self.state.recording = file
        return {}

    def _state(self) -> dict[str, Any]:
        return {f.name: getattr(self.state, f.name) for f in fields(State)}


_CALLS: dict[str, Callable[..., dict[str, Any]]] = {
    "hello": Server._hello, "ask": Server._ask, "load": Server._load, "settings": Server._settings,
    "spawn": Server._spawn, "destroy": Server._destroy, "tick": Server._tick, "record": Server._record,
    "state": Server._state,
}  # fmt: skip


class _Connection(socketserver.StreamRequestHandler):
    server: Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.server._connections.add(self.connection)
        try:
            for line in self.rfile:
                answer = self.server.answer(line)
                if answer is None:
                    break
                self.wfile.write(answer)
        except OSError:
            pass  # the peer or this server was killed
        finally:
            self.server._connections.discard(self.connection)


def state_of(port: int) -> dict[str, Any]:
    """Present state of the server at this port."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b'{"call": "state"}\n')
        with connection.makefile("rb") as answer:
            return dict(json.loads(answer.readline()))


def main(words: list[str] | None = None) -> None:
    """Listen until killed; the first line of stdout is `listening PORT`. -carla-rpc-port=N as for CarlaUE4.sh."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", "-carla-rpc-port", type=int, default=0)
    parser.add_argument("--control", type=Path)
    for option in fields(Mode):
        kind = type(option.default)
        parser.add_argument(f"--{option.name.replace('_', '-')}", type=kind, default=option.default)
    args, _ = parser.parse_known_args(words)
    mode = Mode(**{option.name: getattr(args, option.name) for option in fields(Mode)})
    server = Server(args.port, mode, args.control, alone=True)
    print(f"listening {server.port}", flush=True)
    server.serve_forever(0.1)


if __name__ == "__main__":
    main()
