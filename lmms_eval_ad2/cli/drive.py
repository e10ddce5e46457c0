"""`ad2 drive`: the closed loop. Each part is a module of its own, cli/drive_<part>.py, with a `register`."""

from __future__ import annotations

import importlib
from typing import Any

PARTS = ("run", "score", "show", "merge", "routes", "map")


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("drive", help="the closed loop: drive routes, and score what was driven")
    parts = p.add_subparsers(dest="part", metavar="PART", required=True)
    for name in PARTS:
        importlib.import_module(f"lmms_eval_ad2.cli.drive_{name}").register(parts)
