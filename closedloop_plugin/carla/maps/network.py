"""CARLA's own map as the road: the route traced on carla.Map's lanes, its lights and signs, and the file for Scenic."""

from __future__ import annotations

import hashlib
from pathlib import Path as File
from typing import Any

import numpy as np

from closedloop_plugin.carla.maps.lanes import CarlaLanes
from closedloop_plugin.carla.maps.signs import speed_limit, stop_lines
from closedloop_plugin.carla.maps.trace import line, trace
from closedloop_plugin.core.path import Path
from closedloop_plugin.core.routes import LOCATIONS, Route
from closedloop_plugin.maps.base import Piece, RoadMap
from closedloop_plugin.maps.cache import keep
from closedloop_plugin.maps.crossings import crossings
from closedloop_plugin.maps.cutout import cut_out
from closedloop_plugin.maps.lanes import read_town
from closedloop_plugin.maps.plan import TOWN_LIMIT
from closedloop_plugin.maps.town import AROUND, facts_of, spans_of, width_of


def carla_road(route: Route, town_map: Any, folder: File) -> RoadMap:
    """The route on the lanes of a `carla.Map`; the roads around it are written into `folder`, for Scenic.

    `facts["start_z"]` is the road's height at the route's start, m. `sha256` is that of the whole town's OpenDRIVE.
    """
    data = town_map.to_opendrive().encode()
    lanes = CarlaLanes(town_map)
    ways = trace(route, lanes)
    driving = line(lanes, ways)
    path = Path(driving.points)
    driven = list(dict.fromkeys(x.lane for way in ways for x in way.stretches))
    places = [route.trigger[:2], *(route.params[name][:2] for name in LOCATIONS if name in route.params)]
    part = cut_out(data, np.vstack([path.xy, places]))
    file = keep(part, folder, f"{lanes.name}-{hashlib.sha256(part).hexdigest()[:16]}.xodr")
    town = read_town(file)
    spans = spans_of(town, path, driven)
    boxes = crossings(town, path.xy, AROUND)
    first = ways[0].stretches[0]
    return RoadMap(
        file=file,
        source="town",
        town=route.town,
        sha256=hashlib.sha256(data).hexdigest(),
        path=path,
        pieces=(Piece(0.0, round(path.length, 2), "measured"),),
        junctions=tuple(span for _, span in spans),
        changes=tuple(
            (path.locate(*map(float, a[:2]))[0], path.locate(*map(float, b[:2]))[0], side)
            for a, b, side in driving.changes
        ),
        stop_lines=stop_lines(lanes, path, driven, AROUND),
        lane_width=width_of(town, driven),
        speed_limit=speed_limit(lanes, first.lane, first.start) or TOWN_LIMIT,
        facts=facts_of(route, town, path, spans, boxes, driven) | {"start_z": round(float(driving.points[0, 2]), 3)},
    )
