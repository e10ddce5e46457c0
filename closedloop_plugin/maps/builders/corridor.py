"""corridor: a map with one road along the route; its reference line is the centre of the ego's lane.

Method and accuracy: docs/closed-loop.md. All other lanes are invented from the RoadLayout.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.builders.chains import bridged, is_sparse, keypoint_chain, lane_jumps, runs
from closedloop_plugin.maps.curves import Chain, CurveSegment, length, sample
from closedloop_plugin.maps.opendrive import OpenDriveLane, OpenDriveLink, OpenDriveRoad, lanes_within
from closedloop_plugin.maps.plan import MapPlan, after, before, driving, eased, verge

CHANGE = 20.0  # m of a lane change on the path; in route files it takes at most 6 m
Change = tuple[float, float, int]


def corridor(route: Route, layout: RoadLayout, sidewalk: bool = True) -> MapPlan:
    """The route's road with the layout's lanes, and with those into which the route changes."""
    if layout.parking and route.params.get("direction") == "left":
        # A car from the left parking lane must reach the ego without crossing oncoming traffic: a one-way road.
        layout = replace(layout, oncoming=0, left=0)
    width = layout.lane_width
    jumps: list[tuple[np.ndarray, int]] = []
    if is_sparse(route):
        chain, spans = keypoint_chain(route)
    else:
        parts, jumps = _base(runs(route), width)
        chain, spans = bridged(parts, route.trigger)
    changes = _changes(chain, jumps)
    steps = np.cumsum([0, *(side for _, _, side in changes)])
    left, right = max(layout.left, int(steps.max())), max(layout.right, -int(steps.min()))
    road = road_along((*before(chain), *chain, *after(chain)), left, right, layout, sidewalk)
    roads = in_series(road, left + 1) if is_sparse(route) or meets_itself(road) else [road]
    path = _path(chain, changes, width)
    longer = RoutePath(path).length / length(chain)  # lane changes make the path slightly longer than the road
    return MapPlan(
        roads=roads,
        path=path,
        spans=[(a * longer, b * longer, kind) for a, b, kind in spans],
        changes=tuple((a * longer, b * longer, side) for a, b, side in changes),
        facts={"topology": "corridor", "lanes": {"left": left, "right": right, "oncoming": layout.oncoming}},
    )


def road_along(chain: Chain, left: int, right: int, layout: RoadLayout, sidewalk: bool, id_: int = 1) -> OpenDriveRoad:
    """A road whose reference line is the centre of the ego's lane, with `left` and `right` further lanes."""
    width, oncoming = layout.lane_width, layout.oncoming
    # With one lane in each direction overtaking must be legal, so the yellow line is broken.
    middle = ("solid", "white") if not oncoming else ("broken", "yellow") if not left else ("solid solid", "yellow")
    beyond = verge(layout, "left", sidewalk)
    return OpenDriveRoad(
        id=id_,
        chain=chain,
        right=driving(left + 1 + right, width, verge(layout, "right", sidewalk)),
        left=driving(oncoming, width, beyond) if oncoming else beyond,
        offset=width * (left + 0.5),
        middle=middle,
    )


def _base(parts: list[np.ndarray], width: float) -> tuple[list[np.ndarray], list[tuple[np.ndarray, int]]]:
    """The points shifted back into the ego's first lane, and (place, side) of each lane change."""
    lanes = 0
    out, found = [], []
    for p in parts:
        jumps = lane_jumps(p, width) if len(p) > 3 else {}
        if not jumps and not lanes:
            out.append(p)
            continue
        heading = np.arctan2(*np.diff(p, axis=0).T[::-1])
        for i in jumps:
            heading[i] = heading[i - 1] + 0.5 * wrap(float(heading[i + 1] - heading[i - 1]))
        shift = np.zeros(len(p))
        for i in range(len(p)):
            shift[i] = lanes
            lanes += jumps.get(i, 0)
        # p + d n, with the left normal n = (-sin yaw, cos yaw) and d = -width for each lane changed so far.
        yaw = np.r_[heading, heading[-1]]
        base = p - (shift * width)[:, None] * np.column_stack([-np.sin(yaw), np.cos(yaw)])
        found += [(0.5 * (base[i] + base[i + 1]), side) for i, side in jumps.items()]
        out.append(base)
    return out, found


def _changes(chain: Chain, jumps: list[tuple[np.ndarray, int]]) -> tuple[Change, ...]:
    if not jumps:
        return ()
    path = RoutePath(sample(chain))
    at = [path.locate(float(p[0]), float(p[1]))[0] for p, _ in jumps]
    room = min([CHANGE, *np.diff(at)])
    return tuple(
        (max(0.0, s - room / 2), min(path.length, s + room / 2), side) for s, (_, side) in zip(at, jumps, strict=True)
    )


def _path(chain: Chain, changes: tuple[Change, ...], width: float) -> np.ndarray:
    poses = sample(chain)
    if not changes:
        return poses[:, :2]
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(poses[:, :2], axis=0).T))]
    d = sum(side * width * eased((s - a) / (b - a)) for a, b, side in changes)
    return poses[:, :2] + np.asarray(d)[:, None] * np.column_stack([-np.sin(poses[:, 2]), np.cos(poses[:, 2])])


# A long road becomes several in series: Scenic reads no road whose lanes meet themselves, or with too tight a bend.
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
