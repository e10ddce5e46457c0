"""`ad2 drive routes`: put a route file into the data home, list the suites."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("routes", help="add a route file to the data home, list what can be driven")
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="check a route file and keep it")
    add.add_argument("file", type=Path, metavar="FILE")
    add.add_argument("--name", help="the suite's name (default: the file's stem)")
    add.set_defaults(func=run_add)
    listing = actions.add_parser("list", help="suites and how many routes they have")
    listing.set_defaults(func=run_list)


def run_add(args: argparse.Namespace) -> int:
    from closedloop_plugin.core.routes import read_routes
    from closedloop_plugin.suites.lookup import BENCH2DRIVE, EMBEDDED, add_routes

    target = add_routes(args.file, args.name)
    name = EMBEDDED if target.stem == BENCH2DRIVE else target.stem
    print(f"{len(read_routes(target))} routes in {target}; drive them with: ad2 drive run --suite {name} ...")
    return 0


def run_list(args: argparse.Namespace) -> int:
    from closedloop_plugin.suites.lookup import BENCH2DRIVE, EMBEDDED, routes_home, suite
    from lmms_eval_ad2.errors import Ad2Error

    added = sorted(f.stem for f in routes_home().glob("*.xml") if f.stem != BENCH2DRIVE)
    for name in ("demo", EMBEDDED, *added):
        try:
            found = suite(name)
            print(f"{name:16} {len(found.routes):4} routes, sha256 {found.sha256[:16]}")
        except Ad2Error as exc:
            print(f"{name:16}    – {exc}")
    return 0
