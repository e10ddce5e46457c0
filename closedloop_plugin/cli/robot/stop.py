"""`ad2 robot stop`: the emergency stop, and its release."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.cli.robot.vehicle import RobotOptions, home, planner_socket, robot_of
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.options import add_command, option

EPILOG = """The stop goes through the running planner; where none answers, or the vehicle does not say within half a
second that it stands, by ssh straight to the vehicle. It holds until it is released, whoever connects meanwhile; one
that was set on the vehicle itself is released there: --release --on-board.

exit code: 0 the vehicle has confirmed it, 1 it has not: switch it off"""


@dataclass(frozen=True, kw_only=True)
class RobotStopOptions(RobotOptions):
    """`ad2 robot stop`."""

    reason: str = option("recorded in the logs", default="ad2 robot stop")
    on_board: bool = option("straight to the vehicle, not through the planner", default=False)
    release: bool = option("undo the stop", default=False)


def register(parts: Any) -> None:
    add_command(
        parts,
        "stop",
        run,
        RobotStopOptions,
        help="emergency stop",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(options: RobotStopOptions) -> int:
    from closedloop_plugin.robots.planner import emergency

    try:
        robot = robot_of(options.robot)
    except Ad2Error as exc:
        if options.release or options.on_board:
            raise
        return _by_name(options, str(exc))
    if options.release:
        done = emergency.release(robot, planner_socket(robot), options.on_board)
    else:
        done = emergency.stop(robot, planner_socket(robot), options.reason, options.on_board)
    print(done.message)
    return 0 if done.confirmed else 1


def _by_name(options: RobotStopOptions, problem: str) -> int:
    """A file that is being edited must not keep the stop from the planner, which goes by its name alone."""
    from closedloop_plugin.robots.planner import emergency
    from closedloop_plugin.robots.planner.control_socket import socket_path

    try:
        sure = emergency.stop_by_planner(socket_path(home(), Path(options.robot).stem), options.reason)
    except Ad2Error as exc:
        sure, problem = False, f"{exc}; {problem}"
    print(f"{'stopped: the vehicle stands' if sure else emergency.OFF} ({problem})")
    return 0 if sure else 1
