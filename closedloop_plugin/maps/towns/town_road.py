"""town_road: the RoadMap of a route in a town: the unchanged OpenDRIVE file, the route on its lanes, its junctions.

TownJunction: arriving and leaving lanes of a junction, their signals and signs, and traffic flows through it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Pose, Route
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadMap, RouteSection
from closedloop_plugin.maps.opendrive import keep
from closedloop_plugin.maps.opendrive_file import map_bytes
from closedloop_plugin.maps.plan import TOWN_LIMIT, eased
from closedloop_plugin.maps.towns.lanes import DRIVABLE, Key, LaneNetwork, TownLane, parse_town
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
    road = road_of(
        route,
        town,
        path,
        [k for leg in legs for k in leg.lanes],
        file=keep(data, folder, f"{file.stem}-{digest[:16]}.xodr"),
        sha256=digest,
    )
    return replace(road, changes=_changes(path, town, spots, legs))


def road_of(
    route: Route, town: LaneNetwork, path: RoutePath, lanes: Sequence[Key], *, file: Path, sha256: str
) -> RoadMap:
    """The road along a path over these lanes, without lane changes; `sha256`: of the town's file."""
    driven = list(dict.fromkeys(lanes))
    spans = spans_of(town, path, driven)
    boxes = crossings(town, path.xy, AROUND)
    several = route.triggers if len(route.played) > 1 else ()
    return RoadMap(
        file=file,
        source="town",
        town=route.town,
        sha256=sha256,
        path=path,
        pieces=(RouteSection(0.0, round(path.length, 2), "measured"),),
        junctions=tuple(span for _, span in spans),
        stop_lines=_stop_lines(boxes, path, driven),
        lane_width=round(float(np.median([town.lanes[k].width for k in driven])), 2),
        speed_limit=TOWN_LIMIT,
        facts=facts_of(town, path, route.trigger, spans, boxes, driven),
        facts_at={trigger: facts_of(town, path, trigger, spans, boxes, driven) for trigger in several},
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


def facts_of(
    town: LaneNetwork,
    path: RoutePath,
    trigger_pose: Pose,
    spans: list[tuple[int, tuple[float, float]]],
    boxes: dict[int, TownJunction],
    driven: list[Key],
) -> dict[str, Any]:
    """Facts for scenario programs: lanes beside the ego's at the trigger, and the next junction from there."""
    trigger = path.locate(*trigger_pose[:2])[0]
    x, y, _ = path.pose(trigger)
    at = min(driven, key=lambda k: foot(town.lanes[k], np.array([x, y]))[1])
    facts: dict[str, Any] = {"topology": "town", "lanes": lanes_beside(town, at)}
    ahead = next(((j, span) for j, span in spans if span[1] > trigger + 1.0), None)
    if ahead is not None:
        junction, flows = boxes[ahead[0]].facts(town, driven)
        junction |= {"entry_s": round(ahead[1][0], 3), "exit_s": round(ahead[1][1], 3)}
        facts |= {"junction": junction, "flows": flows}
    return facts


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


REACH = 60.0  # m of a flow before and after a junction
SIGN_NEAR = 20.0  # m from the end of an approach within which a stop or yield sign belongs to the junction
ORDER = ("signal", "stop", "yield")


@dataclass(frozen=True)
class ApproachLanes:
    """Arriving lanes of one road with the same control. `line`: x, y, yaw and width of their stop line."""

    id: str
    lanes: tuple[TownLane, ...]
    control: str

    @property
    def line(self) -> tuple[float, float, float, float]:
        ends = np.array([p for lane in self.lanes for p in (lane.left[-1], lane.right[-1])])
        yaw = yaw_at(self.lanes[0].centre, -1)
        across = ends @ np.array([-math.sin(yaw), math.cos(yaw)])
        middle = np.mean([lane.centre[-1] for lane in self.lanes], axis=0)
        return float(middle[0]), float(middle[1]), yaw, float(across.max() - across.min())


@dataclass(frozen=True)
class TownJunction:
    id: int
    groups: tuple[ApproachLanes, ...]  # arriving lanes
    leaving: dict[int, tuple[TownLane, ...]]  # by road
    ways: tuple[TownLane, ...]  # the connecting lanes

    @property
    def controlled(self) -> list[ApproachLanes]:
        return [g for g in self.groups if g.control != "none"]

    def facts(self, town: LaneNetwork, driven: list[Key]) -> tuple[dict[str, Any], dict[str, Any]]:
        """(junction, flows) in the format of corridor maps, see docs/closed-loop.md."""
        own = next(lane for lane in self.ways if lane.key in driven)
        come, go = town.lanes[own.before[0]], town.lanes[own.after[0]]
        names = self._names(come, go)
        arms: dict[str, dict[str, Any]] = {name: {"name": name} for name in names.values()}
        for group in self.groups:
            arm = arms[names[group.lanes[0].key[0]]]
            lane = come if come in group.lanes else group.lanes[-1]
            arm["in"] = pose(lane.centre, -1)
        for road, lanes in self.leaving.items():
            lane = go if go in lanes else lanes[-1]
            arms[names[road]]["out"] = pose(lane.centre, 0)
        for arm in arms.values():  # a one-way road: the missing direction is the opposite of the other
            if "out" not in arm:
                arm["out"] = _back(arm["in"])
            if "in" not in arm:
                arm["in"] = _back(arm["out"])
        flows: dict[str, Any] = {}
        for way in sorted(self.ways, key=lambda lane: lane is not own):
            if way.before and way.after:
                a, b = town.lanes[way.before[0]], town.lanes[way.after[0]]
                line = np.vstack([behind(town, a), way.centre, beyond(town, b)])
                flows.setdefault(f"{names[a.key[0]]}->{names[b.key[0]]}", spaced(line))
        centre = np.mean(np.vstack([lane.centre for lane in self.ways]), axis=0)
        control = next((g.control for g in self.groups if come in g.lanes), "none")
        junction = {"centre": [round(float(v), 3) for v in centre], "control": control, "arms": list(arms.values())}
        return junction, flows

    def _names(self, come: TownLane, go: TownLane) -> dict[int, str]:
        """Road -> entry, exit, left, right or ahead, as seen by the arriving ego; a second one gets a number."""
        names = {come.key[0]: "entry"}
        names.setdefault(go.key[0], "exit")
        towards = yaw_at(come.centre, -1)
        outward = {road: yaw_at(lanes[0].centre, 0) for road, lanes in self.leaving.items()}
        outward |= {g.lanes[0].key[0]: yaw_at(g.lanes[0].centre, -1) + math.pi for g in self.groups}
        for road, yaw in sorted(outward.items()):
            if road in names:
                continue
            angle = math.degrees(wrap(yaw - towards))
            kind = "ahead" if abs(angle) < 45 else "left" if angle > 0 else "right"
            taken = sum(name.rstrip("23456789") == kind for name in names.values())
            names[road] = kind if not taken else f"{kind}{taken + 1}"
        return names


def crossings(town: LaneNetwork, near: np.ndarray, within: float) -> dict[int, TownJunction]:
    """Junctions whose centre lies within `within` metres of a point of `near`, by id."""
    ways: dict[int, list[TownLane]] = {}
    for lane in town.drivable():
        if lane.junction >= 0:
            ways.setdefault(lane.junction, []).append(lane)
    out = {}
    for id_, lanes in sorted(ways.items()):
        middle = np.mean(np.vstack([lane.centre for lane in lanes]), axis=0)
        if np.hypot(*(near - middle).T).min() <= within:
            out[id_] = _crossing(town, id_, lanes)
    return out


def _crossing(town: LaneNetwork, id_: int, ways: list[TownLane]) -> TownJunction:
    before = [town.lanes[k] for k in dict.fromkeys(k for w in ways for k in w.before)]
    after = [town.lanes[k] for k in dict.fromkeys(k for w in ways for k in w.after)]
    arriving = [lane for lane in before if lane.junction != id_ and lane.kind in DRIVABLE]
    groups: dict[tuple[int, str], list[TownLane]] = {}
    for lane in arriving:
        groups.setdefault((lane.key[0], _control(town, lane, id_)), []).append(lane)
    leaving: dict[int, list[TownLane]] = {}
    for lane in after:
        if lane.junction != id_:
            leaving.setdefault(lane.key[0], []).append(lane)
    return TownJunction(
        id_,
        tuple(
            ApproachLanes(f"{id_}/{road}/{control}", _ordered(lanes), control)
            for (road, control), lanes in sorted(groups.items())
        ),
        {road: _ordered(lanes) for road, lanes in sorted(leaving.items())},
        tuple(sorted(ways, key=lambda lane: lane.key)),
    )


def _ordered(lanes: list[TownLane]) -> tuple[TownLane, ...]:
    return tuple(sorted(lanes, key=lambda lane: abs(lane.key[2])))


def _control(town: LaneNetwork, lane: TownLane, junction: int) -> str:
    """The strictest control of an arriving lane: signs of its connecting roads, or a stop or yield sign at its end."""
    controls: set[str] = set()
    for key in lane.after:
        way = town.lanes[key]
        if way.junction == junction:
            controls |= {s.control for s in town.signs.get(key[0], []) if s.holds(way)}
    end = town.lengths[lane.key[0]] if lane.forward else 0.0
    for sign in town.signs.get(lane.key[0], []):
        # The post of a traffic light may be on any arm; only connecting roads determine to which lanes it applies.
        near = sign.control != "signal" and abs(sign.s - end) < SIGN_NEAR
        if near and sign.holds(lane):
            controls.add(sign.control)
    return next((control for control in ORDER if control in controls), "none")


def behind(town: LaneNetwork, lane: TownLane) -> np.ndarray:
    """The last REACH metres up to the lane's end, including preceding lanes, (N, 2)."""
    parts: list[np.ndarray] = []
    left, here = REACH, lane
    while True:
        parts.insert(0, here.part(max(0.0, here.length - left), here.length))
        left -= here.length
        if left <= 0 or not here.before:
            return np.vstack(parts)
        here = min((town.lanes[k] for k in here.before), key=_bend)


def beyond(town: LaneNetwork, lane: TownLane) -> np.ndarray:
    """The first REACH metres from the lane's start, straight on at junctions, (N, 2)."""
    parts: list[np.ndarray] = []
    left, here = REACH, lane
    while True:
        parts.append(here.part(0.0, min(here.length, left)))
        left -= here.length
        if left <= 0 or not here.after:
            return np.vstack(parts)
        here = min((town.lanes[k] for k in here.after), key=_bend)


def _bend(lane: TownLane) -> float:
    return abs(wrap(yaw_at(lane.centre, -1) - yaw_at(lane.centre, 0)))


def yaw_at(line: np.ndarray, end: int) -> float:
    """Direction of a polyline at its start (0) or end (-1)."""
    step = line[1] - line[0] if end == 0 else line[-1] - line[-2]
    return math.atan2(step[1], step[0])


def pose(line: np.ndarray, end: int) -> list[float]:
    x, y = line[end]
    return [round(float(x), 3), round(float(y), 3), round(yaw_at(line, end), 5)]


def _back(place: list[float]) -> list[float]:
    return [place[0], place[1], round(wrap(place[2] + math.pi), 5)]


def spaced(line: np.ndarray, step: float = 1.0) -> list[list[float]]:
    """The polyline resampled to about `step` metres, as JSON."""
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(line, axis=0).T))]
    at = np.linspace(0.0, s[-1], max(2, math.ceil(s[-1] / step) + 1))
    return [[round(float(np.interp(a, s, line[:, i])), 3) for i in (0, 1)] for a in at]
