"""What the truth says about one collected frame, as JSON values: the objects and signals around the ego.

Positions are in the ego's frame at the frame's tick: metres forward, metres to the LEFT.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from closedloop_plugin.core.frames import to_ego, wrap
from closedloop_plugin.core.state import Actor, GroundTruth
from closedloop_plugin.core.visibility import FAR_HEAD, VisibleExtent
from closedloop_plugin.maps.base import RoadMap

REACH_M = 60.0  # objects farther away are left out, unless the picture shows them
UNSEEN = VisibleExtent()


def objects_of(
    truth: GroundTruth, road: RoadMap, visible: Mapping[str, VisibleExtent], s: float
) -> list[dict[str, Any]]:
    """All actors within REACH_M or in the picture, the nearest first. `s`: of the ego along the route, m."""
    ego = truth.ego
    near = [a for a in truth.actors if a.id in visible or math.hypot(a.x - ego.x, a.y - ego.y) <= REACH_M]
    places = road.path.locate_all([(a.x, a.y) for a in near], s, 2 * REACH_M) if near else []
    rows = [
        _object(a, ego, visible.get(a.id, UNSEEN), lane_of(d, road)) for a, (_, d) in zip(near, places, strict=True)
    ]
    return sorted(rows, key=lambda row: math.hypot(row["forward"], row["left"]))


def _object(actor: Actor, ego: Actor, seen: VisibleExtent, lane: str) -> dict[str, Any]:
    forward, left = to_ego(actor.x, actor.y, ego.x, ego.y, ego.yaw)
    return {
        "id": actor.id,
        "kind": actor.kind.value,
        "forward": round(forward, 2),
        "left": round(left, 2),
        "yaw": round(wrap(actor.yaw - ego.yaw), 3),
        "speed": round(actor.speed, 2),
        "length": round(actor.length, 2),
        "width": round(actor.width, 2),
        "height": round(actor.height, 2),
        "lamps": sorted(actor.lamps),
        "doors": sorted(actor.doors),
        "colour": list(actor.colour),
        "lane": lane,
        **_seen(seen),
    }


def lane_of(d: float, road: RoadMap) -> str:
    """The lane of a place `d` m to the left of the route, seen from the route's: own, left, right, oncoming or off."""
    lanes = road.facts.get("lanes", {})
    left, right, oncoming = (int(lanes.get(name, 0)) for name in ("left", "right", "oncoming"))
    number = round(d / road.lane_width)
    if number == 0:
        return "own"
    if number < 0:
        return "right" if -number <= right else "off"
    return "left" if number <= left else "oncoming" if number <= left + oncoming else "off"


def signals_of(
    truth: GroundTruth, road: RoadMap, visible: Mapping[str, VisibleExtent], s: float
) -> list[dict[str, Any]]:
    """Signals and signs within REACH_M or in the picture, the nearest first."""
    rows = []
    for line in road.stop_lines:
        forward, left = to_ego(line.x, line.y, truth.ego.x, truth.ego.y, truth.ego.yaw)
        heads = (visible.get(line.id, UNSEEN), visible.get(line.id + FAR_HEAD, UNSEEN))
        if math.hypot(forward, left) > REACH_M and not any(head.box for head in heads):
            continue
        seen, state = max(heads, key=lambda e: (e.state_pixels, e.pixels)), truth.signals.get(line.id)
        along = line.on_route and line.route_s is not None
        rows.append({
            "id": line.id,
            "control": line.control,
            "state": state.value if state is not None else None,
            "on_route": line.on_route,
            "forward": round(forward, 2),
            "left": round(left, 2),
            "distance": round(line.route_s - s, 2) if along and line.route_s is not None else None,
            **_seen(seen),
            "state_pixels": seen.state_pixels,
        })  # fmt: skip
    return sorted(rows, key=lambda row: math.hypot(row["forward"], row["left"]))


def _seen(seen: VisibleExtent) -> dict[str, Any]:
    return {
        "box": list(seen.box) if seen.box else None,
        "pixels": seen.pixels,
        "visible": round(seen.share, 3),
        "shown": seen.shown,
    }
