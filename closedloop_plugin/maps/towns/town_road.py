"""town_road: the RoadMap of a route in a town: the unchanged OpenDRIVE file, the route on its lanes, its junctions."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Pose, Route
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadMap, RouteSection
from closedloop_plugin.maps.opendrive import keep
from closedloop_plugin.maps.opendrive_file import map_bytes
from closedloop_plugin.maps.plan import TOWN_LIMIT, eased
from closedloop_plugin.maps.towns.junctions import TownJunction, crossings
from closedloop_plugin.maps.towns.lanes import Key, LaneNetwork, parse_town
from closedloop_plugin.maps.towns.route_trace import LanePosition, RouteLeg, foot, trace
from lmms_eval_ad2.core.errors import Ad2Error

AROUND = 250.0  # m from the route within which stop lines are included


def town_road(route: Route, file: Path, folder: Path) -> RoadMap:
    """Map of a town file, which is copied to `folder`, since simulators write caches next to a map."""
    if not file.is_file():
        raise Ad2Error(f"{file}: no such map; an OpenDRIVE file (.xodr) of {route.town} is expected")
    data = map_bytes(file)
    town = parse_town(data, file)
    spots, legs = trace(route, town, file)
    path = RoutePath(_points(town, spots, legs))
    digest = hashlib.sha256(data).hexdigest()
    driven = list(dict.fromkeys(k for leg in legs for k in leg.lanes))
    spans = spans_of(town, path, driven)
    boxes = crossings(town, path.xy, AROUND)
    return RoadMap(
        file=keep(data, folder, f"{file.stem}-{digest[:16]}.xodr"),
        source="town",
        town=route.town,
        sha256=digest,
        path=path,
        pieces=(RouteSection(0.0, round(path.length, 2), "measured"),),
        junctions=tuple(span for _, span in spans),
        changes=_changes(path, town, spots, legs),
        stop_lines=_stop_lines(boxes, path, driven),
        lane_width=width_of(town, driven),
        speed_limit=TOWN_LIMIT,
        facts=facts_of(route, town, path, spans, boxes, driven),
        facts_at=facts_at(route, town, path, spans, boxes, driven),
    )


def _points(town: LaneNetwork, spots: list[LanePosition], legs: list[RouteLeg]) -> np.ndarray:
    """Centre line of the lanes from the first route point to the last; lane changes are eased between two points."""
    out = [town.lanes[spots[0].lane].part(spots[0].s, spots[0].s)]
    for a, b, leg in zip(spots, spots[1:], legs, strict=False):
        if leg.change:
            ends = [town.lanes[o.lane].part(o.s, o.s)[0] for o in (a, b)]
            out.append(ends[0] + eased(np.linspace(0, 1, 9))[:, None] * (ends[1] - ends[0]))
            continue
        for k, key in enumerate(leg.lanes):
            start = a.s if k == 0 else 0.0
            end = b.s if k == len(leg.lanes) - 1 else town.lanes[key].length
            if end > start:
                out.append(town.lanes[key].part(start, end))
    points = np.vstack(out)
    # Lanes meet within a few centimetres; points closer than that could make the line step back.
    return points[np.r_[True, np.hypot(*np.diff(points, axis=0).T) > 0.05]]


def spans_of(town: LaneNetwork, path: RoutePath, driven: list[Key]) -> list[tuple[int, tuple[float, float]]]:
    """(junction id, (from, to) in m along the path) of every junction that the route crosses, in order."""
    spans: list[tuple[int, tuple[float, float]]] = []
    for key in driven:
        lane = town.lanes[key]
        if lane.junction < 0:
            continue
        a, b = (path.locate(*map(float, lane.centre[i]))[0] for i in (0, -1))
        if b - a < 0.5:
            continue
        if spans and spans[-1][0] == lane.junction and a - spans[-1][1][1] < 1.0:
            spans[-1] = (lane.junction, (spans[-1][1][0], b))
        else:
            spans.append((lane.junction, (a, b)))
    return spans


def _changes(
    path: RoutePath, town: LaneNetwork, spots: list[LanePosition], legs: list[RouteLeg]
) -> tuple[tuple[float, float, int], ...]:
    out = []
    for a, b, leg in zip(spots, spots[1:], legs, strict=False):
        if leg.change:
            s = [path.locate(*map(float, town.lanes[o.lane].part(o.s, o.s)[0]))[0] for o in (a, b)]
            out.append((s[0], s[1], leg.change))
    return tuple(out)


def _stop_lines(boxes: dict[int, TownJunction], path: RoutePath, driven: list[Key]) -> tuple[StopLine, ...]:
    """One per group of arriving lanes, with route_s if the route uses one of them."""
    out = []
    for box in boxes.values():
        for group in box.controlled:
            x, y, yaw, width = group.line
            s, off = path.locate(x, y)
            own = any(lane.key in driven for lane in group.lanes) and abs(off) < width and 0.5 < s < path.length - 0.5
            out.append(
                StopLine(
                    id=group.id,
                    x=x,
                    y=y,
                    yaw=yaw,
                    width=width,
                    control=group.control,
                    on_route=own,
                    route_s=s if own else None,
                )
            )
    return tuple(out)


def width_of(town: LaneNetwork, driven: list[Key]) -> float:
    """Median width of the route's lanes, m."""
    return round(float(np.median([town.lanes[k].width for k in driven])), 2)


def facts_of(
    route: Route,
    town: LaneNetwork,
    path: RoutePath,
    spans: list[tuple[int, tuple[float, float]]],
    boxes: dict[int, TownJunction],
    driven: list[Key],
) -> dict[str, Any]:
    """Facts for scenario programs: lanes beside the ego's at the trigger, and the next junction from there."""
    trigger = path.locate(*route.trigger[:2])[0]
    x, y, _ = path.pose(trigger)
    at = min(driven, key=lambda k: foot(town.lanes[k], np.array([x, y]))[1])
    facts: dict[str, Any] = {"topology": "town", "lanes": lanes_beside(town, at)}
    ahead = next(((j, span) for j, span in spans if span[1] > trigger + 1.0), None)
    if ahead is not None:
        junction, flows = boxes[ahead[0]].facts(town, driven)
        junction |= {"entry_s": round(ahead[1][0], 3), "exit_s": round(ahead[1][1], 3)}
        facts |= {"junction": junction, "flows": flows}
    return facts


def facts_at(route: Route, *of_road: Any) -> dict[Pose, dict[str, Any]]:
    """facts_of at each trigger point of a route with several scenarios; `of_road`: its other arguments."""
    several = route.triggers if len(route.played) > 1 else ()
    return {trigger: facts_of(replace(route, trigger=trigger), *of_road) for trigger in several}


def lanes_beside(town: LaneNetwork, key: Key) -> dict[str, int]:
    """Numbers of lanes of the ego's direction to its left and right, and of oncoming lanes."""
    counts = {}
    for name, left in (("left", True), ("right", False)):
        lane, n = town.beside(town.lanes[key], left), 0
        while lane is not None:
            lane, n = town.beside(lane, left), n + 1
        counts[name] = n
    oncoming = [lane for lane in town.drivable() if lane.key[:2] == key[:2] and lane.key[2] * key[2] < 0]
    return counts | {"oncoming": len(oncoming)}
