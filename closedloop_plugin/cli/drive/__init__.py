"""`ad2 drive`: closed-loop evaluation. Each part is a module with `register`."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.cli.drive import audit, collect, label, map, read, reread, routes, run, score, show

PARTS = (run, score, audit, show, read, reread, collect, label, routes, map)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("drive", help="closed loop: drive routes and score the results")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for part in PARTS:
        part.register(parts)
