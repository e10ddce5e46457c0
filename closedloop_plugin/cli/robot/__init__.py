"""`ad2 robot`: real vehicles and the simulated one. Each part is a module with `register`."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.robot import check, deploy, plan, run, sandbox, stop

PARTS = (plan, run, stop, deploy, check, sandbox)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("robot", help="drive ROS vehicles: the planner, the client on board, the emergency stop")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for part in PARTS:
        part.register(parts)
