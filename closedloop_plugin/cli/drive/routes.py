"""`ad2 drive routes`: put a route file into the data home, list the suites."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.options import add_command, option


@dataclass(frozen=True, kw_only=True)
class RoutesAddOptions:
    """`ad2 drive routes add`."""

    file: Path = option(metavar="FILE", positional=True)
    name: str | None = option("the suite's name (default: the file's stem)", default=None)


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("routes", help="add a route file to the data home, list what can be driven")
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(actions, "add", run_add, RoutesAddOptions, help="check a route file and keep it")
    add_command(actions, "list", run_list, help="suites and how many routes they have")


def run_add(options: RoutesAddOptions) -> int:
    from closedloop_plugin.core.routes import read_routes
    from closedloop_plugin.suites.lookup import BENCH2DRIVE, EMBEDDED, add_routes

    target = add_routes(options.file, options.name)
    name = EMBEDDED if target.stem == BENCH2DRIVE else target.stem
    print(f"{len(read_routes(target))} routes in {target}; drive them with: ad2 drive run --suite {name} ...")
    return 0


def run_list() -> int:
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
