"""road_for: the RoadMap of a route, from a town file or by a builder. The same input gives the same bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout, RoadMap, RouteSection
from closedloop_plugin.maps.builders.corridor import corridor
from closedloop_plugin.maps.builders.highway import diverge, merge
from closedloop_plugin.maps.builders.junction import junction
from closedloop_plugin.maps.curves import length
from closedloop_plugin.maps.opendrive import document, keep
from closedloop_plugin.maps.plan import MapPlan
from closedloop_plugin.maps.towns.town_road import town_road
from lmms_eval_ad2.core.errors import Ad2Error

DIFFERENCE = 1 / 3  # between the lengths of path and polyline, at most, as a share of the latter
SHORTEST_M = 0.01  # of a road
WAY_OUT = "use its town's map: --towns DIR"
BUILDERS = {"corridor": corridor, "junction": junction, "merge": merge, "diverge": diverge}

# Parts of a map that no route file contains. `pieces` gives the origin of the ego's own path.
BESIDE = ("lanes beside the ego's", "shoulders and sidewalks", "80 m before and after the route")
INVENTED = {
    "corridor": BESIDE,
    "junction": (*BESIDE, "arms that the ego does not drive", "lights, signs and right of way"),
    "merge": (*BESIDE, "the mainline before the merge"),
    "diverge": (*BESIDE, "the mainline after the exit"),
}


def road_for(route: Route, layout: RoadLayout, *, town: Path | None = None, folder: Path) -> RoadMap:
    """The map of a route, written to `folder` under a name with its content hash.

    With `town`, an OpenDRIVE file: that file, with the route traced on its lanes. Without: a map of the layout's
    topology, built from the route's points.
    """
    if town is not None:
        return town_road(route, Path(town), folder)
    plan = plan_for(route, layout)
    name = f"{route.suite or 'route'} {route.id} {layout.topology}"
    data = document(name, plan.roads, plan.junctions, plan.limit)
    digest = hashlib.sha256(data).hexdigest()
    path = RoutePath(plan.path)
    return RoadMap(
        file=keep(data, folder, f"{layout.topology}-{digest[:16]}.xodr"),
        source="corridor",
        town=route.town,
        sha256=digest,
        path=path,
        pieces=tuple(RouteSection(round(a, 2), round(b, 2), kind) for a, b, kind in plan.spans),
        junctions=plan.crossed,
        changes=plan.changes,
        stop_lines=plan.stop_lines,
        lane_width=layout.lane_width,
        speed_limit=plan.limit,
        experimental=plan.experimental,
        invented=INVENTED[layout.topology],
        facts=plan.facts,
    )


def plan_for(route: Route, layout: RoadLayout) -> MapPlan:
    """The plan of the layout's builder. Raises Ad2Error for an invalid layout, and for a route that has no such map."""
    if layout.topology not in BUILDERS:
        raise Ad2Error(f"layout topology {layout.topology!r}: known are {', '.join(BUILDERS)}")
    if layout.arms not in (3, 4) or min(layout.left, layout.right, layout.oncoming) < 0 or layout.lane_width < 2.5:
        raise Ad2Error(f"{layout}: 3 or 4 arms, no negative lane counts, lanes of 2.5 m or more")
    try:
        plan = BUILDERS[layout.topology](route, layout)
        if short := [road.id for road in plan.roads if length(road.chain) < SHORTEST_M]:
            raise ValueError(f"road {short[0]} of it has no length")
    except (ValueError, ArithmeticError, IndexError) as exc:  # LinAlgError is a ValueError
        raise Ad2Error(f"route {route.id} has no map: its points cannot be joined ({exc}); {WAY_OUT}") from exc
    path_m = float(np.hypot(*np.diff(plan.path, axis=0).T).sum())
    # The points do not determine a path with loops between them, or one that lacks a part.
    if not abs(path_m - route.length) <= DIFFERENCE * route.length:
        raise Ad2Error(
            f"route {route.id} has no map: a path through its {len(route.points)} points has {path_m:.0f} m, their "
            f"polyline {route.length:.0f} m, which differ by more than a third; {WAY_OUT}"
        )
    return plan


def waypoint_errors(route: Route, road: RoadMap) -> np.ndarray:
    """Distance of each point of the route file to the map's path, m."""
    return np.array([abs(road.path.locate(x, y)[1]) for x, y in route.points])
