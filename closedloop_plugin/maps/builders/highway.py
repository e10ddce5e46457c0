"""diverge and merge: highway exits and ramps, as a Y of three roads placed on the gap of the route.

diverge: road 1 (the ego's, with the flow's lane beside it) -> road 2 (the exit) and road 3 (straight on).
merge:   road 1 (the ego's ramp) and road 3 (upstream of the flow) -> road 2 (where the ego arrives).
Route files contain no headings of flows: a flow is taken to start or end along the ego's road, connected by one arc.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace

import numpy as np

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.builders.chains import RouteSplit
from closedloop_plugin.maps.builders.corridor import road_along
from closedloop_plugin.maps.curves import (
    Chain,
    Pose,
    arc_through,
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
    OpenDriveConnection,
    OpenDriveJunction,
    OpenDriveLane,
    OpenDriveLink,
    OpenDriveRoad,
)
from closedloop_plugin.maps.plan import BEYOND, HIGHWAY_LIMIT, MapPlan, after, before, verge

TIGHTEST = 1 / 40.0  # 1/m: a tighter arc is replaced by a straight line, and the map is experimental
FIT = 1.5  # m between the flow of the map and its two points in the file, at most
ON_LANE = 2.0  # m from the centre of a lane within which a point is on it


@dataclass
class HighwayBuilder:
    """Roads and junction under construction, for both kinds."""

    cut: RouteSplit
    layout: RoadLayout
    roads: list[OpenDriveRoad]
    box: OpenDriveJunction
    left: int  # lanes of the two-lane side, counted from the ego's
    right: int

    def connect(self, chain: Chain, start: tuple[int, int], end: tuple[int, int], edge: str = "") -> None:
        """Add a one-lane road from (road, lane) to (road, lane); `edge`: the side with a verge."""
        width = self.layout.lane_width
        id_ = 10 + len(self.box.connections)
        side = verge(self.layout, edge, False) if edge else []
        mark = "solid" if edge == "right" else "none"
        self.roads.append(
            OpenDriveRoad(
                id=id_,
                chain=chain,
                right=[OpenDriveLane("driving", width, mark, start[1], end[1]), *(side if edge == "right" else [])],
                left=side if edge == "left" else [],
                offset=width / 2,
                middle=("solid", "white") if edge == "left" else ("none", "white"),
                junction=BOX_ID,
                before=OpenDriveLink("road", start[0], "end"),
                after=OpenDriveLink("road", end[0], "start"),
            )
        )
        self.box.connections.append(OpenDriveConnection(start[0], id_, ((start[1], -1),)))

    def through(self, chain: Chain, start: int, end: int, lanes: dict[int, tuple[int, int]], near: int) -> None:
        """Connect lanes straight on. lanes: left of the ego's -> (id before, id after); `near`: side of the fork."""
        far = min(lanes) if near > 0 else max(lanes)
        for left, (a, b) in lanes.items():
            edge = ("right" if near > 0 else "left") if left == far else ""
            self.connect(parallel(chain, left * self.layout.lane_width), (start, a), (end, b), edge)


def diverge(route: Route, layout: RoadLayout) -> MapPlan:
    """The ego leaves; a flow in the next lane on the exit's side continues, or takes the exit before the ego."""
    cut = RouteSplit(route)
    here, there = cut.entry[-1].end, cut.exit[0].start
    width, side = layout.lane_width, 1 if seen_from(here, there[0], there[1])[1] > 0 else -1
    offset = side * width
    source, sink = _flow(route, aside(here, offset, -45.0), aside(here, offset, length(cut.gap) + 10.0))
    ahead, beside = seen_from(there, *sink)
    leaves = ahead > 0 and abs(beside) < ON_LANE
    left, right = (1, layout.left) if side > 0 else (layout.left, 1)
    come = (*_upstream(turned(cut.entry[0].start), aside((*source, here[2]), -offset)), *cut.entry)
    onward = line(here, length(cut.gap) + 10.0)
    if not leaves:
        onward = parallel(_arc(aside(here, offset), sink), -offset)
    onward, rest = split(onward, max(25.0, length(onward) - 5.0))
    onto = (*rest, *line((rest or onward)[-1].end, BEYOND))
    fewer = (left - (side > 0), right - (side < 0)) if leaves else (left, right)
    y = HighwayBuilder(cut=cut, layout=layout, roads=[], box=OpenDriveJunction(BOX_ID), left=left, right=right)
    y.roads += [
        _piece(come, left, right, layout, 1, after=True),
        _piece((*cut.exit, *after(cut.exit)), 0, 0, replace(layout, oncoming=0), 2),
        _piece(onto, *fewer, layout, 3),
    ]
    y.connect(cut.gap, (1, -(left + 1)), (2, -1))
    aside_way = join(aside(here, offset), there)
    y.connect(aside_way, (1, -(left + 1 - side)), (2, -1), "left" if side > 0 else "right")
    lanes = {k: (-(left + 1 - k), -(fewer[0] + 1 - k)) for k in range(-fewer[1], fewer[0] + 1)}
    y.through(onward, 1, 3, lanes, side)
    beside_ego = parallel(come, offset)
    flow = (*beside_ego, *aside_way, *cut.exit) if leaves else (*beside_ego, *parallel((*onward, *onto), offset))
    apart = _gap_between(there, sample(onward)[:, :2] if leaves else np.array(points(flow)))
    return _plan(y, flow, source, sink, apart, "diverge")


def merge(route: Route, layout: RoadLayout) -> MapPlan:
    """The ego comes from a ramp; a flow is on the road that it joins, in the ego's lane or in the next one."""
    cut = RouteSplit(route)
    here, there = cut.entry[-1].end, cut.exit[0].start
    width = layout.lane_width
    source, sink = _flow(route, aside(there, 0.0, -length(cut.gap) - 45.0), aside(there, 0.0, 10.0))
    beside = seen_from(there, *sink)[1]
    lane = 0 if abs(beside) < ON_LANE else (1 if beside > 0 else -1)
    offset = lane * width
    ramp = 1 if seen_from(there, here[0], here[1])[1] > 0 else -1  # side from which the ego comes
    left = max(lane, 0) + (layout.left if ramp < 0 else 0)
    right = max(-lane, 0) + (layout.left if ramp > 0 else 0)
    come = parallel(reverse(_arc(turned(aside(there, offset)), source)), -offset)
    come = (*reverse(line(turned(come[0].start), BEYOND)), *come)
    upstream, onward = split(come, length(come) - min(length(come) - BEYOND - 5.0, length(cut.gap)))
    y = HighwayBuilder(cut=cut, layout=layout, roads=[], box=OpenDriveJunction(BOX_ID), left=left, right=right)
    y.roads += [
        _piece((*before(cut.entry), *cut.entry), 0, 0, replace(layout, oncoming=0), 1, after=True),
        _piece((*cut.exit, *after(cut.exit)), left, right, layout, 2),
        _piece(upstream, left, right, layout, 3, after=True),
    ]
    y.connect(cut.gap, (1, -1), (2, -(left + 1)), "left" if ramp > 0 else "right")
    lanes = {k: (-(left + 1 - k), -(left + 1 - k)) for k in range(-right, left + 1)}
    y.through(onward, 3, 2, lanes, ramp)
    flow = parallel((*upstream, *onward, *cut.exit), offset)
    apart = _gap_between(here, np.array(points(flow)))
    return _plan(y, flow, source, sink, apart, "merge")


def _flow(route: Route, source: Pose, sink: Pose) -> tuple[tuple[float, float], tuple[float, float]]:
    """Start and end of the flow in the route file, else the given default poses."""
    names = (("start_actor_flow", "end_actor_flow"), ("other_actor_location", "end_location"))
    for a, b in names:
        if a in route.params and b in route.params:
            return route.params[a][:2], route.params[b][:2]
    return source[:2], sink[:2]


def _arc(start: Pose, goal: tuple[float, float]) -> Chain:
    """One arc to the goal; a straight line of the same distance if there is none, or only a tighter one."""
    with contextlib.suppress(ValueError):
        arc = arc_through(start, *goal)
        if abs(arc.curvature) <= TIGHTEST and abs(arc.curvature * arc.length) < math.pi:
            return (arc,)
    return line(start, max(30.0, math.dist(start[:2], goal)))


def _upstream(back: Pose, source: Pose) -> Chain:
    """The road before the route's start: one arc to the source of the flow, then straight."""
    arc = _arc(back, source[:2]) if seen_from(back, source[0], source[1])[0] > 5.0 else ()
    end = arc[-1].end if arc else back
    return reverse((*arc, *line(end, max(20.0, BEYOND - length(arc)))))


def _piece(chain: Chain, left: int, right: int, layout: RoadLayout, id_: int, *, after: bool = False) -> OpenDriveRoad:
    road = road_along(chain, left, right, layout, False, id_)
    link = OpenDriveLink("junction", BOX_ID)
    road.before, road.after = (None, link) if after else (link, None)
    return road


def _gap_between(pose: Pose, other: np.ndarray) -> float:
    """Smallest distance of a pose from the points (N, 2), m."""
    return float(np.hypot(other[:, 0] - pose[0], other[:, 1] - pose[1]).min())


def _plan(
    y: HighwayBuilder, flow: Chain, source: tuple[float, float], sink: tuple[float, float], apart: float, topology: str
) -> MapPlan:
    cut = y.cut
    drawn = np.array(points(flow, 0.5))
    fit = max(_gap_between((*p, 0.0), drawn) for p in (source, sink))
    lanes = {"left": y.left, "right": y.right, "oncoming": y.layout.oncoming}
    if topology == "merge":
        lanes |= {"left": 0, "right": 0}
    middle = cut.gap[0].start, cut.gap[-1].end
    return MapPlan(
        roads=y.roads,
        path=cut.path,
        spans=cut.spans,
        junctions=[y.box],
        crossed=((cut.entry_s, cut.exit_s),),
        limit=HIGHWAY_LIMIT,
        experimental=fit > FIT or apart < y.layout.lane_width,
        facts={
            "topology": topology,
            "lanes": lanes,
            "junction": {
                "centre": [round((middle[0][i] + middle[1][i]) / 2, 3) for i in (0, 1)],
                "entry_s": round(cut.entry_s, 3),
                "exit_s": round(cut.exit_s, 3),
                "control": "none",
                "arms": [],  # a Y has no crossing traffic: `mainline` is the flow
            },
            "flows": {},
            "mainline": points(flow),
            "mainline_fit_m": round(fit, 2),
        },
    )
