"""`ad2 drive routes`: add a route file to the data home, list the suites."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.options import add_command, option
from lmms_eval_ad2.printed import show
from lmms_eval_ad2.report.compact import WIDTH
from lmms_eval_ad2.report.text_table import few


@dataclass(frozen=True, kw_only=True)
class RoutesAddOptions:
    """`ad2 drive routes add`."""

    file: Path = option(metavar="FILE", positional=True)
    name: str | None = option("name of the suite (default: the file's stem)", default=None, metavar="NAME")


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("routes", help="add a route file to the data home, list the suites")
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(actions, "add", run_add, RoutesAddOptions, help="check a route file and copy it into the data home")
    add_command(actions, "list", run_list, help="list the suites and their numbers of routes")


def run_add(options: RoutesAddOptions) -> int:
    from closedloop_plugin.core.routes import read_routes, wide_gaps
    from closedloop_plugin.scenarios.catalogue import undrivable
    from closedloop_plugin.suites.lookup import BENCH2DRIVE, EMBEDDED, add_routes

    target = add_routes(options.file, options.name)
    name = EMBEDDED if target.stem == BENCH2DRIVE else target.stem
    routes = read_routes(target)
    reasons = {route.id: reason for route in routes if (reason := undrivable(route))}
    n = len(routes) - len(reasons)
    show(f"{len(routes)} routes in {target}" + (f"; drive them with: ad2 drive run --suite {name} ..." if n else ""))
    if reasons:
        only = f"{n} of them can be driven, {len(reasons)} only scored" if n else "they can be scored, but not driven"
        named = [f"{route} ({reason})" for route, reason in reasons.items()]
        show(f"{only} (ad2 drive score RESULTS --routes {name}): {few(named, 3)}")
    if gaps := wide_gaps(route for route in routes if route.id not in reasons):
        named = [f"{route} ({metres:.0f} m after point {number})" for route, (number, metres) in gaps.items()]
        show(
            f"{len(gaps)} routes have neighbouring points 50 m or more apart, between which their road is interpolated "
            f"unless --towns has the town's map: {few(named, 3)}"
        )
    return 0


def run_list() -> int:
    from closedloop_plugin.suites.lookup import BENCH2DRIVE, EMBEDDED, routes_home, suite
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.report.text_table import TextTable

    added = sorted(f.stem for f in routes_home().glob("*.xml") if f.stem != BENCH2DRIVE)
    rows: list[tuple[object, ...]] = []
    for name in ("demo", EMBEDDED, *added):
        try:
            found = suite(name)
            rows.append((name, len(found.routes), f"sha256 {found.sha256[:16]}"))
        except Ad2Error as exc:
            rows.append((name, "–", exc))
    print(TextTable(("suite", "routes", "about"), rows, "lrl").within(WIDTH))
    return 0
