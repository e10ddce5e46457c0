"""The static scenery around a route, from a Scenic network (duck-typed) and a RoadMap. Needs shapely."""

from __future__ import annotations

from typing import Any

import numpy as np

from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.embedded.camera import network_features, placement
from closedloop_plugin.worlds.embedded.camera.scenery import StaticScenery

REACH = 230.0  # m around the route: view distance, and an episode ends 30 m off the route


def scenery_of(network: Any, road: RoadMap, seed: int) -> StaticScenery:
    """The static scenery around a route, deterministic in its arguments.

    `network` needs: lanes (polygon, leftEdge, rightEdge, group), roads (lanes), shoulders, sidewalks, intersections.
    """
    surfaces = network_features.surface_geometry(network, road, REACH)
    signs = network_features.signs_of(surfaces, road)
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


def _poses(lines: list[Any]) -> np.ndarray:
    return np.array([[s.x, s.y, s.yaw, s.width] for s in lines]).reshape(-1, 4)
