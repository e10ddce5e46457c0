"""Requests to a running planner, and the emergency stop: through the planner, or by ssh on the vehicle if that fails.

The planner listens at a Unix socket in a folder that only this user can access. One line of JSON per request,
{"do": "state" | "stop" | "release", "reason"}, and one per reply: the planner's state.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.robots.deploy import onboard_command
from closedloop_plugin.robots.transport import ssh
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.core.errors import Ad2Error

LINE_MAX = 65536
ANSWER_S = 2.0
STANDS_S = 0.5  # to wait for the vehicle's confirmation before ssh is tried
OFF = "SWITCH THE VEHICLE OFF"
_POLL_S = 0.02


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
def bound(file: Path) -> Iterator[socket.socket]:
    """The listening socket of a planner, until the block ends. Ad2Error: a planner of this robot is running already."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _short_name(file) as address:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(address)  # accepted even by a planner that is too busy to answer
                raise Ad2Error(f"a planner of {file.stem} is running already ({file}): stop it first")
            except (FileNotFoundError, ConnectionRefusedError):
                file.unlink(missing_ok=True)  # left behind by a planner that was killed
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.bind(address)
            sock.listen()
        except OSError as exc:
            sock.close()
            raise Ad2Error(f"cannot listen at {file}: {exc.strerror or exc}") from None
    with sock:
        file.chmod(0o600)
        try:
            yield sock
        finally:
            file.unlink(missing_ok=True)


@contextmanager
def _short_name(file: Path) -> Iterator[str]:
    """A name of the file that fits into a socket address (108 bytes), however long its path is."""
    folder = os.open(file.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{file.name}"
    finally:
        os.close(folder)


@dataclass(frozen=True)
class EmergencyStopOutcome:
    """`confirmed`: by the vehicle itself. `message`: what happened, for the user."""

    confirmed: bool
    message: str


def stop(robot: RobotConfig, file: Path, reason: str, directly: bool = False) -> EmergencyStopOutcome:
    """Stop until released. `directly`: by ssh only, not through the planner, which may be at fault."""
    notes = []
    if not directly:
        try:
            if stop_by_planner(file, reason):
                return EmergencyStopOutcome(True, "stopped: the vehicle stands, until it is released")
            notes.append("the planner holds the stop, and the vehicle did not confirm it")
        except Ad2Error as exc:
            notes.append(str(exc))
    if not robot.link.host:
        no_host = "the robot's file names no link.host to reach the vehicle itself"
        return EmergencyStopOutcome(False, "; ".join([*notes, no_host, OFF]))
    try:
        return EmergencyStopOutcome(True, "; ".join([*notes, _on_board(robot, "--stop")]))
    except Ad2Error as exc:
        return EmergencyStopOutcome(False, "; ".join([*notes, str(exc), OFF]))


def release(robot: RobotConfig, file: Path, directly: bool = False) -> EmergencyStopOutcome:
    """Release the planner's stop; `directly`: by ssh, also a stop set on the vehicle itself."""
    if directly:
        return EmergencyStopOutcome(True, _on_board(robot, "--release"))
    if send_request(file, "release")["connected"]:
        return EmergencyStopOutcome(True, "released")
    note = "released here, but the vehicle is not connected: it keeps its stop until it receives the release"
    return EmergencyStopOutcome(True, f"{note}. Release again once it is connected, or with --on-board")


def stop_by_planner(file: Path, reason: str) -> bool:
    """Stop through the planner; True if the vehicle confirms that it stands. NoPlanner: no planner was reached."""
    state = send_request(file, "stop", reason)
    deadline = time.monotonic() + STANDS_S
    while state["connected"] and not state["stands"] and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        state = send_request(file, "state")
    return bool(state["stands"])


def _on_board(robot: RobotConfig, action: str) -> str:
    output = ssh.run(robot.link, onboard_command(robot, "relay", action, "settings.json"), limit_s=15.0)
    return f"on board: {' '.join(output.split())}"
