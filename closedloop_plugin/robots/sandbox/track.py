"""The sandbox track: a closed lane between yellow lines on 4 x 3 m, ten route segments, obstacles.

Frame: metres from the floor's lower left corner, x right, y up, yaw in radians counter-clockwise; driven
counter-clockwise. The paper shows its sandbox in one photograph without dimensions: the number of segments is the
paper's, size and geometry are ours. The smallest radius is 0.58 m; LIMO's Ackermann mode can turn at 0.46 m, which
leaves a margin for corrections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import shapely
from shapely import Polygon

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.path import RoutePath

SIZE = (4.0, 3.0)  # m
HALF_WIDTH = 0.22  # m, from the middle of the lane to the middle of a yellow line
LINE_WIDTH = 0.03  # m
STEP = 0.01  # m between the points of a path
Corners = np.ndarray  # (n, 2), a convex polygon


@dataclass(frozen=True)
class Footprint:
    """The outline of a vehicle, m. `ahead`: distance of its middle ahead of the pose's reference point."""

    length: float
    width: float
    ahead: float = 0.0

    def corners(self, x: float, y: float, yaw: float) -> Corners:
        c, s = math.cos(yaw), math.sin(yaw)
        return _box(x + self.ahead * c, y + self.ahead * s, yaw, self.length, self.width)


@dataclass(frozen=True)
class TrackObstacle:
    """A box on the floor: (x, y) is the middle of its base; lengths in m, yaw in rad, colour RGB."""

    name: str
    x: float
    y: float
    yaw: float
    length: float
    width: float
    height: float
    colour: tuple[int, int, int]

    @property
    def corners(self) -> Corners:
        return _box(self.x, self.y, self.yaw, self.length, self.width)


@dataclass(frozen=True)
class TrackSegment:
    """A section of the lap that is driven and scored separately. `start`: initial pose x, y, yaw."""

    name: str
    geometry: str
    path: RoutePath
    start: tuple[float, float, float]


class SandboxTrack:
    """A track. `lap`: closed centre line of the lane; `left`, `right`: its yellow lines, closed, (n, 2)."""

    size = SIZE
    half_width = HALF_WIDTH

    def __init__(self, lap: RoutePath, cuts: list[tuple[float, str]], obstacles: tuple[TrackObstacle, ...]) -> None:
        """`cuts`: for each segment its end, metres along the lap, and a description."""
        self.lap, self.obstacles = lap, obstacles
        side = HALF_WIDTH * np.column_stack([-np.sin(lap.yaw), np.cos(lap.yaw)])
        self.left, self.right = lap.xy + side, lap.xy - side
        self._lane = Polygon(self.right, [self.left])  # driven counter-clockwise: the right line is the outer one
        shapely.prepare(self._lane)
        self._boxes = [(box.name, Polygon(box.corners)) for box in obstacles]
        starts = [0.0, *(s for s, _ in cuts[:-1])]
        self.segments = tuple(
            _segment(f"route{i}", geometry, lap, a, b)
            for i, (a, (b, geometry)) in enumerate(zip(starts, cuts, strict=True), 1)
        )

    def segment(self, name: str) -> TrackSegment:
        """The segment of that name; KeyError if there is none."""
        return {s.name: s for s in self.segments}[name]

    def contains(self, x: float, y: float, yaw: float, vehicle: Footprint) -> str:
        """ "inside", "hit obstacle:NAME", or "crossed line" if any part of the footprint is on or beyond a line."""
        outline = Polygon(vehicle.corners(x, y, yaw))
        hit = next((name for name, box in self._boxes if outline.intersects(box)), None)
        if hit is not None:
            return f"hit obstacle:{hit}"
        return "inside" if shapely.contains_properly(self._lane, outline) else "crossed line"

    def on_floor(self, x: float, y: float, yaw: float, vehicle: Footprint) -> bool:
        """Whether the footprint is within the sandbox's walls."""
        corners = vehicle.corners(x, y, yaw)
        return bool((corners > 0.0).all() and (corners < SIZE).all())


@cache
def sandbox() -> SandboxTrack:
    """The track of `--config course=sandbox`."""
    lap, arcs = _rounded(_OUTLINE)
    return SandboxTrack(lap, _cuts(arcs), _obstacles(lap, arcs))


# Corners of the centre line and their rounding radius, m: (x, y, radius). The lap begins where the last arc ends.
_OUTLINE = (
    (0.34, 0.32, 0.60),
    (1.75, 0.32, 1.50),
    (2.75, 0.72, 1.50),
    (3.66, 0.72, 0.62),
    (3.66, 2.68, 0.62),
    (2.69, 2.68, 0.58),
    (2.35, 2.08, 0.58),
    (1.65, 2.08, 0.58),
    (1.31, 2.68, 0.58),
    (0.34, 2.68, 0.61),
)


def _cuts(arcs: list[tuple[float, float]]) -> list[tuple[float, str]]:
    """`arcs`: begin and end of each corner's arc, metres along the lap."""
    return [
        (arcs[0][0], "straight"),
        (arcs[0][1], "sharp left bend"),
        (arcs[1][1], "gentle left bend"),
        (arcs[2][1], "gentle right bend"),
        (arcs[3][1], "left bend"),
        (arcs[4][0], "straight through a narrowing"),
        (arcs[4][1], "left bend past an obstacle"),
        (sum(arcs[6]) / 2, "S bend, left then right"),
        (arcs[7][1], "sharp right bend"),
        (arcs[9][1], "long left bend"),
    ]


def _obstacles(lap: RoutePath, arcs: list[tuple[float, float]]) -> tuple[TrackObstacle, ...]:
    """Two cones on the lines that leave 0.34 m; a box 2 cm outside the line; a house in the middle."""
    narrow, bend = (arcs[3][1] + arcs[4][0]) / 2, sum(arcs[4]) / 2
    orange, red = (226, 92, 34), (176, 58, 60)
    return (
        TrackObstacle("left cone", *lap.pose(narrow, HALF_WIDTH), length=0.10, width=0.10, height=0.16, colour=orange),
        TrackObstacle(
            "right cone", *lap.pose(narrow, -HALF_WIDTH), length=0.10, width=0.10, height=0.16, colour=orange
        ),
        TrackObstacle("box", *lap.pose(bend, -HALF_WIDTH - 0.13), length=0.26, width=0.22, height=0.20, colour=red),
        TrackObstacle("house", 1.35, 1.25, 0.2, length=0.60, width=0.40, height=0.30, colour=(92, 122, 158)),
    )


def _rounded(outline: tuple[tuple[float, float, float], ...]) -> tuple[RoutePath, list[tuple[float, float]]]:
    """The closed centre line, starting at the end of the last arc, and begin and end of each arc in m."""
    points: list[np.ndarray] = []
    arcs: list[tuple[float, float]] = []
    at, s = _arc(outline, len(outline) - 1)[-1], 0.0
    points.append(at)
    for i in range(len(outline)):
        arc = _arc(outline, i)
        begin = s + math.dist(at, arc[0])
        s = begin + float(np.hypot(*np.diff(arc, axis=0).T).sum())
        arcs.append((begin, s))
        points += list(arc)
        at = arc[-1]
    return RoutePath(np.array(points), STEP), arcs


def _arc(outline: tuple[tuple[float, float, float], ...], i: int) -> np.ndarray:
    """Points 2 mm apart along the arc that rounds corner i."""
    before, (x, y, radius), after = outline[i - 1], outline[i], outline[(i + 1) % len(outline)]
    start = math.atan2(y - before[1], x - before[0])
    turn = wrap(math.atan2(after[1] - y, after[0] - x) - start)
    lead = radius * math.tan(abs(turn) / 2)  # from the corner to the begin of its arc, r tan(turn / 2)
    side = math.copysign(radius, turn)
    x, y = x - lead * math.cos(start), y - lead * math.sin(start)
    yaw = start + np.linspace(0.0, turn, max(2, math.ceil(radius * abs(turn) / 0.002)))
    return np.column_stack([x + side * (np.sin(yaw) - math.sin(start)), y - side * (np.cos(yaw) - math.cos(start))])


def _segment(name: str, geometry: str, lap: RoutePath, begin: float, end: float) -> TrackSegment:
    count = max(2, math.ceil((end - begin) / STEP))
    path = RoutePath([lap.pose(float(s))[:2] for s in np.linspace(begin, end, count)], STEP)
    return TrackSegment(name, geometry, path, path.pose(0.0))


def _box(x: float, y: float, yaw: float, length: float, width: float) -> Corners:
    """Corners of a rectangle, counter-clockwise from the front left."""
    # Not core.boxes.corners: its sums are rounded in another order, and the last bit moves pixels of the floor picture.
    c, s = math.cos(yaw), math.sin(yaw)
    local = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)]) * (length / 2, width / 2)
    return local @ np.array([(c, s), (-s, c)]) + (x, y)
