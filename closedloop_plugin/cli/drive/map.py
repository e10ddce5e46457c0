"""`ad2 drive map`: build and draw the map of a route, or fetch a town's map from a CARLA server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show


@dataclass(frozen=True, kw_only=True)
class DriveMapOptions:
    """`ad2 drive map`."""

    routes: str | None = option("route file (XML) or suite, such as demo", default=None, metavar="FILE|SUITE")
    route: tuple[str, ...] = option(
        "route of the file (default: all); may be repeated", default=(), metavar="ID", repeated=True
    )
    town: Path | None = option("OpenDRIVE file of the town, instead of a corridor map", default=None, metavar="XODR")
    server: str | None = option(
        "fetch the running town's OpenDRIVE from a CARLA server", default=None, metavar="HOST:PORT"
    )
    timeout: float = option(
        "seconds to wait for --server (default 20)", default=20.0, metavar="S", least=0.1, expert=True
    )
    out: Path = option("output folder", metavar="DIR")
    no_picture: bool = option("write the .xodr only", default=False, expert=True)


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "map",
        run,
        DriveMapOptions,
        help="build and draw a route's map, or fetch a town from a CARLA server",
    )


def run(options: DriveMapOptions) -> int:
    from lmms_eval_ad2.core.errors import Ad2Error

    if options.server:
        from closedloop_plugin.carla.maps.from_server import fetch_town

        print(f"written: {fetch_town(options.server, options.out, timeout_s=options.timeout)}")
        return 0
    if options.routes is None:
        raise Ad2Error("give --routes FILE or SUITE (and --route ID), or --server HOST:PORT")
    return _routes(options, options.routes)


def _routes(options: DriveMapOptions, name: str) -> int:
    from closedloop_plugin.core.routes import select
    from closedloop_plugin.maps.build import road_for, waypoint_errors
    from closedloop_plugin.maps.draw import draw
    from closedloop_plugin.report.results import routes_given
    from closedloop_plugin.scenarios.staging import staging

    routes = routes_given(name).routes
    for route in select(routes, options.route) if options.route else routes:
        layout = staging(route, in_town=options.town is not None).layout
        road = road_for(route, layout, town=options.town, folder=options.out)
        error = waypoint_errors(route, road)
        line = (
            f"{route.id}: {road.file} ({road.source}, {road.facts['topology']}, {road.path.length:.0f} m, "
            f"waypoints within {error.max():.2f} m)"
        )
        show(line + (" experimental" if road.experimental else ""))
        if not options.no_picture:
            print(f"  {draw(road, options.out / f'{route.id}.png')}")
    return 0
