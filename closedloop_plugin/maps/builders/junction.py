"""junction: a map with a 3- or 4-arm junction placed on the gap of the route.

The centre is the intersection of the dividers of entry and exit; the arms are entry, exit and their straight
continuations. The ego's connection is the path through the gap, whose ends are the mouths of entry and exit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.builders.chains import TURN, RouteSplit
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
    seen_from,
    split,
    turned,
)
from closedloop_plugin.maps.opendrive import (
    BOX_ID,
    OpenDriveConnection,
    OpenDriveJunction,
    OpenDriveLane,
    OpenDriveLink,
    OpenDriveRoad,
    OpenDriveSign,
    lanes_within,
)
from closedloop_plugin.maps.plan import BEYOND, BICYCLE, BUFFER, MapPlan, after, before, driving, verge


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


# Parts of a junction. Lanes of each direction are counted from the divider outwards, from 0.
REACH = 60.0  # m of each arm that a flow runs along


@dataclass(frozen=True)
class JunctionArm:
    """One arm. `mouth`: end of the divider at the junction, pose outwards. `outward`: the divider from there."""

    name: str  # entry | exit | left | right | ahead, as seen by the arriving ego
    road: int
    mouth: Pose
    outward: Chain
    n_in: int
    n_out: int
    width: float
    leads_in: bool = False  # the reference line of its road runs towards the junction (entry)

    def side(self, lane: int, inward: bool) -> float:
        """Metres from the divider to the centre of a lane, to the left of the outward direction."""
        return (lane + 0.5) * self.width * (1 if inward else -1)

    def lane_in(self, lane: int) -> Pose:
        return turned(aside(self.mouth, self.side(lane, True)))

    def lane_out(self, lane: int) -> Pose:
        return aside(self.mouth, self.side(lane, False))

    def id_in(self, lane: int) -> int:
        return -(lane + 1) if self.leads_in else lane + 1

    def id_out(self, lane: int) -> int:
        return lane + 1 if self.leads_in else -(lane + 1)

    @property
    def contact(self) -> str:
        return "end" if self.leads_in else "start"

    def along(self, left: float, reach: float = REACH) -> Chain:
        """The first `reach` metres of the divider from the mouth outwards, shifted by `left` metres."""
        return parallel(split(self.outward, min(reach, length(self.outward)))[0], left)


@dataclass(frozen=True)
class ConnectingLane:
    """A lane through the junction, from a lane of one arm to one of another."""

    start: JunctionArm
    lane_in: int
    end: JunctionArm
    lane_out: int
    chain: Chain

    def flow(self) -> list[list[float]]:
        """Centre line from REACH before to REACH after the junction, [[x, y], ...] about 1 m apart."""
        come = reverse(self.start.along(self.start.side(self.lane_in, True)))
        go = self.end.along(self.end.side(self.lane_out, False))
        return points((*come, *self.chain, *go))


def turn(start: JunctionArm, end: JunctionArm) -> float:
    """Change of direction from one arm to another, radians, left > 0."""
    return wrap(end.mouth[2] - start.mouth[2] - math.pi)


def connecting_lanes(arms: list[JunctionArm]) -> list[ConnectingLane]:
    """Each arm to each other: left turns from the innermost lane, right turns from the outermost, straight from all."""
    found = []
    for a in arms:
        for b in arms:
            if a is b or not a.n_in or not b.n_out:
                continue
            angle = math.degrees(turn(a, b))
            if angle > 30:
                pairs = [(0, 0)]
            elif angle < -30:
                pairs = [(a.n_in - 1, b.n_out - 1)]
            else:
                pairs = [(i, i) for i in range(min(a.n_in, b.n_out))]
            found += [ConnectingLane(a, i, b, k, join(a.lane_in(i), b.lane_out(k))) for i, k in pairs]
    return found


def follows_edge(way: ConnectingLane, arms: list[JunctionArm]) -> bool:
    """Whether a lane is at the edge of the junction: from the outermost lane of an arm to the next arm on its right."""
    outermost = way.lane_in == way.start.n_in - 1 and way.lane_out == way.end.n_out - 1
    ring = sorted(arms, key=lambda arm: wrap(arm.mouth[2]))
    return outermost and ring[(ring.index(way.start) + 1) % len(ring)] is way.end


def fitting_edge(chain: Chain, lane: float, edge: list[OpenDriveLane]) -> list[OpenDriveLane]:
    """The lanes of the edge that fit inside the tightest right bend of the chain."""
    # Space between the lane's edge and the centre of the circle: r - width / 2, with 1 m to spare.
    room = min([1 / -s.curvature for s in chain if s.curvature < -1e-3], default=1e6) - lane / 2 - 1.0
    return lanes_within(edge, room)


def connecting_road(
    way: ConnectingLane, id_: int, junction: int, edge: list[OpenDriveLane], obeys: list[int]
) -> tuple[OpenDriveRoad, OpenDriveConnection]:
    """The one-lane road of a connecting lane, and its connection in the junction."""
    width = way.start.width
    before, after = way.start.id_in(way.lane_in), way.end.id_out(way.lane_out)
    edge = fitting_edge(way.chain, width, edge)
    road = OpenDriveRoad(
        id=id_,
        chain=way.chain,
        right=[OpenDriveLane("driving", width, "solid" if edge else "none", before, after), *edge],
        offset=width / 2,
        junction=junction,
        before=OpenDriveLink("road", way.start.road, way.start.contact),
        after=OpenDriveLink("road", way.end.road, way.end.contact),
        obeys=obeys,
    )
    return road, OpenDriveConnection(way.start.road, id_, ((before, -1),))
