"""The vehicle of a command, and the files shared by planner and on-board client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmms_eval_ad2.core.options import option

if TYPE_CHECKING:
    from pathlib import Path

    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig


@dataclass(frozen=True, kw_only=True)
class RobotOptions:
    robot: str = option("name of a file in configs/robots, or a YAML file", metavar="NAME|FILE")


def robot_of(text: str) -> RobotConfig:
    from closedloop_plugin.robots.vehicles.robot_config import find_robot

    return find_robot(text)


def addressed(robot: RobotConfig, address: str | None) -> RobotConfig:
    """The robot at `[USER@]HOST`; None or "host": at link.host of its file."""
    if not address or address == "host":
        return robot
    user, _, host = address.rpartition("@")
    return replace(robot, link=replace(robot.link, host=host, user=user or robot.link.user))


def home() -> Path:
    """The folder of tokens and planner sockets, accessible to the user only."""
    from closedloop_plugin.scenarios.suites.lookup import data_home

    folder = data_home() / "robots"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:  # only if needed: the stop must work on a read-only disk
        folder.chmod(0o700)
    return folder


def token_file(robot: RobotConfig) -> Path:
    return home() / f"{robot.name}.token"


def planner_socket(robot: RobotConfig) -> Path:
    from closedloop_plugin.robots.planner.control import socket_path

    return socket_path(home(), robot.name)
