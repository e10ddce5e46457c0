"""The parts of a junction: arms with numbered lanes, and the one-lane roads that connect them.

Lanes are counted from the divider outwards, 0 first, for each direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.maps.curves import Chain, Pose, aside, join, length, parallel, points, reverse, split, turned
from closedloop_plugin.maps.opendrive import OpenDriveConnection, OpenDriveLane, OpenDriveLink, OpenDriveRoad

REACH = 60.0  # m of each arm that a flow runs along


@dataclass(frozen=True)
class JunctionArm:
    """`mouth`: the divider's end at the junction, looking out. `outward`: the divider's line from there."""

    name: str  # entry | exit | left | right | ahead, as the ego comes
    road: int
    mouth: Pose
    outward: Chain
    n_in: int
    n_out: int
    width: float
    leads_in: bool = False  # its road's reference line runs into the junction: the entry's

    def side(self, lane: int, inward: bool) -> float:
        """Metres from the divider to the lane's middle, left of the outward direction."""
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
        """A line at `left` metres from the divider, from the mouth outwards, `reach` metres of it."""
        return parallel(split(self.outward, min(reach, length(self.outward)))[0], left)


@dataclass(frozen=True)
class ConnectingLane:
    """One connecting lane."""

    start: JunctionArm
    lane_in: int
    end: JunctionArm
    lane_out: int
    chain: Chain

    def flow(self) -> list[list[float]]:
        """The lane's middle from REACH before to REACH after the junction, [[x, y], ...] about 1 m apart."""
        come = reverse(self.start.along(self.start.side(self.lane_in, True)))
        go = self.end.along(self.end.side(self.lane_out, False))
        return points((*come, *self.chain, *go))


def turn(start: JunctionArm, end: JunctionArm) -> float:
    """Change of direction from one arm to another, radians, left > 0."""
    return wrap(end.mouth[2] - start.mouth[2] - math.pi)


def ways(arms: list[JunctionArm]) -> list[ConnectingLane]:
    """Every arm to every other: left from the inmost lane, right from the outmost, straight lane by lane."""
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


def hugging(way: ConnectingLane, arms: list[JunctionArm]) -> bool:
    """The way along the junction's edge: from an arm's outmost lane to the next arm on its right."""
    outmost = way.lane_in == way.start.n_in - 1 and way.lane_out == way.end.n_out - 1
    ring = sorted(arms, key=lambda arm: wrap(arm.mouth[2]))
    return outmost and ring[(ring.index(way.start) + 1) % len(ring)] is way.end


def fitting(chain: Chain, lane: float, edge: list[OpenDriveLane]) -> list[OpenDriveLane]:
    """As much of the edge as fits inside the chain's tightest right bend."""
    room = min([1 / -s.curvature for s in chain if s.curvature < -1e-3], default=1e6) - lane / 2 - 1.0
    kept: list[OpenDriveLane] = []
    for part in edge:
        room -= part.width
        if room < 0:
            break
        kept.append(part)
    return kept


def connecting(
    way: ConnectingLane, id_: int, junction: int, edge: list[OpenDriveLane], obeys: list[int]
) -> tuple[OpenDriveRoad, OpenDriveConnection]:
    """The way as a one-lane road, and its place in the junction."""
    width = way.start.width
    before, after = way.start.id_in(way.lane_in), way.end.id_out(way.lane_out)
    edge = fitting(way.chain, width, edge)
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
