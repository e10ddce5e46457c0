"""A long road as several in series: Scenic reads no road whose lanes meet themselves, or with too tight a bend."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from closedloop_plugin.maps.curves import Chain, CurveSegment, length
from closedloop_plugin.maps.opendrive import OpenDriveLane, OpenDriveLink, OpenDriveRoad, lanes_within

TURN = math.radians(90)  # range of directions within one road, at most: such a road cannot meet itself
PART = math.radians(45)  # change of direction of one part of an arc, at most
TIGHT_M = 14.0  # a bend of a smaller radius is a road of its own, with the lanes that have room in it
SHORTEST_M = 4.0
FOLD = 0.8  # width of the lanes on the inner side of a bend, as a share of its radius, at most, in one road
SPARE_M = 0.5  # between the edge of the outermost lane and the centre of the bend


def meets_itself(road: OpenDriveRoad) -> bool:
    """Whether the road may meet itself: it turns by more than half a circle, or its lanes fold in a bend."""
    inner = {1: sum(lane.width for lane in road.left) + road.offset, -1: sum(x.width for x in road.right) - road.offset}
    yaws = list(itertools.accumulate((s.curvature * s.length for s in road.chain), initial=0.0))
    folds = any(abs(s.curvature) * inner[1 if s.curvature > 0 else -1] > FOLD for s in road.chain)
    return folds or max(yaws) - min(yaws) > math.pi


def in_series(road: OpenDriveRoad, own: int) -> list[OpenDriveRoad]:
    """The road in parts, linked lane by lane. own: number of the right lanes up to the ego's, which all parts have.

    Raises ValueError for a bend in which even these have no room.
    """
    parts = [_fitting(replace(road, id=n, chain=chain), own) for n, chain in enumerate(_parts(road.chain), 1)]
    for n, part in enumerate(parts):
        before, after = parts[n - 1] if n else None, parts[n + 1] if n + 1 < len(parts) else None
        part.before = OpenDriveLink("road", before.id, "end") if before else None
        part.after = OpenDriveLink("road", after.id, "start") if after else None
        part.right = _linked(part.right, before.right if before else None, after.right if after else None, -1)
        part.left = _linked(part.left, before.left if before else None, after.left if after else None, 1)
    return parts


def _parts(chain: Chain) -> Iterator[Chain]:
    part: list[CurveSegment] = []
    yaw = lowest = highest = chain[0].yaw
    for segment in _short_arcs(chain):
        turned = yaw + segment.curvature * segment.length
        low, high = min(lowest, turned), max(highest, turned)
        changes = part and _is_tight(segment) != _is_tight(part[-1]) and min(length(part), segment.length) > SHORTEST_M
        if part and (changes or high - low > TURN):
            yield tuple(part)
            part, low, high = [], min(yaw, turned), max(yaw, turned)
        part.append(segment)
        lowest, highest, yaw = low, high, turned
    yield tuple(part)


def _short_arcs(chain: Sequence[CurveSegment]) -> Iterator[CurveSegment]:
    for segment in chain:
        n = max(1, math.ceil(abs(segment.curvature) * segment.length / PART))
        size = segment.length / n
        yield from (CurveSegment(*segment.at(k * size), size, segment.curvature) for k in range(n))


def _is_tight(segment: CurveSegment) -> bool:
    return abs(segment.curvature) > 1 / TIGHT_M


def _fitting(road: OpenDriveRoad, own: int) -> OpenDriveRoad:
    """The road with the lanes, from the inside out, that have room on the inner side of its tightest bends."""
    room = {side: min([1 / (side * s.curvature) for s in road.chain if side * s.curvature > 1e-3], default=math.inf)
            for side in (1, -1)}  # fmt: skip
    left = lanes_within(road.left, room[1] - SPARE_M - road.offset)
    right = lanes_within(road.right, room[-1] - SPARE_M + road.offset)
    if len(right) < own or room[1] < SPARE_M + road.offset:
        raise ValueError(f"a bend of {min(room.values()):.1f} m radius has no room for the lanes")
    return replace(road, left=left, right=right)


Lanes = Sequence[OpenDriveLane]


def _linked(lanes: Lanes, before: Lanes | None, after: Lanes | None, sign: int) -> list[OpenDriveLane]:
    """The lanes with links to those of the same number in the roads before and after, if these have them."""

    def link(other: Sequence[OpenDriveLane] | None, i: int) -> int | None:
        return sign * (i + 1) if other and i < len(other) else None

    return [replace(lane, before=link(before, i), after=link(after, i)) for i, lane in enumerate(lanes)]
