"""How other processes of this user reach a running planner: a socket in a folder that is the user's alone.

One line of JSON in, one out: {"do": "state" | "stop" | "release", "reason"}. Every answer is the planner's state.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as File
from typing import Any

from closedloop_plugin.robots.planner.server import PlannerServer
from lmms_eval_ad2.errors import Ad2Error

LINE_MAX = 65536
ANSWER_S = 2.0


class NoPlanner(Ad2Error):
    """Nobody answers there."""


def place(home: File, robot: str) -> File:
    """Where the planner of a robot listens."""
    return home / f"{robot}.sock"


def ask(file: File, do: str, reason: str = "") -> dict[str, Any]:
    """The state after `do`; NoPlanner where no planner of this robot runs."""
    try:
        with _reached(file) as near, socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(ANSWER_S)
            sock.connect(near)
            sock.sendall(json.dumps({"do": do, "reason": reason}).encode() + b"\n")
            with sock.makefile("rb") as answer:
                line = answer.readline(LINE_MAX)
        found = json.loads(line)
    except (OSError, ValueError) as exc:
        raise NoPlanner(
            f"no planner answers at {file} ({exc or type(exc).__name__}): ad2 robot plan starts one"
        ) from None
    if not isinstance(found, dict) or "error" in found:
        raise Ad2Error(f"{file}: {found}")
    return found


@contextmanager
def answering(planner: PlannerServer, file: File) -> Iterator[None]:
    """Until the block ends. Ad2Error: a planner of this robot is running already."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _listens(file):
        raise Ad2Error(f"a planner of {file.stem} is running already ({file}): end that one first")
    file.unlink(missing_ok=True)  # one that was killed left it
    try:
        with _reached(file) as near:
            server = _Server(near, _Handler)
    except OSError as exc:
        raise Ad2Error(f"cannot be reached at {file}: {exc.strerror or exc}") from None
    server.planner = planner
    file.chmod(0o600)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        file.unlink(missing_ok=True)


def _listens(file: File) -> bool:
    """Whether somebody holds it, however busy."""
    with _reached(file) as near, socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(near)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True


@contextmanager
def _reached(file: File) -> Iterator[str]:
    """A name of the file that fits into a socket's address (108 bytes), however deep it lies."""
    folder = os.open(file.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{file.name}"
    finally:
        os.close(folder)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    planner: PlannerServer


class _Handler(socketserver.StreamRequestHandler):
    timeout = ANSWER_S
    server: _Server

    def handle(self) -> None:
        try:
            asked = json.loads(self.rfile.readline(LINE_MAX))
            self.wfile.write(json.dumps(self._do(asked)).encode() + b"\n")
        except (OSError, ValueError, RecursionError):
            pass  # who asks so gets no answer

    def _do(self, asked: Any) -> dict[str, Any]:
        planner, do = self.server.planner, asked.get("do") if isinstance(asked, dict) else None
        if do == "stop":
            planner.stop(str(asked.get("reason") or "asked for"))
        elif do == "release":
            planner.release()
        elif do != "state":
            return {"error": f"no such request: {do}"}
        return planner.state()
