"""The control socket of a running planner: a Unix socket in a folder that only this user can access.

One line of JSON per request, {"do": "state" | "stop" | "release", "reason"}, and one per reply: the planner's state.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from closedloop_plugin.robots.planner.server import PlannerServer
from lmms_eval_ad2.core.errors import Ad2Error

LINE_MAX = 65536
ANSWER_S = 2.0


class NoPlanner(Ad2Error):
    """No planner answers at the socket."""


def socket_path(home: Path, robot: str) -> Path:
    """The socket file of a robot's planner."""
    return home / f"{robot}.sock"


def send_request(file: Path, do: str, reason: str = "") -> dict[str, Any]:
    """Send a request; returns the planner's state after `do`. NoPlanner if no planner of this robot runs."""
    try:
        with _short_name(file) as address, socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(ANSWER_S)
            sock.connect(address)
            sock.sendall(json.dumps({"do": do, "reason": reason}).encode() + b"\n")
            with sock.makefile("rb") as reply:
                line = reply.readline(LINE_MAX)
        found = json.loads(line)
    except (OSError, ValueError) as exc:
        raise NoPlanner(
            f"no planner answers at {file} ({exc or type(exc).__name__}): ad2 robot plan starts one"
        ) from None
    if not isinstance(found, dict) or "error" in found:
        raise Ad2Error(f"{file}: {found}")
    return found


@contextmanager
def serving(planner: PlannerServer, file: Path) -> Iterator[None]:
    """Serve the socket until the block ends. Ad2Error: a planner of this robot is running already."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _listens(file):
        raise Ad2Error(f"a planner of {file.stem} is running already ({file}): stop it first")
    file.unlink(missing_ok=True)  # left behind by a planner that was killed
    try:
        with _short_name(file) as address:
            server = _Server(address, _Handler)
    except OSError as exc:
        raise Ad2Error(f"cannot listen at {file}: {exc.strerror or exc}") from None
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


def _listens(file: Path) -> bool:
    """Whether a process listens at the socket, even if it is too busy to answer."""
    with _short_name(file) as address, socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True


@contextmanager
def _short_name(file: Path) -> Iterator[str]:
    """A name of the file that fits into a socket address (108 bytes), however long its path is."""
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
            request = json.loads(self.rfile.readline(LINE_MAX))
            self.wfile.write(json.dumps(self._do(request)).encode() + b"\n")
        except (OSError, ValueError, RecursionError):
            pass  # an invalid request gets no reply

    def _do(self, request: Any) -> dict[str, Any]:
        planner, do = self.server.planner, request.get("do") if isinstance(request, dict) else None
        if do == "stop":
            planner.stop(str(request.get("reason") or "asked for"))
        elif do == "release":
            planner.release()
        elif do != "state":
            return {"error": f"no such request: {do}"}
        return planner.state()
