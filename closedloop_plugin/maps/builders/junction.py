"""junction: a map with a 3- or 4-arm junction placed on the gap of the route.

The centre is the intersection of the dividers of entry and exit; the arms are entry, exit and their straight
continuations. The ego's connection is the path through the gap, whose ends are the mouths of entry and exit.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.builders.junction_arms import (
    ConnectingLane,
    JunctionArm,
    connecting_lanes,
    connecting_road,
    follows_edge,
    turn,
)
from closedloop_plugin.maps.builders.keypoints import GAP, is_sparse, keypoint_chain
from closedloop_plugin.maps.builders.smoothing import bridged, runs
from closedloop_plugin.maps.curves import (
    Chain,
    Pose,
    aside,
    join,
    length,
    line,
    parallel,
    points,
    reverse,
    sample,
    seen_from,
    split,
    turned,
)  # fmt: skip
from closedloop_plugin.maps.opendrive import (
    BOX_ID,
    OpenDriveJunction,
    OpenDriveLane,
    OpenDriveLink,
    OpenDriveRoad,
    OpenDriveSign,
)
from closedloop_plugin.maps.plan import BEYOND, BICYCLE, BUFFER, MapPlan, after, before, driving, verge

TURN = math.radians(30)  # a smaller change of direction counts as straight on
SEARCHED = 100.0  # m from the trigger within which a route of keypoints has its junction
LEAST_BOX = 12.0  # m of a path through a junction, at least
BOX = 20.0  # m from the middle of a junction to a mouth at most; the rest of a longer gap becomes road


class RouteSplit:
    """The route in three parts: before the junction, through it, after it."""

    def __init__(self, route: Route, *, boxed: bool = False) -> None:
        sparse = is_sparse(route)
        parts = [] if sparse else runs(route)
        gaps = [float(np.hypot(*(b[0] - a[-1]))) for a, b in pairwise(parts)]
        if gaps and max(gaps) > GAP:
            k = int(np.argmax(gaps)) + 1
            self.entry, first = bridged(parts[:k], route.trigger)
            self.exit, last = bridged(parts[k:], route.trigger)
            self.gap, origin = join(self.entry[-1].end, self.exit[0].start), "interpolated"
        else:
            whole, _ = keypoint_chain(route) if sparse else bridged(parts, route.trigger)
            a, b = bend(whole, route, reach=SEARCHED if sparse else math.inf)
            self.entry, rest = split(whole, a)
            self.gap, self.exit = split(rest, b - a)
            origin = "interpolated" if sparse else "measured"
            first, last = [(0.0, a, origin)], [(0.0, length(self.exit), origin)]
        self.entry_s = length(self.entry)
        self.exit_s = self.entry_s + length(self.gap)
        self.spans = [*first, (self.entry_s, self.exit_s, origin)]
        self.spans += [(self.exit_s + a, self.exit_s + b, kind) for a, b, kind in last]
        if boxed:
            self._box()

    def _box(self) -> None:
        """Move the straight ends of a long gap to the roads before and after."""
        # Distances from the ends of the gap to the intersection of their tangents, as in curves.fillet, minus BOX.
        come, go = self.entry[-1].end, self.exit[0].start
        size, angle = length(self.gap), wrap(go[2] - come[2])
        if abs(angle) < TURN:
            first, last = size / 2 - BOX, size / 2 - BOX
        else:
            ahead, left = seen_from(come, go[0], go[1])
            last = left / math.sin(angle) - BOX
            first = ahead - (last + BOX) * math.cos(angle) - BOX
        first, last = max(0.0, first), max(0.0, last)
        if first + last > size - LEAST_BOX > 0:  # a wide bend is shorter than its tangents
            share = (size - LEAST_BOX) / (first + last)
            first, last = first * share, last * share
        before, rest = split(self.gap, first)
        self.gap, after = split(rest, length(rest) - last)
        self.entry, self.exit = (*self.entry, *before), (*after, *self.exit)
        self.entry_s += length(before)
        self.exit_s -= length(after)

    @property
    def path(self) -> np.ndarray:
        return sample((*self.entry, *self.gap, *self.exit))[:, :2]


def bend(chain: Chain, route: Route, half: float = 12.0, reach: float = math.inf) -> tuple[float, float]:
    """(from, to) of the junction on a route without a gap: around its sharpest bend, else 25 m after the trigger.

    reach: how far from the trigger a bend is searched, m.
    """
    poses = sample(chain, 1.0)
    s = np.linspace(0.0, length(chain), len(poses))
    yaw = np.unwrap(poses[:, 2])
    # Change of yaw within a window of 2 `half`.
    turn = np.abs(np.interp(s + half, s, yaw) - np.interp(s - half, s, yaw))
    trigger = float(s[np.hypot(poses[:, 0] - route.trigger[0], poses[:, 1] - route.trigger[1]).argmin()])
    turn[np.abs(s - trigger) > reach] = 0.0
    middle = float(s[turn.argmax()]) if turn.max() > TURN else trigger + 25.0
    middle = min(max(middle, half + 2.0), s[-1] - half - 2.0)
    half = min(half, 0.4 * s[-1])
    return max(1.0, middle - half), min(s[-1] - 1.0, middle + half)


def junction(route: Route, layout: RoadLayout) -> MapPlan:
    """Entry, exit and their continuations, each arm connected to each other one."""
    cut = RouteSplit(route, boxed=True)
    arms, roads = _arms(cut, route, layout)
    lanes = _with_own(connecting_lanes(arms), arms, cut.gap, layout)
    lines, obeys = _controls(arms, roads, layout, cut.entry_s)
    box = OpenDriveJunction(BOX_ID)
    for i, lane in enumerate(lanes):
        edge = _edge(lane, arms, layout)
        road, connection = connecting_road(lane, 10 + i, BOX_ID, edge, obeys.get(lane.start.name, []))
        roads.append(road)
        box.connections.append(connection)
    return MapPlan(
        roads=roads,
        path=cut.path,
        spans=cut.spans,
        junctions=[box],
        crossed=((cut.entry_s, cut.exit_s),),
        stop_lines=lines,
        facts=_facts(cut, arms, lanes, layout),
    )


def _arms(cut: RouteSplit, route: Route, layout: RoadLayout) -> tuple[list[JunctionArm], list[OpenDriveRoad]]:
    width, lanes, back = layout.lane_width, 1 + layout.left + layout.right, max(1, layout.oncoming)
    divider = width * (layout.left + 0.5)
    come, go = (*before(cut.entry), *cut.entry), (*cut.exit, *after(cut.exit))
    mouth_in, mouth_out = aside(come[-1].end, divider), aside(go[0].start, divider)
    edges = verge(layout, "right", True), verge(layout, "left", True)
    entry = JunctionArm(
        name="entry",
        road=1,
        mouth=turned(mouth_in),
        outward=parallel(reverse(come), -divider),
        n_in=lanes,
        n_out=back,
        width=width,
        leads_in=True,
    )
    leave = JunctionArm(
        name="exit", road=2, mouth=mouth_out, outward=parallel(go, divider), n_in=back, n_out=lanes, width=width
    )
    own = {"right": driving(lanes, width, edges[0]), "left": driving(back, width, edges[1]), "offset": divider}
    yellow, box = ("solid solid", "yellow"), OpenDriveLink("junction", BOX_ID)
    roads = [
        OpenDriveRoad(1, come, **own, middle=yellow, after=box),  # type: ignore[arg-type]
        OpenDriveRoad(2, go, **own, middle=yellow, before=box),  # type: ignore[arg-type]
    ]
    arms = [entry, leave]
    for i, (name, mouth) in enumerate(_others(mouth_in, mouth_out, length(cut.gap), route, layout)):
        straight = line(mouth, BEYOND)
        arms.append(JunctionArm(name=name, road=3 + i, mouth=mouth, outward=straight, n_in=1, n_out=1, width=width))
        right, left = driving(1, width, edges[0]), driving(1, width, edges[1])
        roads.append(OpenDriveRoad(3 + i, straight, right, left, middle=yellow, before=box))
    return arms, roads


def _others(come: Pose, go: Pose, gap: float, route: Route, layout: RoadLayout) -> list[tuple[str, Pose]]:
    """Names and mouths (poses outwards) of the arms that the route does not use."""
    angle = wrap(go[2] - come[2])
    ahead, left = seen_from(come, go[0], go[1])
    least = layout.lane_width * (1 + layout.left + layout.right) + 4.0
    if abs(angle) < TURN:
        return _crossing(come, angle, ahead, least, route, layout)
    far_out = max(least, left / math.sin(angle))
    far_in = max(least, ahead - far_out * math.cos(angle))
    centre = aside(come, 0.0, far_in)
    opposite = turned((*aside((centre[0], centre[1], go[2]), 0.0, -far_out)[:2], go[2]))
    others = [("ahead", aside(centre, 0.0, far_in))]
    if layout.arms == 4:  # with 3 arms the ego turns off a road that continues, as in Town01 and Town02
        others.append(("right" if angle > 0 else "left", opposite))
    return others


def _crossing(
    come: Pose, angle: float, ahead: float, least: float, route: Route, layout: RoadLayout
) -> list[tuple[str, Pose]]:
    """Arms of the road that crosses a straight route; a flow that starts beside the route determines its place."""
    width = layout.lane_width
    middle = ahead / 2
    flow = route.params.get("start_actor_flow")
    if flow is not None:
        at, side = seen_from(come, flow[0], flow[1])
        if abs(side) > least and 0 < at < ahead:
            middle = at + math.copysign(width / 2, side)
    middle = min(max(middle, least), max(least, ahead - least))
    centre = aside(come, 0.0, middle)
    reach = min(max(ahead / 2, least), 18.0)
    axis = come[2] + angle / 2
    mouths = {
        name: aside((centre[0], centre[1], wrap(axis + turn)), 0.0, reach)
        for name, turn in (("left", math.pi / 2), ("right", -math.pi / 2))
    }
    if layout.arms == 3:
        only = "left" if route.params.get("direction") == "left" else "right"
        return [(only, mouths[only])]
    return list(mouths.items())


def _with_own(
    found: list[ConnectingLane], arms: list[JunctionArm], gap: Chain, layout: RoadLayout
) -> list[ConnectingLane]:
    """The connecting lanes with that of the ego replaced by the path through the gap."""
    own = ConnectingLane(arms[0], layout.left, arms[1], layout.left, gap)
    same = (own.start, own.lane_in, own.end, own.lane_out)
    return [own, *(w for w in found if (w.start, w.lane_in, w.end, w.lane_out) != same)]


def _edge(way: ConnectingLane, arms: list[JunctionArm], layout: RoadLayout) -> list[OpenDriveLane]:
    if follows_edge(way, arms):
        return verge(layout, "right", True)
    if layout.bicycle and abs(turn(way.start, way.end)) < TURN:
        return [OpenDriveLane("none", BUFFER), OpenDriveLane("biking", BICYCLE, "broken")]
    return []


def _controls(
    arms: list[JunctionArm], roads: list[OpenDriveRoad], layout: RoadLayout, entry_s: float
) -> tuple[tuple[StopLine, ...], dict[str, list[int]]]:
    """Stop line and sign of every approach, and sign ids by arm."""
    if layout.control == "none":
        return (), {}
    lines, obeys = [], {}
    for i, arm in enumerate(arms):
        width = arm.n_in * arm.width
        x, y, yaw = turned(aside(arm.mouth, width / 2))
        along = entry_s if arm.name == "entry" else None
        lines.append(
            StopLine(arm.name, x, y, yaw, width, control=layout.control, on_route=along is not None, route_s=along)
        )
        road = next(r for r in roads if r.id == arm.road)
        outside = width + 1.0
        sign = OpenDriveSign(
            id=i + 1, control=layout.control, s=0.0, t=outside + road.offset, orientation="-", lanes=(1, arm.n_in)
        )
        if arm.leads_in:
            sign = OpenDriveSign(
                id=i + 1,
                control=layout.control,
                s=length(road.chain),
                t=road.offset - outside,
                orientation="+",
                lanes=(-arm.n_in, -1),
            )
        road.signs.append(sign)
        obeys[arm.name] = [sign.id]
    return tuple(lines), obeys


def _facts(cut: RouteSplit, arms: list[JunctionArm], found: list[ConnectingLane], layout: RoadLayout) -> dict[str, Any]:
    flows: dict[str, Any] = {}
    for way in found:
        flows.setdefault(f"{way.start.name}->{way.end.name}", way.flow())
    described = []
    for arm in arms:
        lane_in = layout.left if arm.name == "entry" else arm.n_in - 1
        lane_out = layout.left if arm.name == "exit" else arm.n_out - 1
        described.append(
            {
                "name": arm.name,
                "in": pose_json(arm.lane_in(lane_in)),
                "out": pose_json(arm.lane_out(lane_out)),
            }
        )
    middle = np.mean([arm.mouth[:2] for arm in arms], axis=0)
    facts: dict[str, Any] = {
        "topology": "junction",
        "lanes": {"left": layout.left, "right": layout.right, "oncoming": max(1, layout.oncoming)},
        "junction": {
            "centre": [round(float(v), 3) for v in middle],
            "entry_s": round(cut.entry_s, 3),
            "exit_s": round(cut.exit_s, 3),
            "control": layout.control,
            "arms": described,
        },
        "flows": flows,
    }
    opposite = next((w for w in found if w.end is arms[0] and abs(turn(w.start, w.end)) < TURN), None)
    if layout.bicycle and opposite is not None:
        facts["bicycle"] = _bicycle(opposite)
    return facts


def _bicycle(way: ConnectingLane) -> list[list[float]]:
    """Centre of the bicycle lane from the opposite arm through the junction and along the ego's approach."""
    out = BUFFER + BICYCLE / 2
    come = reverse(way.start.along(way.start.n_in * way.start.width + out))
    go = way.end.along(-(way.end.n_out * way.end.width + out))
    return points((*come, *join(come[-1].end, go[0].start), *go))


def pose_json(pose: Pose) -> list[float]:
    return [round(pose[0], 3), round(pose[1], 3), round(wrap(pose[2]), 5)]
