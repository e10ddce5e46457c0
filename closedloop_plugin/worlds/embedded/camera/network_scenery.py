"""The static scenery around a route, from a Scenic network (duck-typed) and a RoadMap. Needs shapely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.embedded.camera import network_features, placement
from closedloop_plugin.worlds.embedded.camera.scenery import StaticScenery, TrafficControlDevice

BEFORE_JUNCTION_M, ON_M = 8.0, 35.0  # m: a contradictory plate before a junction, or beyond the trigger point
PLATE_HEIGHT_M = 2.2
REACH = 230.0  # m around the route: view distance, and an episode ends 30 m off the route


@dataclass(frozen=True)
class ContradictoryPlate:
    """A plate that contradicts the road: `kind` as in TrafficControlDevice. `trigger_s`: m along the route."""

    kind: str
    trigger_s: float


def scenery_of(network: Any, road: RoadMap, seed: int, plate: ContradictoryPlate | None = None) -> StaticScenery:
    """The static scenery around a route, deterministic in its arguments.

    `network` needs: lanes (polygon, leftEdge, rightEdge, group), roads (lanes), shoulders, sidewalks, intersections.
    """
    surfaces = network_features.surface_geometry(network, road, REACH)
    signs = network_features.signs_of(surfaces, road)
    if plate is not None:
        signs += (_plate(surfaces, road, plate),)
    urban = 1.0 if road.speed_limit < 20.0 else 0.3
    occupied = np.array([[s.x, s.y] for s in signs]).reshape(-1, 2)
    lines = [line for line in road.stop_lines if surfaces.near(line.x, line.y)]
    controls = {c: [x for x in lines if x.control == c] for c in ("signal", "stop", "yield")}
    houses = placement.buildings(surfaces, urban, seed)
    return StaticScenery(
        areas=network_features.areas_of(surfaces),
        markings=network_features.markings_of(network, surfaces),
        kerbs=network_features.kerbs_of(surfaces),
        crosswalks=network_features.crosswalks_of(surfaces, controls["signal"]),
        stop_lines=_poses(controls["signal"] + controls["stop"]),
        words=np.array([network_features.behind(x, 4.0) for x in controls["stop"]]).reshape(-1, 3),
        teeth=_poses(controls["yield"]),
        buildings=houses,
        trees=placement.trees(surfaces, urban, seed, occupied, houses),
        lamps=placement.lamps(surfaces, urban, occupied, houses),
        signs=signs,
        urban=urban,
    )


def _plate(
    surfaces: network_features.SurfaceGeometry, road: RoadMap, plate: ContradictoryPlate
) -> TrafficControlDevice:
    """The plate at the right edge of the road: before the ego's junction, else behind the trigger point."""
    entry = road.junctions[0][0] if road.junctions else None
    s = entry - BEFORE_JUNCTION_M if entry is not None and entry > BEFORE_JUNCTION_M + 8.0 else plate.trigger_s + ON_M
    x, y, yaw = road.path.pose(s)
    right = network_features.distance_to_edge(surfaces.paved, x, y, yaw) + 0.8
    return TrafficControlDevice(
        plate.kind, "", x + right * math.sin(yaw), y - right * math.cos(yaw), yaw, PLATE_HEIGHT_M
    )


def _poses(lines: list[Any]) -> np.ndarray:
    return np.array([[s.x, s.y, s.yaw, s.width] for s in lines]).reshape(-1, 4)
