"""`ad2 drive routes`: add a route file to the data home, list the suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.report.table import WIDTH, few


@dataclass(frozen=True, kw_only=True)
class DriveRoutesOptions:
    """`ad2 drive routes`."""

    file: Path | None = option(
        "route file, or folder of them, to add; without one the suites are listed", default=None, metavar="FILE|DIR",
        positional=True,
    )  # fmt: skip
    name: str | None = option(
        "name of the suite (default: that of the file or folder)", default=None, metavar="NAME", needs="file"
    )


def register(subparsers: Any) -> None:
    about = "check route files and copy them into the data home; list the suites"
    add_command(subparsers, "routes", run, DriveRoutesOptions, help=about)


def run(options: DriveRoutesOptions) -> int:
    return _list() if options.file is None else _add(options.file, options.name)


def _add(file: Path, suite_name: str | None) -> int:
    from closedloop_plugin.core.routes import read_route_file, wide_gaps
    from closedloop_plugin.runner.routes import not_played, unmapped
    from closedloop_plugin.scenarios.staging import undrivable
    from closedloop_plugin.scenarios.suites.lookup import add_routes, named_after
    from closedloop_plugin.scoring.run_records import not_played_note

    target = add_routes(file, suite_name)
    name, found = named_after(target), read_route_file(target)
    faults = {route.id: reason for route in found.routes if (reason := undrivable(route))}
    faults |= unmapped([route for route in found.routes if route.id not in faults], {})
    driven = [route for route in found.routes if route.id not in faults]
    use = f"; drive them with: ad2 drive run --suite {name} ..." if driven else ""
    show(f"{len(found.routes)} routes in {target}{use}")
    if found.left_out:
        show(f"{len(found.left_out)} routes are left out: {few(_named(found.left_out), 3)}")
    if faults:
        only = (
            f"{len(driven)} of them can be driven, {len(faults)} only scored" if driven else "they can only be scored"
        )
        show(f"{only} (ad2 drive score RESULTS --routes {name}): {few(_named(faults), 3)}")
    if without := not_played_note(not_played(driven, {}, "embedded")):
        show(without)
    if gaps := wide_gaps(driven):
        named = [f"{route} ({metres:.0f} m after point {number})" for route, (number, metres) in gaps.items()]
        show(
            f"{len(gaps)} routes have neighbouring points 50 m or more apart, between which their road is interpolated "
            f"unless --towns has the town's map: {few(named, 3)}"
        )
    return 0


def _named(reasons: Mapping[str, str]) -> list[str]:
    return [f"{route} ({reason})" for route, reason in reasons.items()]


def _list() -> int:
    from closedloop_plugin.scenarios.suites.lookup import NAMED, routes_home, suite
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.report.table import Table

    named = [one for one in NAMED.values() if one.world != "carla"]
    added = sorted(f.stem for f in routes_home().glob("*.xml") if f.stem not in {one.stem for one in named})
    rows: list[tuple[object, ...]] = []
    for name in ("demo", *(one.name for one in named), *added):
        try:
            found = suite(name)
            rows.append((name, len(found.routes), f"sha256 {found.sha256[:16]}"))
        except Ad2Error as exc:
            rows.append((name, "–", exc))
    print(Table(("suite", "routes", "about"), rows, "lrl").within(WIDTH))
    return 0
