"""RoadMap of a route on a carla.Map: traced lanes, stop lines, speed limit, and the OpenDRIVE file for Scenic."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.carla.maps.lanes import CarlaLanes, key_of
from closedloop_plugin.carla.maps.trace import line, trace
from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import LOCATIONS, Route
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadMap, RouteSection
from closedloop_plugin.maps.opendrive import keep
from closedloop_plugin.maps.plan import TOWN_LIMIT
from closedloop_plugin.maps.towns.cutout import cut_out
from closedloop_plugin.maps.towns.junctions import SIGN_NEAR, crossings, yaw_at
from closedloop_plugin.maps.towns.lanes import CONTROLS, Key, TownLane, read_town
from closedloop_plugin.maps.towns.town_road import AROUND, facts_at, facts_of, spans_of, width_of


def carla_road(route: Route, town_map: Any, folder: Path) -> RoadMap:
    """The route traced on a `carla.Map`; the roads around it are written to `folder`, for Scenic.

    `facts["start_z"]` is the road's height at the route's start, m. `sha256` is that of the whole town's OpenDRIVE.
    """
    data = town_map.to_opendrive().encode()
    lanes = CarlaLanes(town_map)
    ways = trace(route, lanes)
    driving = line(lanes, ways)
    path = RoutePath(driving.points)
    driven = list(dict.fromkeys(x.lane for way in ways for x in way.segments))
    given = [one.params for one in route.played] or [route.params]
    places = [t[:2] for t in (route.trigger, *route.triggers)]
    places += [params[name][:2] for params in given for name in LOCATIONS if name in params]
    part = cut_out(data, np.vstack([path.xy, places]))
    file = keep(part, folder, f"{lanes.name}-{hashlib.sha256(part).hexdigest()[:16]}.xodr")
    town = read_town(file)
    spans = spans_of(town, path, driven)
    boxes = crossings(town, path.xy, AROUND)
    first = ways[0].segments[0]
    return RoadMap(
        file=file,
        source="town",
        town=route.town,
        sha256=hashlib.sha256(data).hexdigest(),
        path=path,
        pieces=(RouteSection(0.0, round(path.length, 2), "measured"),),
        junctions=tuple(span for _, span in spans),
        changes=tuple(
            (path.locate(*map(float, a[:2]))[0], path.locate(*map(float, b[:2]))[0], side)
            for a, b, side in driving.changes
        ),
        stop_lines=stop_lines(lanes, path, driven, AROUND),
        lane_width=width_of(town, driven),
        speed_limit=speed_limit(lanes, first.lane, first.start) or TOWN_LIMIT,
        facts=facts_of(route, town, path, spans, boxes, driven) | {"start_z": round(float(driving.points[0, 2]), 3)},
        facts_at=facts_at(route, town, path, spans, boxes, driven),
    )


# Stop lines and speed limits from the landmarks of carla.Map.
SPEED = "274"  # landmark type of a speed limit
KMH = 1 / 3.6  # m/s
POST = 100.0  # m: longest distance from a light's post, maybe beyond the junction, to its stop line

Held = dict[
    Key, tuple[float, set[Key]]
]  # arriving lane -> metres along it to the stop line, and connecting lanes that are controlled


def stop_lines(lanes: CarlaLanes, path: RoutePath, driven: list[Key], within: float) -> tuple[StopLine, ...]:
    """One stop line per light or sign and controlled road, across all lanes of that road to which it applies.

    Its id is the signal's in the OpenDRIVE file, by which CARLA finds the light.
    """
    held: dict[tuple[str, str, int], Held] = {}
    for type_, control in CONTROLS.items():
        for landmark in lanes.map.get_all_landmarks_of_type(type_):
            post = from_carla(landmark.transform.location.x, landmark.transform.location.y)[:2]
            if np.hypot(*(path.xy - post).T).min() > within + POST:
                continue
            for key in _valid(lanes, landmark):
                for lane, s, onto in _approaches(lanes, landmark, key):
                    group = held.setdefault((control, landmark.id, lane[0]), {})
                    group.setdefault(lane, (s, set()))[1].update(onto)
    out, taken = [], set()
    for (control, id_, _), group in sorted(held.items()):
        lanes_held = control, frozenset(group)
        # A sign on a post and the same one painted on the road apply to the same lanes and give one line, as do two
        # heads of a light over the same lanes.
        if lanes_held in taken:
            continue
        taken.add(lanes_held)
        x, y, yaw, width = _line(lanes, group)
        if np.hypot(*(path.xy - (x, y)).T).min() > within:
            continue
        s, off = path.locate(x, y)
        own = any(key in driven and (not onto or onto & set(driven)) for key, (_, onto) in group.items())
        own = own and abs(off) < width and 0.5 < s < path.length - 0.5
        out.append(
            StopLine(id=id_, x=x, y=y, yaw=yaw, width=width, control=control, on_route=own, route_s=s if own else None)
        )
    return tuple(out)


def _valid(lanes: CarlaLanes, landmark: Any) -> Iterator[Key]:
    """The driving lanes to which a landmark applies, on its road or the road that refers to it."""
    for a, b in landmark.get_lane_validities():
        for id_ in range(min(a, b), max(a, b) + 1):
            waypoint = lanes.map.get_waypoint_xodr(landmark.road_id, id_, landmark.s) if id_ else None
            if waypoint is not None and (key := key_of(waypoint)) in lanes.entries:
                yield key


def _approaches(lanes: CarlaLanes, landmark: Any, key: Key) -> Iterator[tuple[Key, float, set[Key]]]:
    """(lane, s, connecting lanes) of its stop lines; before the junction if the landmark is in one, as in CARLA."""
    lane = lanes[key].lane
    if lane.junction >= 0:
        seen, queue = set(), [(key, key)]
        while queue:
            here, way = queue.pop()
            for before in lanes.before[here]:
                if not lanes.entries[before].is_junction:
                    yield before, lanes[before].lane.length, {way}
                elif before not in seen:
                    seen.add(before)
                    queue.append((before, before))
        return
    entry = lanes.entries[key]
    s = abs(landmark.s - entry.s)
    ends = any(lanes.entries[k].is_junction for k in lane.after)
    yield key, lane.length if ends and lane.length - s < SIGN_NEAR else min(s, lane.length), set()


def _line(lanes: CarlaLanes, group: Held) -> tuple[float, float, float, float]:
    """x, y, yaw, width of the stop line across the lanes."""
    ends = [_cut(lanes[key].lane, s) for key, (s, _) in sorted(group.items())]
    edges = np.array([p for _, left, right, _ in ends for p in (left, right)])
    yaw = ends[0][3]
    across = edges @ np.array([-np.sin(yaw), np.cos(yaw)])
    x, y = np.mean([middle for middle, *_ in ends], axis=0)
    return float(x), float(y), yaw, float(across.max() - across.min())


def _cut(lane: TownLane, s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Centre, left and right edge (x, y) of a lane s metres along, and its yaw there."""
    if s >= lane.length:
        return lane.centre[-1], lane.left[-1], lane.right[-1], yaw_at(lane.centre, -1)
    i = int(np.searchsorted(lane.s, s, side="right")) - 1
    return lane.centre[i], lane.left[i], lane.right[i], yaw_at(lane.centre[i:], 0)


def speed_limit(lanes: CarlaLanes, key: Key, s: float) -> float | None:
    """Speed limit in m/s at s metres along a lane: of the last sign passed on its road, else of the first one ahead.

    CARLA reads the sign's value as km/h regardless of the unit in the file (mph in RoadRunner's files).
    """
    signs = []
    for landmark in lanes.map.get_all_landmarks_of_type(SPEED):
        if landmark.road_id != key[0] or landmark.value <= 0:
            continue
        if any(min(v) <= key[2] <= max(v) for v in landmark.get_lane_validities()):
            entry = lanes.entries[key]
            along = (landmark.s - entry.s) * (1 if key[2] < 0 else -1)
            signs.append((along > s, abs(along - s), float(landmark.value)))
    return min(signs)[2] * KMH if signs else None
