"""The on-board client as on a vehicle: a process of the oldest installed Python, with a planner played by the test and
recorder.py in place of the wheels."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.running import REPO, TESTS

from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES

HERE = Path(__file__).resolve().parent
TOKEN, OTHER_TOKEN = bytes(range(32)), bytes(32)
PATIENCE_S = 60.0


@functools.cache
def oldest_python() -> str:
    """The oldest Python from 3.6 on that runs here; a Jetson has 3.6, the others 3.8."""
    found = {}
    for candidate in [*Path.home().glob(".pyenv/versions/*/bin/python"), Path(sys.executable)]:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run([candidate, "--version"], capture_output=True, text=True, timeout=120, check=True)
            if version := re.fullmatch(r"Python (\d+)\.(\d+)\.(\d+)", done.stdout.strip()):
                found[tuple(map(int, version.groups()))] = str(candidate)
    return found[min(v for v in found if v >= (3, 6))]


def settings(folder: Path, port: int, vehicle: str = "limo-differential", **more: Any) -> Path:
    """The file that `ad2 robot deploy` would have written, with its token, in `folder`."""
    token = folder / "token"
    token.write_text(TOKEN.hex(), "utf-8")
    token.chmod(0o600)
    car = {**VEHICLES[vehicle].to_onboard(), "mode": None, **more.pop("car", {})}
    content = {
        "planner": {"port": port, "token_file": "token"},
        "vehicle": car,
        "backend": "support.robots.recorder:Recorder",
        "relay": False,
        "reconnect_s": 0.05,
        "camera_stall_s": 5.0,  # high for busy machines; the tests of both limits set lower ones
        "link_silence_s": 5.0,
        **more,
    }
    file = folder / "settings.json"
    file.write_text(json.dumps(content), "utf-8")
    return file


def until(condition: Callable[[], Any], what: str = "") -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, what or "the condition was not met in time"
        time.sleep(0.005)
    return found


def write_atomically(file: Path, text: str) -> None:
    """Write atomically: a concurrent reader finds the old or the new text."""
    new = file.with_suffix(".new")
    new.write_text(text, "utf-8")
    new.replace(file)


class Process:
    """A module of the on-board folder in a process. `log`: its log entries."""

    def __init__(self, module: str, *words: Any, python: str = "", env: dict[str, str] | None = None) -> None:
        command = [python or oldest_python(), "-m", f"closedloop_plugin.robots.onboard.{module}", *map(str, words)]
        clean = {k: v for k, v in (env or os.environ).items() if not k.startswith(("PYTHON", "COV_"))}
        path = os.pathsep.join(filter(None, [str(REPO), str(TESTS), (env or {}).get("PYTHONPATH", "")]))
        self.process = subprocess.Popen(
            command, env={**clean, "PYTHONPATH": path}, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd="/"
        )
        self.log: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Read until all writers have ended: a relay outlives its client by two seconds."""
        assert self.process.stderr
        with self.process.stderr as lines:
            for line in lines:
                try:
                    self.log.append(json.loads(line))
                except ValueError:
                    self.log.append({"event": "text", "text": line.decode()})

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait for the first entry of this kind; `fields`: regular expressions for its values."""

        def fits(line: dict[str, Any]) -> bool:
            return line["event"] == event and all(re.search(str(v), str(line.get(k))) for k, v in fields.items())

        return until(lambda: next(filter(fits, list(self.log)), None), f"no {event} {fields} in {self.log}")

    def end(self, signum: int = signal.SIGTERM) -> int:
        """Send a signal (0: none) and wait; returns the exit code."""
        if signum and self.process.poll() is None:
            self.process.send_signal(signum)
        code = self.process.wait(PATIENCE_S)
        if signum != signal.SIGKILL:
            self._reader.join(PATIENCE_S)
        return code


@contextlib.contextmanager
def client(file: Path, **more: Any) -> Iterator[Process]:
    running = Process("client", file, **more)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGCONT)
        running.end()


def published(folder: Path) -> list[dict[str, Any]]:
    """Actuations sent to the wheels, without an incomplete last line."""
    file = folder / "published.jsonl"
    lines = file.read_text("utf-8").split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def moves(entry: dict[str, Any]) -> bool:
    actuation = entry["actuation"]
    return any(actuation["twist"].values()) if "twist" in actuation else actuation["word"] != "stop"


class Peer:
    """The planner's end of one connection, played by the test."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.session = sock, ""
        self.frames: queue.Queue[wire.Frame | None] = queue.Queue()
        self.hello = wire.server_hello()
        self.auth: wire.Header = {}
        self.welcome: wire.Header = {}
        self._quiet, self._sending = threading.Event(), threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def handshake(self, token: bytes = TOKEN, heartbeats: bool = True, check: bool = True) -> Peer:
        """Handshake. `check` False: a planner without the vehicle's token that continues all the same."""
        self.send("hello", **self.hello)
        _, self.auth, _ = self.next("auth")
        auth = self.auth if check else wire.client_auth(token, self.hello, "any")
        self.welcome = wire.server_welcome(token, self.hello, auth)
        self.session = self.welcome["session"]
        self.send("welcome", **self.welcome)
        if heartbeats:
            threading.Thread(target=self._heartbeat, daemon=True).start()
        return self

    def send(self, kind: str, **header: Any) -> None:
        self.bytes(wire.pack(kind, header))

    def raw(self, kind: str, **header: Any) -> None:
        """Send without the checks of wire.pack."""
        text = json.dumps({**header, "kind": kind}).encode()
        self.bytes(struct.pack(">4sBII", wire.MAGIC, wire.VERSION, len(text), 0) + text)

    def bytes(self, data: Any) -> None:
        with self._sending:
            self.sock.sendall(data)

    def send_in_session(self, kind: str, **header: Any) -> None:
        self.send(kind, **{"session": self.session, **header})

    def drive(self, obs: int, vx: float = 0.3, duration_s: float = 0.5, **more: Any) -> None:
        twist = {"vx": vx, "vy": 0.0, "wz": 0.0}
        self.send_in_session("cmd", obs=obs, **{**CONTROLS, "duration_s": duration_s, "twist": twist, **more})

    def next(self, kind: str) -> wire.Frame:
        """The next frame of this kind; other frames before it are skipped."""
        end, passed = time.monotonic() + PATIENCE_S, list[wire.Header]()
        while time.monotonic() < end:
            frame = self.frames.get(timeout=PATIENCE_S)
            assert frame is not None, f"the vehicle hung up before its {kind}"
            if frame[0] == kind:
                return frame
            passed.append(frame[1])
        raise AssertionError(f"no {kind}, but {len(passed)} others, the last: {passed[-3:]}")

    def wait_until_closed(self) -> None:
        """Wait until the vehicle has closed the connection."""
        while self.frames.get(timeout=PATIENCE_S) is not None:
            pass

    def close(self) -> None:
        self._quiet.set()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def stop_heartbeats(self) -> None:
        """Send no more heartbeats."""
        self._quiet.set()

    def _read(self) -> None:
        reader = wire.FrameReader()
        with contextlib.suppress(OSError):
            while data := self.sock.recv(65536):
                for frame in reader.feed(data):
                    self.frames.put(frame)
        self.frames.put(None)

    def _heartbeat(self) -> None:
        n = 0
        with contextlib.suppress(OSError):
            while not self._quiet.wait(0.02):
                self.send_in_session("heartbeat", n=n)
                n += 1


CONTROLS = {"steer": 0.0, "throttle": 0.5, "brake": 0.0}


class Listener:
    """The server socket of the planner, to which the vehicle connects."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(PATIENCE_S)
        self.peers: list[Peer] = []

    @property
    def port(self) -> int:
        return int(self.server.getsockname()[1])

    def accept(self) -> Peer:
        sock, _ = self.server.accept()
        self.peers.append(Peer(sock))
        return self.peers[-1]


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    listener = Listener()
    try:
        yield listener
    finally:
        for peer in listener.peers:
            peer.close()
        listener.server.close()
