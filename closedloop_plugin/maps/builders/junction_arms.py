"""Parts of a junction: arms, and the one-lane roads that connect them.

Lanes of each direction are counted from the divider outwards, from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.maps.curves import Chain, Pose, aside, join, length, parallel, points, reverse, split, turned
from closedloop_plugin.maps.opendrive import (
    OpenDriveConnection,
    OpenDriveLane,
    OpenDriveLink,
    OpenDriveRoad,
    lanes_within,
)

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
