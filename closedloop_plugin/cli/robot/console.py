"""`ad2 robot console`: one screen about the running planner; the space bar is the emergency stop."""

from __future__ import annotations

import argparse
from typing import Any

from closedloop_plugin.cli.robot.vehicle import add_robot, hotline_of, robot_of


def register(parts: Any) -> None:
    cmd = parts.add_parser(
        "console",
        help="what the vehicle sees, says and does; SPACE stops it",
        description="SPACE: emergency stop. r: release. q: quit. Needs a terminal, and nothing else of it.",
        epilog="exit code: 0, or 1 where a stop was never confirmed by the vehicle",
    )
    add_robot(cmd)
    cmd.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from closedloop_plugin.robots.planner.console import show

    robot = robot_of(args.robot)
    return 0 if show(robot, hotline_of(robot)) else 1
