"""`ad2 robot sandbox`: a ROS master and a simulated vehicle on the sandbox's floor, or a picture of it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

POLL_S = 0.2


def register(subparsers: Any) -> None:
    cmd = subparsers.add_parser("sandbox", help="a simulated vehicle in place of a real one, over ROS 1")
    cmd.add_argument("--robot", default="sandbox", metavar="FILE|NAME", help="which vehicle (default: sandbox)")
    cmd.add_argument("--port", type=int, default=0, metavar="N", help="of the ROS master (default: a free one)")
    cmd.add_argument("--mode", type=int, metavar="N", help="that its status shows, instead of the robot's own")
    cmd.add_argument("--picture", type=Path, metavar="PNG", help="draw floor, segments and views instead; needs no ROS")
    cmd.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from closedloop_plugin.robots.vehicles.robot_config import find_robot
    from lmms_eval_ad2.errors import Ad2Error

    if not 0 <= args.port <= 65535:
        raise Ad2Error(f"--port {args.port}: from 0 (a free one) to 65535")
    robot = find_robot(args.robot)
    if args.picture:
        if args.picture.is_dir():
            raise Ad2Error(f"--picture {args.picture}: a folder; name a file in it, such as sheet.png")
        from closedloop_plugin.robots.sandbox.overview import sheet

        print(f"written: {sheet(robot.vehicle, args.picture)}")
        return 0
    from closedloop_plugin.robots.sandbox.node_process import SandboxNodeProcess
    from closedloop_plugin.robots.transport.ros import RosMaster

    with RosMaster(args.port) as master:
        node = SandboxNodeProcess(master, robot.file, args.mode)
        try:
            _say(robot, master)
            _watch(node, master)
        except KeyboardInterrupt:
            print("ended")
        finally:
            node.close()
    return 0


def _say(robot: Any, master: Any) -> None:
    vehicle, env = robot.vehicle, master.env()
    print(f"{vehicle.name} obeys {vehicle.topics.cmd} and films on {vehicle.topics.camera}. In another shell:")
    for name in ("ROS_MASTER_URI", "ROS_IP", "PYTHONPATH"):
        print(f"  export {name}={env[name]}")
    print("Ctrl-C ends it.", flush=True)


def _watch(node: Any, master: Any) -> None:
    from lmms_eval_ad2.errors import Ad2Error

    while node.alive and master.alive:
        time.sleep(POLL_S)
    raise Ad2Error(f"{'the ROS master' if node.alive else node.name} has ended by itself: see its messages above")
