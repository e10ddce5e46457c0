"""Ground, markings, kerbs, crosswalks and signs of a Scenic network (duck-typed), computed once per route."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import shapely
from shapely.geometry import LineString, Point
from shapely.geometry.base import BaseGeometry

from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.embedded.camera.scenery import GroundArea, RoadMarking, TrafficControlDevice

CELL = 40.0  # m: ground is cut into squares, so that a frame draws only those in view
OVERLAP = 0.15  # m: overlap of the squares, against hairlines between them
STEP = 3.0  # m between points of a lane's edge at which its neighbour is determined


@dataclass(frozen=True)
class SurfaceGeometry:
    """Surfaces around the route, as shapely geometries. `window`: area around the route that is covered."""

    window: BaseGeometry
    asphalt: BaseGeometry  # lanes and junctions
    junctions: BaseGeometry
    shoulders: BaseGeometry
    bicycle: BaseGeometry
    sidewalks: BaseGeometry

    @property
    def paved(self) -> BaseGeometry:
        """Surfaces for vehicles."""
        return shapely.union_all([self.asphalt, self.shoulders, self.bicycle])

    @property
    def used(self) -> BaseGeometry:
        """Surfaces for vehicles and pedestrians."""
        return shapely.union(self.paved, self.sidewalks)

    def near(self, x: float, y: float) -> bool:
        return bool(shapely.intersects_xy(self.window, x, y))


def surface_geometry(network: Any, road: RoadMap, reach: float) -> SurfaceGeometry:
    """Unions of the network's polygons within `reach` of the route; small gaps between lanes are closed."""
    window = LineString([*road.path.xy[::10].tolist(), road.path.xy[-1].tolist()]).buffer(reach)
    roads = list(network.roads) + list(getattr(network, "connectingRoads", ()))
    junctions = _union(network.intersections, window)
    asphalt = shapely.union(_union(list(network.lanes) + roads, window), junctions)
    asphalt = asphalt.buffer(0.2, join_style="mitre").buffer(-0.2, join_style="mitre")
    shoulders = shapely.difference(_union(network.shoulders, window), asphalt)
    sidewalks = _union(network.sidewalks, window)
    # Bicycle lanes: the gaps of 1 to 2.4 m between the other surfaces, since Scenic's reader omits them.
    used = shapely.union_all([asphalt, shoulders, sidewalks])
    gaps = shapely.difference(used.buffer(1.2, join_style="mitre").buffer(-1.2, join_style="mitre"), used)
    wide = gaps.buffer(-0.5).buffer(0.5)
    bicycle = shapely.union_all([p.buffer(0.1) for p in polygons(wide) if p.area > 15.0])
    if not sidewalks.is_empty:  # towns have no sidewalk at the corners of junctions
        used = shapely.union_all([asphalt, shoulders, bicycle, sidewalks])
        corner = shapely.intersection(used.buffer(6.0).buffer(-6.0), sidewalks.buffer(14.0))
        sidewalks = shapely.union(sidewalks, corner)
    sidewalks = shapely.difference(sidewalks, shapely.union_all([asphalt, shoulders, bicycle]).buffer(0.05))
    return SurfaceGeometry(
        window=window, asphalt=asphalt, junctions=junctions, shoulders=shoulders, bicycle=bicycle, sidewalks=sidewalks
    )


def _union(elements: Iterable[Any], window: BaseGeometry) -> BaseGeometry:
    shapes = [e.polygon for e in elements if e.polygon.intersects(window)]
    shapes = [s if s.is_valid else s.buffer(0) for s in shapes]
    return shapely.intersection(shapely.union_all(shapes), window).simplify(0.02)


def polygons(shape: BaseGeometry) -> list[Any]:
    """The polygons of a geometry of any type."""
    return [p for p in shapely.get_parts(shape) if p.geom_type == "Polygon" and p.area > 0.02]


def outlines(shape: Any) -> list[np.ndarray]:
    """Closed rings (n, 2) of a polygon, with its interior on the left."""
    turned = shapely.orient_polygons(shape)
    return [shapely.get_coordinates(ring) for ring in (turned.exterior, *turned.interiors)]


def areas_of(surfaces: SurfaceGeometry) -> tuple[GroundArea, ...]:
    """Ground in drawing order: sidewalks, shoulders, asphalt; cut into overlapping squares."""
    names, s = ("sidewalk", "bicycle", "shoulder", "asphalt"), surfaces
    shapes = zip(names, (s.sidewalks, s.bicycle, s.shoulders, s.asphalt), strict=True)
    return tuple(GroundArea(name, rings) for name, shape in shapes for rings in _cut_into_squares(shape))


def _cut_into_squares(shape: BaseGeometry) -> list[tuple[np.ndarray, ...]]:
    if shape.is_empty:
        return []
    x0, y0, x1, y1 = shape.bounds
    xs, ys = np.meshgrid(np.arange(math.floor(x0 / CELL), x1 / CELL), np.arange(math.floor(y0 / CELL), y1 / CELL))
    xs, ys = xs.ravel() * CELL, ys.ravel() * CELL
    squares = shapely.box(xs - OVERLAP, ys - OVERLAP, xs + CELL + OVERLAP, ys + CELL + OVERLAP)
    shapely.prepare(shape)
    squares = squares[shapely.intersects(shape, squares)]
    pieces = shapely.intersection(shape, squares)
    return [
        tuple(np.asarray(ring.coords)[:-1, :2] for ring in (p.exterior, *p.interiors))
        for piece in pieces
        for p in polygons(piece)
    ]


def markings_of(network: Any, surfaces: SurfaceGeometry) -> tuple[RoadMarking, ...]:
    """Lane edges by their neighbour: dashed white for the same direction, yellow for oncoming, else solid white."""
    lanes = [x for road in network.roads for x in road.lanes if x.polygon.intersects(surfaces.window)]
    if not lanes:
        return ()
    tree = shapely.STRtree([x.polygon for x in lanes])
    found: list[RoadMarking] = []
    for lane in lanes:
        for edge, side in ((lane.leftEdge, 1.0), (lane.rightEdge, -1.0)):
            points = resample(np.array([p[:2] for p in edge.points], dtype=float), STEP)
            found += _edge(lane, points, side, lanes, tree, surfaces)
    return tuple(found)


def _edge(
    lane: Any, points: np.ndarray, side: float, lanes: list[Any], tree: Any, surfaces: SurfaceGeometry
) -> list[RoadMarking]:
    along = np.diff(points, axis=0)
    length = np.hypot(*along.T)
    normal = side * np.column_stack([-along[:, 1], along[:, 0]]) / np.maximum(length, 1e-9)[:, None]
    middle = (points[:-1] + points[1:]) / 2
    beyond = middle + 0.6 * normal
    neighbour = np.full(len(middle), "out", dtype=object)
    which, other = tree.query(shapely.points(beyond), predicate="intersects")
    for i, k in zip(which.tolist(), other.tolist(), strict=True):
        if lanes[k] is not lane:
            neighbour[i] = "same" if lanes[k].group is lane.group else "oncoming"
    neighbour[shapely.intersects_xy(surfaces.junctions, middle[:, 0], middle[:, 1])] = "none"
    many = max(len(g.lanes) for g in lane.road.laneGroups) > 1
    cuts = [0, *(np.flatnonzero(neighbour[1:] != neighbour[:-1]) + 1).tolist(), len(neighbour)]
    found = (_line(str(neighbour[a]), points[a : b + 1], side, many) for a, b in pairwise(cuts))  # equal neighbours
    return [marking for marking in found if marking is not None]


def _line(kind: str, points: np.ndarray, side: float, many: bool) -> RoadMarking | None:
    """None if the neighbouring lane draws it, or nothing is painted."""
    if kind == "out":
        return RoadMarking(points, "white", "solid")
    if kind == "same" and side > 0:
        return RoadMarking(points, "white", "dashed")
    (x0, y0), (x1, y1) = points[0], points[-1]
    first = x0 < x1 - 0.5 or (abs(x0 - x1) <= 0.5 and y0 < y1)  # of a line and its reverse: both directions have it
    if kind == "oncoming" and side > 0 and first:
        return RoadMarking(points, "yellow", "double" if many else "dashed")
    return None


def resample(points: np.ndarray, step: float) -> np.ndarray:
    """Resample a polyline to a point about every `step` metres."""
    gaps = np.hypot(*np.diff(points, axis=0).T)
    along = np.r_[0.0, np.cumsum(gaps)]
    if along[-1] < 1e-6:
        return points[:1].repeat(2, axis=0)
    s = np.linspace(0.0, along[-1], max(2, math.ceil(along[-1] / step) + 1))
    return np.column_stack([np.interp(s, along, points[:, i]) for i in (0, 1)])


def kerbs_of(surfaces: SurfaceGeometry) -> np.ndarray:
    """(n, 4) x0 y0 x1 y1 of sidewalk edges next to a road; the sidewalk is on the left."""
    near = surfaces.paved.buffer(0.6)
    shapely.prepare(near)
    rows = []
    for shape in polygons(surfaces.sidewalks):
        for line in outlines(shape):
            p = np.concatenate([resample(line[i : i + 2], 8.0)[:-1] for i in range(len(line) - 1)] + [line[-1:]])
            middle = (p[:-1] + p[1:]) / 2
            keep = shapely.intersects_xy(near, middle[:, 0], middle[:, 1])
            rows.append(np.column_stack([p[:-1], p[1:]])[keep])
    return np.concatenate(rows) if rows else np.zeros((0, 4))


def behind(line: StopLine, metres: float) -> tuple[float, float, float]:
    """(x, y, yaw) `metres` before a stop line, in the direction of its traffic."""
    return line.x - metres * math.cos(line.yaw), line.y - metres * math.sin(line.yaw), line.yaw


def distance_to_edge(shape: BaseGeometry, x: float, y: float, yaw: float, reach: float = 25.0) -> float:
    """Metres from (x, y) perpendicularly to the right of `yaw` until `shape` ends; at most `reach`."""
    s = np.arange(0.0, reach, 0.25)
    inside = shapely.intersects_xy(shape, x + s * math.sin(yaw), y - s * math.cos(yaw))
    out = np.flatnonzero(~inside)
    return float(s[out[0]]) if len(out) else reach


def crosswalks_of(surfaces: SurfaceGeometry, lines: list[StopLine]) -> np.ndarray:
    """(n, 5) a striped crosswalk 2.3 m beyond each signal's stop line, across the whole road."""
    rows = []
    for line in lines:
        x, y, yaw = behind(line, -2.3)
        right = min(distance_to_edge(surfaces.paved, x, y, yaw, 12.0), line.width / 2 + 3.0)
        left = min(distance_to_edge(surfaces.paved, x, y, yaw + math.pi, 12.0), line.width / 2 + 8.0)
        shift = (right - left) / 2
        rows.append((x + shift * math.sin(yaw), y - shift * math.cos(yaw), yaw, right + left, 2.6))
    kept: list[tuple[float, ...]] = []
    for row in rows:  # two approaches of one arm would overlap
        if all(math.hypot(row[0] - k[0], row[1] - k[1]) > 4.0 for k in kept):
            kept.append(row)
    return np.array(kept).reshape(-1, 5)


def signs_of(surfaces: SurfaceGeometry, road: RoadMap) -> tuple[TrafficControlDevice, ...]:
    """A pole to the right of every stop line; a signal has a second head on an arm beyond the junction.

    The far head is for an ego that waits at the line, for which the near one is outside the picture.
    """
    paved = surfaces.paved
    shapely.prepare(paved)
    signs: list[TrafficControlDevice] = []
    for line in road.stop_lines:
        if not surfaces.near(line.x, line.y):
            continue
        x, y, yaw = behind(line, 0.3)
        out = max(distance_to_edge(paved, x, y, yaw), line.width / 2) + 0.8
        foot = x + out * math.sin(yaw), y - out * math.cos(yaw)
        if line.control != "signal":
            signs.append(TrafficControlDevice(line.control, line.id, *foot, yaw, 2.2))
            continue
        signs.append(TrafficControlDevice("signal", line.id, *foot, yaw, 3.0))
        signs.append(_far_signal(surfaces, paved, line))
    return tuple(signs)


def _far_signal(surfaces: SurfaceGeometry, paved: BaseGeometry, line: StopLine) -> TrafficControlDevice:
    """The second head of a signal, on an arm over the lane beyond the junction that begins at the line."""
    across = 20.0
    start = Point(*behind(line, -3.0)[:2])
    for shape in polygons(surfaces.junctions):
        if shape.distance(start) < 3.0:
            end = behind(line, -60.0)[:2]
            across = shape.intersection(LineString([(line.x, line.y), end])).length + 2.5
            break
    x, y, yaw = behind(line, -min(max(across, 14.0), 34.0))
    out = min(distance_to_edge(paved, x, y, yaw, 16.0) + 0.8, 16.0)
    foot = x + out * math.sin(yaw), y - out * math.cos(yaw)
    return TrafficControlDevice("signal", line.id, *foot, yaw, height=5.4, arm=out - 0.6)
