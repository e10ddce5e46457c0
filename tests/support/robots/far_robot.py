"""A robot that is reached through a real sshd, and a search for processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from support.robots.sshd import Sshd, free_port

from closedloop_plugin.robots.vehicles.robot_config import LinkSettings, RobotConfig, find_robot


def far_robot(server: Sshd, folder: Path, **link: Any) -> RobotConfig:
    """The sandbox's LIMO, reached through `server`, with its files in `folder`."""
    robot = find_robot("sandbox")
    settings = LinkSettings(
        host="127.0.0.1",
        user=server.user,
        port=server.port,
        key=str(server.key),
        planner_port=free_port(),
        folder=str(folder),
        ssh_options=server.options,
    )
    return replace(robot, link=replace(settings, **link))


def yaml_of(robot: RobotConfig, folder: Path, backend: str = "") -> Path:
    """Write the robot's configuration as a YAML file."""
    link = robot.link
    lines = [
        "vehicle: limo-ackermann", "link:", f"  host: {link.host}", f"  user: {link.user}", f"  port: {link.port}",
        f"  key: {link.key}", f"  planner_port: {link.planner_port}", f"  folder: {link.folder}",
        f"  ssh_options: [{', '.join(link.ssh_options)}]",
    ]  # fmt: skip
    lines += ["onboard:", f"  backend: {backend}"] if backend else []
    file = folder / "far_limo.yaml"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def until(condition: Callable[[], Any], limit_s: float = 30.0) -> None:
    """Wait until `condition()` is true."""
    never_set = Event()
    for _ in range(int(limit_s / 0.02)):
        if condition():
            return
        never_set.wait(0.02)
    raise AssertionError("the condition was not met in time")


def processes(word: str) -> list[int]:
    """Ids of the running processes whose command line contains `word`."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # the process has ended meanwhile
            if folder.name.isdigit() and word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found
