"""The static scenery around a route, from a Scenic network (duck-typed) and a RoadMap. Needs shapely."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.embedded.camera import network_features
from closedloop_plugin.worlds.embedded.camera.network_features import SurfaceGeometry, outlines, polygons, resample
from closedloop_plugin.worlds.embedded.camera.scenery import StaticScenery, TrafficControlDevice, corners

BEFORE_JUNCTION_M, ON_M = 8.0, 35.0  # m: a contradictory plate before a junction, or beyond the trigger point
PLATE_HEIGHT_M = 2.2
REACH = 230.0  # m around the route: view distance, and an episode ends 30 m off the route


def scenery_of(network: Any, road: RoadMap, seed: int, plate: str = "", trigger_s: float = 0.0) -> StaticScenery:
    """The static scenery around a route, deterministic in its arguments.

    `network` needs: lanes (polygon, leftEdge, rightEdge, group), roads (lanes), shoulders, sidewalks, intersections.
    plate: one that contradicts the road, its kind as in TrafficControlDevice; trigger_s: m along the route.
    """
    surfaces = network_features.surface_geometry(network, road, REACH)
    signs = network_features.signs_of(surfaces, road)
    if plate:
        signs += (_plate(surfaces, road, plate, trigger_s),)
    urban = 1.0 if road.speed_limit < 20.0 else 0.3
    occupied = np.array([[s.x, s.y] for s in signs]).reshape(-1, 2)
    lines = [line for line in road.stop_lines if surfaces.near(line.x, line.y)]
    controls = {c: [x for x in lines if x.control == c] for c in ("signal", "stop", "yield")}
    houses = buildings(surfaces, urban, seed)
    return StaticScenery(
        areas=network_features.areas_of(surfaces),
        markings=network_features.markings_of(network, surfaces),
        kerbs=network_features.kerbs_of(surfaces),
        crosswalks=network_features.crosswalks_of(surfaces, controls["signal"]),
        stop_lines=_poses(controls["signal"] + controls["stop"]),
        words=np.array([network_features.behind(x, 4.0) for x in controls["stop"]]).reshape(-1, 3),
        teeth=_poses(controls["yield"]),
        buildings=houses,
        trees=trees(surfaces, urban, seed, occupied, houses),
        lamps=lamps(surfaces, urban, occupied, houses),
        signs=signs,
        urban=urban,
    )


def _plate(surfaces: SurfaceGeometry, road: RoadMap, kind: str, trigger_s: float) -> TrafficControlDevice:
    """The plate at the right edge of the road: before the ego's junction, else behind the trigger point."""
    entry = road.junctions[0][0] if road.junctions else None
    s = entry - BEFORE_JUNCTION_M if entry is not None and entry > BEFORE_JUNCTION_M + 8.0 else trigger_s + ON_M
    x, y, yaw = road.path.pose(s)
    right = network_features.distance_to_edge(surfaces.paved, x, y, yaw) + 0.8
    return TrafficControlDevice(kind, "", x + right * math.sin(yaw), y - right * math.cos(yaw), yaw, PLATE_HEIGHT_M)


def _poses(lines: list[Any]) -> np.ndarray:
    return np.array([[s.x, s.y, s.yaw, s.width] for s in lines]).reshape(-1, 4)


# Random placement (seeded) of buildings, trees and lamp posts beside the road, off surfaces that are in use.

CLEAR = 3.0  # m between drivable ground and placed objects
WALLS = (
    (178, 120, 98),
    (202, 186, 160),
    (160, 150, 142),
    (214, 206, 196),
    (150, 104, 84),
    (186, 168, 132),
    (134, 142, 152),
    (196, 150, 120),
    (120, 112, 108),
    (222, 214, 180),
)


def _kerbside(surfaces: SurfaceGeometry, used: BaseGeometry, offset: float, step: float) -> np.ndarray:
    """(n, 3) x, y, outward yaw, every `step` metres along the outline of `used` enlarged by `offset` metres."""
    rows = []
    for shape in polygons(used.buffer(offset, quad_segs=3)):
        for line in outlines(shape):  # the ground is on the left, so the outside is on the right
            p = resample(line, step)
            d = np.diff(p, axis=0)
            rows.append(np.column_stack([(p[:-1] + p[1:]) / 2, np.arctan2(-d[:, 0], d[:, 1])]))
    found = np.concatenate(rows) if rows else np.zeros((0, 3))
    edge = surfaces.window.buffer(-2 * offset - 2)
    return found[shapely.intersects_xy(edge, found[:, 0], found[:, 1])]


def _keep_clear(surfaces: SurfaceGeometry, metres: float) -> BaseGeometry:
    shape = shapely.union(surfaces.paved.buffer(max(CLEAR, metres)), surfaces.sidewalks.buffer(metres))
    shapely.prepare(shape)
    return shape


def buildings(surfaces: SurfaceGeometry, urban: float, seed: int) -> np.ndarray:
    """(n, 9) buildings facing the road, as StaticScenery.buildings; fewer for a small `urban`."""
    rng = np.random.default_rng([seed, 1])
    places = _kerbside(surfaces, surfaces.used, 4.5, 9.0)
    clear = _keep_clear(surfaces, 2.0)
    rows: list[tuple[float, ...]] = []
    boxes: list[BaseGeometry] = []
    grid: dict[tuple[int, int], list[int]] = {}
    for x, y, out in places.tolist():
        front, deep, floors = rng.uniform(9, 19), rng.uniform(9, 14), rng.integers(2, 7)
        wall, gap, skip = rng.integers(len(WALLS)), rng.uniform(0, 3), rng.random()
        if skip > 0.15 + 0.75 * urban:
            continue
        far = deep / 2 + gap
        cx, cy = x + far * math.cos(out), y + far * math.sin(out)
        box = shapely.Polygon(corners(cx, cy, out, deep, front))
        cell = int(cx // 40), int(cy // 40)
        near = [i for a in (-1, 0, 1) for b in (-1, 0, 1) for i in grid.get((cell[0] + a, cell[1] + b), ())]
        if clear.intersects(box) or any(boxes[i].intersects(box) for i in near):
            continue
        grid.setdefault(cell, []).append(len(boxes))
        boxes.append(box)
        rows.append((cx, cy, out, deep, front, floors * 3.2 + 0.8, *WALLS[wall]))
    return np.array(rows).reshape(-1, 9)


def trees(surfaces: SurfaceGeometry, urban: float, seed: int, occupied: np.ndarray, houses: np.ndarray) -> np.ndarray:
    """(n, 4) x, y, height, crown radius: a row beside the road, and more of them for a small `urban`."""
    rng = np.random.default_rng([seed, 2])
    rows = [
        _tree_row(rng, p, 3.6) for p in _kerbside(surfaces, surfaces.used, 3.4, 11.0).tolist() if rng.random() < 0.5
    ]
    if urban < 0.9:
        rows += [
            _tree_row(rng, p, 6.0) for p in _kerbside(surfaces, surfaces.used, 12.0, 7.0).tolist() if rng.random() < 0.8
        ]
    found = np.array(rows).reshape(-1, 4)
    clear = _keep_clear(surfaces, 1.0)
    found = found[~shapely.intersects_xy(clear, found[:, 0], found[:, 1]) & ~within(found, houses, 1.5)]
    return found[_far_from(found, occupied, 6.0)]


def _tree_row(rng: np.random.Generator, place: list[float], spread: float) -> tuple[float, float, float, float]:
    height = rng.uniform(4.5, 8.5)
    off = rng.uniform(0.0, spread - 3.0)
    x, y = place[0] + off * math.cos(place[2]), place[1] + off * math.sin(place[2])
    return x, y, height, height * rng.uniform(0.24, 0.34)


def lamps(surfaces: SurfaceGeometry, urban: float, occupied: np.ndarray, houses: np.ndarray) -> np.ndarray:
    """(n, 3) x, y, yaw of the arm: lamp posts every 28 m; none on country roads."""
    if urban < 0.5:
        return np.zeros((0, 3))
    places = _kerbside(surfaces, surfaces.paved, CLEAR + 0.1, 28.0)
    places[:, 2] += math.pi
    clear = surfaces.paved.buffer(CLEAR)
    places = places[~shapely.intersects_xy(clear, places[:, 0], places[:, 1])]
    return places[_far_from(places, occupied, 3.0) & ~within(places, houses, 0.5)]


def within(rows: np.ndarray, houses: np.ndarray, margin: float) -> np.ndarray:
    """(n,) whether a position is inside one of the buildings enlarged by `margin` m."""
    dx, dy = rows[:, None, 0] - houses[None, :, 0], rows[:, None, 1] - houses[None, :, 1]
    c, s = np.cos(houses[:, 2]), np.sin(houses[:, 2])
    inside = np.abs(dx * c + dy * s) < houses[:, 3] / 2 + margin
    return (inside & (np.abs(-dx * s + dy * c) < houses[:, 4] / 2 + margin)).any(axis=1)


def _far_from(rows: np.ndarray, occupied: np.ndarray, metres: float) -> np.ndarray:
    if not len(occupied):
        return np.ones(len(rows), bool)
    gap = np.hypot(rows[:, None, 0] - occupied[None, :, 0], rows[:, None, 1] - occupied[None, :, 1])
    return gap.min(axis=1) > metres
