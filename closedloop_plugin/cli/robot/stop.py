"""`ad2 robot stop`: the emergency stop, and its release."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from closedloop_plugin.cli.robot.vehicle import add_robot, home, hotline_of, robot_of
from lmms_eval_ad2.errors import Ad2Error

EPILOG = """The stop goes through the running planner; where none answers, or the vehicle does not say within half a
second that it stands, by ssh straight to the vehicle. It holds until it is released, whoever connects meanwhile; one
that was set on the vehicle itself is released there: --release --on-board.

exit code: 0 the vehicle has confirmed it, 1 it has not: switch it off"""


def register(parts: Any) -> None:
    cmd = parts.add_parser(
        "stop", help="emergency stop", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_robot(cmd)
    cmd.add_argument("--reason", default="ad2 robot stop", help="stands in the logs")
    cmd.add_argument("--on-board", action="store_true", help="straight to the vehicle, not through the planner")
    cmd.add_argument("--release", action="store_true", help="undo the stop")
    cmd.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from closedloop_plugin.robots.planner import emergency

    try:
        robot = robot_of(args.robot)
    except Ad2Error as exc:
        if args.release or args.on_board:
            raise
        return _by_name(args, str(exc))
    if args.release:
        done = emergency.release(robot, hotline_of(robot), args.on_board)
    else:
        done = emergency.stop(robot, hotline_of(robot), args.reason, args.on_board)
    print(done.told)
    return 0 if done.sure else 1


def _by_name(args: argparse.Namespace, problem: str) -> int:
    """A file that is being edited must not keep the stop from the planner, which goes by its name alone."""
    from closedloop_plugin.robots.planner import emergency
    from closedloop_plugin.robots.planner.control_socket import place

    try:
        sure = emergency.by_planner(place(home(), Path(args.robot).stem), args.reason)
    except Ad2Error as exc:
        sure, problem = False, f"{exc}; {problem}"
    print(f"{'stopped: the vehicle stands' if sure else emergency.OFF} ({problem})")
    return 0 if sure else 1
