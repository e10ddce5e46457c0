"""`ad2 robot console`: terminal view of the running planner; the space bar is the emergency stop."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.robot.vehicle import RobotOptions, planner_socket, robot_of
from lmms_eval_ad2.options import add_command


def register(parts: Any) -> None:
    add_command(
        parts,
        "console",
        run,
        RobotOptions,
        help="show camera, replies and motions of the vehicle; SPACE stops it",
        description="SPACE: emergency stop. r: release. q: quit. Needs a terminal of its own.",
        epilog="exit code: 0, or 1 if the vehicle has not confirmed a stop",
    )


def run(options: RobotOptions) -> int:
    from closedloop_plugin.robots.planner.console import show

    robot = robot_of(options.robot)
    return 0 if show(robot, planner_socket(robot)) else 1
