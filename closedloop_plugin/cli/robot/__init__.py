"""`ad2 robot`: real vehicles and the simulated one."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.robot import deploy, plan, run, sandbox

PARTS = (
    plan.register_plan, run.register, plan.register_stop, deploy.register,
    sandbox.register,
)  # fmt: skip


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("robot", help="drive ROS vehicles: the planner, the client on board, the emergency stop")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for register_part in PARTS:
        register_part(parts)
