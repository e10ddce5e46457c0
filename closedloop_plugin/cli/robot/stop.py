"""`ad2 robot stop`: emergency stop and its release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.cli.robot.vehicle import RobotOptions, home, planner_socket, robot_of
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

EPILOG = """The stop is sent through the running planner. If no planner answers, or the vehicle does not confirm
within half a second, it is sent directly to the vehicle by ssh. It stays in effect until it is released, also for new
connections. A stop that was set on board is released on board: --release --on-board.

exit code: 0 confirmed by the vehicle, 1 not confirmed: switch the vehicle off"""


@dataclass(frozen=True, kw_only=True)
class RobotStopOptions(RobotOptions):
    """`ad2 robot stop`."""

    reason: str = option("reason, recorded in the logs", default="ad2 robot stop", metavar="TEXT")
    on_board: bool = option("send it directly to the vehicle, not through the planner", default=False)
    release: bool = option("release the stop", default=False)


def register(parts: Any) -> None:
    add_command(
        parts,
        "stop",
        run,
        RobotStopOptions,
        help="stop the vehicle in an emergency",
        epilog=EPILOG,
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
    show(done.message)
    return 0 if done.confirmed else 1


def _by_name(options: RobotStopOptions, problem: str) -> int:
    """Stop through the planner, which needs only the robot's name: the file may be invalid while it is edited."""
    from closedloop_plugin.robots.planner import emergency
    from closedloop_plugin.robots.planner.control_socket import socket_path

    try:
        confirmed = emergency.stop_by_planner(socket_path(home(), Path(options.robot).stem), options.reason)
    except Ad2Error as exc:
        confirmed, problem = False, f"{exc}; {problem}"
    show(f"{'stopped: the vehicle stands' if confirmed else emergency.OFF} ({problem})")
    return 0 if confirmed else 1
