"""Scenery of a real town: markings, kerbs, signs, and no buildings on the road."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.worlds.embedded.camera.network_scenery import CLEAR, scenery_of
from closedloop_plugin.worlds.embedded.camera.render import CameraRenderer, SceneView
from closedloop_plugin.worlds.embedded.camera.scenery import StaticScenery, corners


@pytest.fixture(scope="module")
def network(data_dir: Path) -> Any:
    """Town02, as Scenic reads it."""
    roads = pytest.importorskip("scenic.domains.driving.roads")
    town = data_dir / "opendrive" / "Town02.xodr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return roads.Network.fromFile(str(town), writeCache=False, useCache=False)


def _road(network: Any) -> RoadMap:
    """Map along the longest lane, with a signal, a stop and a yield line at the ends of three lanes into junctions."""
    lane = max((x for r in network.roads for x in r.lanes), key=lambda x: (x.centerline.length, x.uid))
    lines = []
    incoming = [x for junction in network.intersections for x in junction.incomingLanes]
    for i, control in enumerate(("signal", "stop", "yield")):
        (x0, y0), (x1, y1) = (p[:2] for p in incoming[i].centerline.points[-2:])
        yaw = math.atan2(y1 - y0, x1 - x0)
        lines.append(StopLine(control, x1 - math.cos(yaw), y1 - math.sin(yaw), yaw, 3.5, control))
    points = [p[:2] for p in lane.centerline.points]
    return RoadMap(Path("Town02.xodr"), "town", "Town02", "", RoutePath(points), (), stop_lines=tuple(lines))


@pytest.fixture(scope="module")
def road(network: Any) -> RoadMap:
    return _road(network)


@pytest.fixture(scope="module")
def scenery(network: Any, road: RoadMap) -> StaticScenery:
    return scenery_of(network, road, 5)


@pytest.fixture(scope="module")
def drivable(network: Any) -> Any:
    shape = shapely.union_all([x.polygon for x in (*network.lanes, *network.shoulders, *network.intersections)])
    shapely.prepare(shape)
    return shape


def test_nothing_is_built_on_or_near_the_road(scenery: StaticScenery, drivable: Any) -> None:
    assert len(scenery.buildings) > 20 and len(scenery.trees) > 20 and len(scenery.lamps) > 10
    for row in scenery.buildings:
        assert shapely.Polygon(corners(*row[:5].tolist())).distance(drivable) >= CLEAR - 0.1
    for x, y in np.concatenate([scenery.trees[:, :2], scenery.lamps[:, :2]]).tolist():
        assert shapely.Point(x, y).distance(drivable) >= CLEAR - 0.1
    assert all(shapely.Point(s.x, s.y).distance(drivable) > 0.3 for s in scenery.signs)


def test_buildings_do_not_overlap(scenery: StaticScenery) -> None:
    boxes = [shapely.Polygon(corners(*row[:5].tolist())) for row in scenery.buildings]
    hits = shapely.STRtree(boxes).query(boxes, predicate="intersects")
    assert (hits[0] == hits[1]).all()


def test_the_scenery_depends_on_the_seed_only(network: Any, road: RoadMap, scenery: StaticScenery) -> None:
    again, other = scenery_of(network, road, 5), scenery_of(network, road, 6)
    for name in ("buildings", "trees", "lamps", "kerbs", "stop_lines"):
        assert np.array_equal(getattr(again, name), getattr(scenery, name))
    assert len(other.buildings) != len(scenery.buildings) or not np.array_equal(other.buildings, scenery.buildings)
    assert all(np.array_equal(a.points, b.points) for a, b in zip(again.markings, scenery.markings, strict=True))


def test_markings_of_a_two_lane_town(network: Any, scenery: StaticScenery) -> None:
    """Town02 has one lane to each side: yellow dashes in the middle, once, and white edges; none in junctions."""
    styles = {(m.colour, m.style) for m in scenery.markings}
    assert styles == {("yellow", "dashed"), ("white", "solid")}
    yellow = sum(np.hypot(*np.diff(m.points, axis=0).T).sum() for m in scenery.markings if m.colour == "yellow")
    roads = sum(r.centerline.length for r in network.roads)
    assert 0.85 * roads < yellow < 1.02 * roads
    inner = shapely.union_all([x.polygon for x in network.intersections]).buffer(-2.0)
    points = np.concatenate([m.points for m in scenery.markings])
    assert not shapely.intersects_xy(inner, points[:, 0], points[:, 1]).any()


def test_signs_are_right_of_their_line_and_the_far_signal_is_visible_from_it(
    road: RoadMap, scenery: StaticScenery
) -> None:
    by_kind = {k: [s for s in scenery.signs if s.kind == k] for k in ("signal", "stop", "yield")}
    assert {k: len(v) for k, v in by_kind.items()} == {"signal": 2, "stop": 1, "yield": 1}
    for sign in scenery.signs:
        line = next(x for x in road.stop_lines if x.id == sign.line)
        dx, dy = sign.x - line.x, sign.y - line.y
        right = dx * math.sin(line.yaw) - dy * math.cos(line.yaw)
        assert 1.7 < right < 30
    line = next(x for x in road.stop_lines if x.control == "signal")
    far = by_kind["signal"][1]
    head = far.x - far.arm * math.sin(far.yaw) - line.x, far.y + far.arm * math.cos(far.yaw) - line.y
    ahead = head[0] * math.cos(line.yaw) + head[1] * math.sin(line.yaw) + 1.6  # from a camera that waits at the line
    side = head[0] * math.sin(line.yaw) - head[1] * math.cos(line.yaw)
    assert abs(side) / ahead < math.tan(math.radians(35.0))
    assert (far.height + 0.6 - 1.6) / ahead < math.tan(math.radians(35.0)) * 450 / 800


def test_kerbs_have_the_sidewalk_on_their_left(network: Any, scenery: StaticScenery, drivable: Any) -> None:
    a, b = scenery.kerbs[:, :2], scenery.kerbs[:, 2:]
    along = (b - a) / np.hypot(*(b - a).T)[:, None]
    right = (a + b) / 2 + 0.8 * np.column_stack([along[:, 1], -along[:, 0]])
    assert shapely.intersects_xy(drivable, right[:, 0], right[:, 1]).mean() > 0.9


def test_a_frame_of_the_town_shows_markings_sky_and_houses(road: RoadMap, scenery: StaticScenery) -> None:
    x, y, yaw = road.path.pose(20.0)
    image = (
        CameraRenderer(scenery).render(Camera("front", 400, 226, 70.0, 0.8, 0.0, 1.6), SceneView(x, y, yaw)).astype(int)
    )
    r, g, b = (image[..., i] for i in range(3))
    assert ((r > 150) & (b < 90) & (g > 110)).sum() > 20  # yellow dashes
    assert ((image.min(axis=2) > 190) & (np.arange(226)[:, None] > 130)).sum() > 20  # white lines
    assert len(np.unique(image[:100].reshape(-1, 3), axis=0)) > 50  # sky and houses
