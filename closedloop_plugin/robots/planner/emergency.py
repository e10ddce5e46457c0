"""The emergency stop from the lab: through the planner, and by ssh straight to the vehicle where that fails."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path as File

from closedloop_plugin.robots.deploy import on_board
from closedloop_plugin.robots.planner import control_socket
from closedloop_plugin.robots.transport import ssh
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.errors import Ad2Error

STANDS_S = 0.5  # for the vehicle's own word that it stands; then the other way is tried
OFF = "SWITCH THE VEHICLE OFF"
_POLL_S = 0.02


@dataclass(frozen=True)
class EmergencyStopOutcome:
    """`sure`: the vehicle itself has confirmed it. `told`: what happened, for a person."""

    sure: bool
    told: str


def stop(robot: RobotConfig, file: File, reason: str, directly: bool = False) -> EmergencyStopOutcome:
    """Latched until released. `directly`: not through the planner, which may be what is wrong."""
    told = []
    if not directly:
        try:
            if by_planner(file, reason):
                return EmergencyStopOutcome(True, "stopped: the vehicle stands, until it is released")
            told.append("the planner holds the stop, and the vehicle did not confirm it")
        except Ad2Error as exc:
            told.append(str(exc))
    if not robot.link.host:
        no_host = "the robot's file names no link.host to reach the vehicle itself"
        return EmergencyStopOutcome(False, "; ".join([*told, no_host, OFF]))
    try:
        said = ssh.run(robot.link, on_board(robot, "relay", "--stop", "settings.json"), limit_s=15.0)
        return EmergencyStopOutcome(True, "; ".join([*told, f"on board: {' '.join(said.split())}"]))
    except Ad2Error as exc:
        return EmergencyStopOutcome(False, "; ".join([*told, str(exc), OFF]))


def release(robot: RobotConfig, file: File, directly: bool = False) -> EmergencyStopOutcome:
    """Undo the planner's stop; `directly`: one that was set on the vehicle itself."""
    if directly:
        said = ssh.run(robot.link, on_board(robot, "relay", "--release", "settings.json"), limit_s=15.0)
        return EmergencyStopOutcome(True, f"on board: {' '.join(said.split())}")
    if control_socket.ask(file, "release")["connected"]:
        return EmergencyStopOutcome(True, "released")
    told = "released here, and the vehicle is not connected: a stop that it holds itself stays until it hears of this"
    return EmergencyStopOutcome(True, f"{told}. Release again once it is connected, or with --on-board")


def by_planner(file: File, reason: str) -> bool:
    """Whether the vehicle has said that it stands. NoPlanner: nobody has heard of the stop."""
    state = control_socket.ask(file, "stop", reason)
    until = time.monotonic() + STANDS_S
    while state["connected"] and not state["stands"] and time.monotonic() < until:
        time.sleep(_POLL_S)
        state = control_socket.ask(file, "state")
    return bool(state["stands"])
