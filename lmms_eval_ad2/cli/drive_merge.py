"""`ad2 drive merge`: shards of one run become one folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(subparsers: Any) -> None:
    p = subparsers.add_parser(
        "merge",
        help="join the folders of one run: duplicates removed, missing episodes listed",
        description="Join folders of `ad2 drive run` with the same arguments (shards, machines) into OUT. Frames and "
        "films stay where they are.",
    )
    p.add_argument("out", type=Path, metavar="OUT")
    p.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0 when the suite is complete, 1 when episodes are missing."""
    from closedloop_plugin.runner.merge import merge

    found = merge(args.out, args.folders)
    duplicates = f", {found.duplicates} duplicates removed" if found.duplicates else ""
    print(f"{len(found.records)} episodes in {args.out}{duplicates}, {len(found.missing)} missing")
    for route_id, repetition in found.missing:
        print(f"  missing: route {route_id} repetition {repetition}")
    return 1 if found.missing else 0
