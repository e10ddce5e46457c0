"""The vehicle that a command names, and the files that its planner and the client on board share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmms_eval_ad2.options import option

if TYPE_CHECKING:
    from pathlib import Path

    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig


@dataclass(frozen=True, kw_only=True)
class RobotOptions:
    robot: str = option("of configs/robots, or a YAML file of your own", metavar="NAME|FILE")


def robot_of(text: str) -> RobotConfig:
    from closedloop_plugin.robots.vehicles.robot_config import find_robot

    return find_robot(text)


def home() -> Path:
    """Where tokens lie and planners can be reached: a folder of the user's alone."""
    from closedloop_plugin.suites.lookup import data_home

    folder = data_home() / "robots"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:  # not always: the stop must also work where nothing can be written any more
        folder.chmod(0o700)
    return folder


def token_file(robot: RobotConfig) -> Path:
    return home() / f"{robot.name}.token"


def planner_socket(robot: RobotConfig) -> Path:
    from closedloop_plugin.robots.planner.control_socket import socket_path

    return socket_path(home(), robot.name)
