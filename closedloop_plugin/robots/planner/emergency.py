"""The emergency stop from the lab machine: through the planner, or by ssh on the vehicle if that fails."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from closedloop_plugin.robots.deploy import onboard_command
from closedloop_plugin.robots.planner import control_socket
from closedloop_plugin.robots.transport import ssh
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.core.errors import Ad2Error

STANDS_S = 0.5  # to wait for the vehicle's confirmation before ssh is tried
OFF = "SWITCH THE VEHICLE OFF"
_POLL_S = 0.02


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
        output = ssh.run(robot.link, onboard_command(robot, "relay", "--stop", "settings.json"), limit_s=15.0)
        return EmergencyStopOutcome(True, "; ".join([*notes, f"on board: {' '.join(output.split())}"]))
    except Ad2Error as exc:
        return EmergencyStopOutcome(False, "; ".join([*notes, str(exc), OFF]))


def release(robot: RobotConfig, file: Path, directly: bool = False) -> EmergencyStopOutcome:
    """Release the planner's stop; `directly`: by ssh, also a stop set on the vehicle itself."""
    if directly:
        output = ssh.run(robot.link, onboard_command(robot, "relay", "--release", "settings.json"), limit_s=15.0)
        return EmergencyStopOutcome(True, f"on board: {' '.join(output.split())}")
    if control_socket.send_request(file, "release")["connected"]:
        return EmergencyStopOutcome(True, "released")
    note = "released here, but the vehicle is not connected: it keeps its stop until it receives the release"
    return EmergencyStopOutcome(True, f"{note}. Release again once it is connected, or with --on-board")


def stop_by_planner(file: Path, reason: str) -> bool:
    """Stop through the planner; True if the vehicle confirms that it stands. NoPlanner: no planner was reached."""
    state = control_socket.send_request(file, "stop", reason)
    deadline = time.monotonic() + STANDS_S
    while state["connected"] and not state["stands"] and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        state = control_socket.send_request(file, "state")
    return bool(state["stands"])
