"""`ad2 drive map`: a route's map, built, written and drawn; or a town's file, asked of a CARLA server."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(subparsers: Any) -> None:
    cmd = subparsers.add_parser("map", help="build and draw a route's map, or fetch a town from a CARLA server")
    cmd.add_argument("--routes", type=Path, metavar="FILE", help="route file (XML)")
    cmd.add_argument("--route", action="append", default=[], metavar="ID", help="a route of it; may be repeated")
    cmd.add_argument("--town", type=Path, metavar="XODR", help="the town's own OpenDRIVE file, instead of a corridor")
    cmd.add_argument("--server", metavar="HOST:PORT", help="fetch the running town's OpenDRIVE from a CARLA server")
    cmd.add_argument("--timeout", type=float, default=20.0, metavar="S", help="for --server (default 20)")
    cmd.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    cmd.add_argument("--no-picture", action="store_true", help="write the .xodr only")
    cmd.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from lmms_eval_ad2.errors import Ad2Error

    if args.server:
        from closedloop_plugin.carla.maps.from_server import fetch_town

        print(f"written: {fetch_town(args.server, args.out, timeout_s=args.timeout)}")
        return 0
    if args.routes is None:
        raise Ad2Error("give --routes FILE (and --route ID), or --server HOST:PORT")
    return _routes(args)


def _routes(args: argparse.Namespace) -> int:
    from closedloop_plugin.core.routes import read_routes, select
    from closedloop_plugin.maps.base import RoadLayout
    from closedloop_plugin.maps.build import road_for, waypoint_errors
    from closedloop_plugin.maps.draw import draw
    from closedloop_plugin.maps.layouts import LAYOUTS

    routes = read_routes(args.routes)
    for route in select(routes, args.route) if args.route else routes:
        road = road_for(route, LAYOUTS.get(route.scenario, RoadLayout()), town=args.town, folder=args.out)
        error = waypoint_errors(route, road)
        line = (
            f"{route.id}: {road.file} ({road.source}, {road.facts['topology']}, {road.path.length:.0f} m, "
            f"waypoints within {error.max():.2f} m)"
        )
        print(line + (" experimental" if road.experimental else ""))
        if not args.no_picture:
            print(f"  {draw(road, args.out / f'{route.id}.png')}")
    return 0
