"""`ad2 robot sandbox`: run a ROS master and a simulated vehicle on the sandbox floor."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option

POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class RobotSandboxOptions:
    """`ad2 robot sandbox`."""

    robot: str = option("vehicle (default: sandbox)", default="sandbox", metavar="FILE|NAME")
    port: int = option("port of the ROS master (default 0: a free one)", default=0, metavar="N", least=0, most=65535)
    mode: int | None = option("mode in the status messages (default: the robot's own)", default=None, metavar="N")


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "sandbox",
        run,
        RobotSandboxOptions,
        help="run a simulated vehicle over ROS 1",
    )


def run(options: RobotSandboxOptions) -> int:
    from closedloop_plugin.robots.sandbox.node import SandboxNodeProcess
    from closedloop_plugin.robots.transport.ros import RosMaster
    from closedloop_plugin.robots.vehicles.robot_config import find_robot

    robot = find_robot(options.robot)
    with RosMaster(options.port) as master:
        node = SandboxNodeProcess(master, robot.file, options.mode)
        topics, env = robot.vehicle.topics, master.env()
        try:
            print(f"{robot.vehicle.name} subscribes to {topics.cmd} and publishes {topics.camera}. In another shell:")
            for name in ("ROS_MASTER_URI", "ROS_IP", "PYTHONPATH"):
                print(f"  export {name}={env[name]}")
            print("Ctrl-C ends it.", flush=True)
            while node.alive and master.alive:
                time.sleep(POLL_S)
            ended = "the ROS master" if node.alive else node.name
            raise Ad2Error(f"{ended} has ended unexpectedly: see its messages above")
        except KeyboardInterrupt:
            print("ended")
        finally:
            node.close()
    return 0
