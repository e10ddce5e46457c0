"""corridor: a map with one road along the route; its reference line is the centre of the ego's lane.

Method and accuracy: docs/closed-loop.md. All other lanes are invented from the RoadLayout.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.builders.keypoints import is_sparse, keypoint_chain
from closedloop_plugin.maps.builders.series import in_series, meets_itself
from closedloop_plugin.maps.builders.smoothing import bridged, lane_jumps, runs
from closedloop_plugin.maps.curves import Chain, length, sample
from closedloop_plugin.maps.opendrive import OpenDriveRoad
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
        jumps = lane_jumps(p, width) if len(p) > 3 else []
        if not jumps and not lanes:
            out.append(p)
            continue
        where = {j.index: j.lanes for j in jumps}
        heading = np.arctan2(*np.diff(p, axis=0).T[::-1])
        for i in where:
            heading[i] = heading[i - 1] + 0.5 * wrap(float(heading[i + 1] - heading[i - 1]))
        shift = np.zeros(len(p))
        for i in range(len(p)):
            shift[i] = lanes
            lanes += where.get(i, 0)
        # p + d n, with the left normal n = (-sin yaw, cos yaw) and d = -width for each lane changed so far.
        yaw = np.r_[heading, heading[-1]]
        base = p - (shift * width)[:, None] * np.column_stack([-np.sin(yaw), np.cos(yaw)])
        found += [(0.5 * (base[j.index] + base[j.index + 1]), j.lanes) for j in jumps]
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
