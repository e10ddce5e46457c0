"""The CARLA world on constructed roads: levels, one-way roads, markings, signs, with values computed by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from closedloop_plugin.carla.maps.ground import CarlaRouteGround, TownGround
from closedloop_plugin.carla.maps.road_map import a_star, carla_road
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import DrivingSurface
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.maps.towns.lanes import parse_town
from closedloop_plugin.maps.towns.route_trace import candidates
from lmms_eval_ad2.core.errors import Ad2Error

carla = pytest.importorskip("carla")

Points = list[tuple[float, float]]


def lane(id_: int, mark: str = "none", kind: str = "driving", width: float = 3.5) -> str:
    """`mark`: lane change across the outer border, "none" (solid line) or "both" (broken line)."""
    line = "broken" if mark == "both" else "solid"
    return (
        f'<lane id="{id_}" type="{kind}" level="false"><width sOffset="0" a="{width}" b="0" c="0" d="0"/>'
        f'<roadMark sOffset="0" type="{line}" weight="standard" color="white" width="0.1" laneChange="{mark}"/></lane>'
    )


def road(
    id_: int, start: tuple[float, float, float], right: str, left: str = "", z: float = 0.0, signs: str = "", size=100.0
) -> str:
    """A straight road from a pose, `size` metres long, at height z."""
    x, y, yaw = start
    sides = f"<left>{left}</left>" if left else ""
    return (
        f'<road name="" length="{size}" id="{id_}" junction="-1"><link/><planView>'
        f'<geometry s="0" x="{x}" y="{y}" hdg="{yaw}" length="{size}"><line/></geometry></planView>'
        f'<elevationProfile><elevation s="0" a="{z}" b="0" c="0" d="0"/></elevationProfile><lateralProfile/>'
        f'<lanes><laneOffset s="0" a="0" b="0" c="0" d="0"/><laneSection s="0">{sides}'
        f'<center><lane id="0" type="none" level="false"/></center><right>{right}</right></laneSection></lanes>'
        f"<objects/><signals>{signs}</signals></road>"
    )


def sign(id_: int, type_: str, s: float, lanes: tuple[int, int] = (-1, -1), value: str = "-1") -> str:
    return (
        f'<signal s="{s}" t="-4" id="{id_}" name="sign" dynamic="no" orientation="+" zOffset="2" country="OpenDRIVE" '
        f'type="{type_}" subtype="" value="{value}" hOffset="0" pitch="0" roll="0" height="1" width="1">'
        f'<validity fromLane="{lanes[0]}" toLane="{lanes[1]}"/></signal>'
    )


def town(*roads: str) -> Any:
    header = '<header revMajor="1" revMinor="4" name="" version="1" north="0" south="0" east="0" west="0"/>'
    return carla.Map("made", f"<OpenDRIVE>{header}{''.join(roads)}</OpenDRIVE>")


def ground_of(town_map: Any) -> TownGround:
    return TownGround(parse_town(town_map.to_opendrive().encode(), "made"))


def build_road(town_map: Any, points: Points, folder: Path) -> RoadMap:
    return carla_road(Route("7", "made", tuple(points), "Accident", "a", (*points[0], 0.0)), town_map, folder)


def dense(a: tuple[float, float], b: tuple[float, float]) -> Points:
    n = round(math.dist(a, b) / 2)
    return [(a[0] + (b[0] - a[0]) * i / n, a[1] + (b[1] - a[1]) * i / n) for i in range(n + 1)]


BRIDGE = (
    road(1, (-50, 0, 0), lane(-1), lane(1)),
    road(2, (0, -50, math.pi / 2), lane(-1), lane(1), z=8.0),
)
# East along the lower road's right lane, north along the upper one's.
UNDER, OVER = ((-45.0, -1.75), (45.0, -1.75)), ((1.75, -45.0), (1.75, 45.0))


@pytest.mark.parametrize(("ends", "z"), [(UNDER, 0.0), (OVER, 8.0)])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_route_stays_on_its_level_of_a_bridge(
    tmp_path: Path, ends: tuple[tuple[float, float], tuple[float, float]], z: float, sparse: bool
) -> None:
    bridge = town(*BRIDGE)
    found = build_road(bridge, list(ends) if sparse else dense(*ends), tmp_path)
    assert found.facts["start_z"] == z
    assert found.path.length == pytest.approx(90.0, abs=0.01)
    assert found.path.locate(*ends[1])[1] == pytest.approx(0.0, abs=0.01)
    heights = CarlaRouteGround(found).along(found.path, z)
    assert heights == pytest.approx(np.full(len(found.path.xy), z), abs=1e-6)


def test_ground_height_and_surface_under_and_on_a_bridge() -> None:
    ground = ground_of(town(*BRIDGE))
    assert [ground.height(1.75, -1.75, near) for near in (-1.0, 1.0, 7.0, 20.0)] == pytest.approx([0, 0, 8, 8])
    north = math.pi / 2
    assert ground.surface(1.75, -1.0, north, 8.0) is DrivingSurface.LANE
    assert ground.surface(1.75, -1.0, -north, 8.0) is DrivingSurface.ONCOMING
    assert ground.surface(1.75, -1.0, 0.0, 0.5) is DrivingSurface.LANE
    assert ground.surface(1.75, -1.0, math.pi, 0.5) is DrivingSurface.ONCOMING


def test_surfaces_across_a_road() -> None:
    right = (
        lane(-1)
        + lane(-2, kind="shoulder", width=0.6)
        + lane(-3, kind="parking", width=2.4)
        + lane(-4, kind="sidewalk")
    )
    ground = ground_of(town(road(1, (0, 0, 0), right, lane(1))))
    across = {
        1.7: "oncoming",
        -1.7: "lane",
        -3.8: "shoulder",
        -4.3: "shoulder",
        -6.3: "shoulder",
        -8.0: "off",
        9.0: "off",
    }
    assert {y: ground.surface(50, y, 0.0) for y in across} == across


def test_lanes_of_both_levels_are_candidates_at_the_crossing() -> None:
    lanes = parse_town(town(*BRIDGE).to_opendrive().encode(), "made")
    route = Route("7", "made", ((1.75, -1.75), (40.0, -1.75)), "Accident", "a", (1.75, -1.75, 0.0))
    both, one = candidates(route, lanes, "made", [None, None])
    assert [{spot.lane[0] for spot in spots} for spots in (both, one)] == [{1, 2}, {1}]


ONE_WAY = road(1, (0, 0, 0), lane(-1))


def test_a_route_against_a_one_way_road_is_refused(tmp_path: Path) -> None:
    back: Points = [(80.0, -1.75), (20.0, -1.75)]
    with pytest.raises(Ad2Error, match=r"made: route 7: no lane leads on to its point 1 \(20.0, -1.8\)"):
        build_road(town(ONE_WAY), back, tmp_path)
    with pytest.raises(Ad2Error, match=r"made: route 7: its point 0 \(80.0, -1.8\) lies on no lane"):
        build_road(town(ONE_WAY), dense(*back), tmp_path)


def test_a_route_to_an_unconnected_road_is_refused(tmp_path: Path) -> None:
    apart = town(ONE_WAY, road(2, (0, 50, 0), lane(-1)))
    with pytest.raises(Ad2Error, match="no lane leads on to its point 1"):
        build_road(apart, [(10.0, -1.75), (90.0, 48.25)], tmp_path)


@pytest.mark.parametrize(("ends", "side"), [((-5.25, -1.75), 1), ((-1.75, -5.25), -1)])
def test_a_sparse_route_changes_lanes_if_the_marks_permit(tmp_path: Path, ends: tuple[float, float], side: int) -> None:
    wide = town(road(1, (0, 0, 0), lane(-1, "both") + lane(-2)))
    found = build_road(wide, [(10.0, ends[0]), (90.0, ends[1])], tmp_path)
    ((a, b, way),) = found.changes
    assert way == side
    assert b - a == pytest.approx(math.hypot(20.0, 3.5), abs=0.6)  # CHANGE_M along the road, one lane aside
    assert found.path.pose(0.0)[1] == pytest.approx(ends[0], abs=0.01)
    assert found.path.pose(40.0)[1] == pytest.approx(ends[1], abs=0.01)
    assert np.abs(np.diff(found.path.yaw)).max() < math.radians(3)


def test_a_route_can_change_to_a_lane_without_predecessor(tmp_path: Path) -> None:
    """From 40 m on there is one more lane, to which no lane leads."""
    link = '<link><{} id="-1"/></link><width'
    first = lane(-1).replace("<width", link.format("successor"))
    second = lane(-1, "both").replace("<width", link.format("predecessor")) + lane(-2)
    centre = '<center><lane id="0" type="none" level="false"/></center>'
    sections = f'</laneSection><laneSection s="40">{centre}<right>{second}</right></laneSection>'
    wider = town(road(1, (0, 0, 0), first).replace("</laneSection>", sections))
    found = build_road(wider, [(10.0, -1.75), (90.0, -5.25)], tmp_path)
    ((a, b, side),) = found.changes
    assert (a, b, side) == (pytest.approx(30.0, abs=0.1), pytest.approx(50.3, abs=0.6), -1)
    assert found.path.length == pytest.approx(80.3, abs=0.3)


def test_only_a_dense_route_crosses_a_solid_line(tmp_path: Path) -> None:
    solid = town(road(1, (0, 0, 0), lane(-1) + lane(-2)))
    with pytest.raises(Ad2Error, match="no lane leads on"):
        build_road(solid, [(10.0, -5.25), (90.0, -1.75)], tmp_path)
    points = dense((10.0, -5.25), (40.0, -5.25)) + dense((44.0, -1.75), (90.0, -1.75))
    found = build_road(solid, points, tmp_path)
    ((a, b, side),) = found.changes
    assert side == 1
    assert (a, b) == pytest.approx((30, 35), abs=1.0)  # between the two points of the route


def test_the_file_for_scenic_contains_only_nearby_roads(tmp_path: Path) -> None:
    far = town(ONE_WAY, road(2, (0, 400, 0), lane(-1)))
    found = build_road(far, dense((10.0, -1.75), (90.0, -1.75)), tmp_path)
    text = found.file.read_text()
    assert text.count("<road ") == 1
    assert far.to_opendrive().count("<road ") == 2
    assert found.file.parent == tmp_path


def test_a_sign_away_from_junctions_has_its_stop_line_at_the_sign(tmp_path: Path) -> None:
    """The line crosses the lanes of the sign's validity and has the sign's id."""
    signs = sign(31, "206", 60.0, (-2, -1)) + sign(32, "205", 30.0, (-2, -2))
    found = build_road(
        town(road(1, (0, 0, 0), lane(-1) + lane(-2), signs=signs)), dense((10, -1.75), (90, -1.75)), tmp_path
    )
    stop, give_way = sorted(found.stop_lines, key=lambda line: line.id)
    assert (stop.id, stop.control, stop.on_route) == ("31", "stop", True)
    assert (stop.x, stop.y, stop.yaw, stop.width) == pytest.approx((60.0, -3.5, 0.0, 7.0), abs=0.6)
    assert stop.route_s == pytest.approx(50.0, abs=0.6)
    assert (give_way.id, give_way.control, give_way.on_route, give_way.width) == (
        "32",
        "yield",
        False,
        pytest.approx(3.5),
    )


@pytest.mark.parametrize(("start", "kmh"), [(10.0, 30.0), (50.0, 30.0), (80.0, 60.0)])
def test_the_speed_limit_is_that_of_the_last_sign_passed_else_the_next(
    tmp_path: Path, start: float, kmh: float
) -> None:
    signs = sign(41, "274", 40.0, value="30") + sign(42, "274", 70.0, value="60") + sign(43, "274", 5.0, (1, 1), "90")
    limited = town(road(1, (0, 0, 0), lane(-1), lane(1), signs=signs))
    assert build_road(limited, dense((start, -1.75), (98, -1.75)), tmp_path).speed_limit == pytest.approx(kmh / 3.6)


def test_a_star_finds_the_hand_computed_path() -> None:
    ways = {"a": [(1.0, "b"), (4.0, "c")], "b": [(1.0, "c"), (5.0, "d")], "c": [(1.0, "d")], "d": []}
    ahead = {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.0}.__getitem__
    assert a_star("a", "d", ways.__getitem__, ahead) == (3.0, ["a", "b", "c", "d"])
    assert a_star("a", "d", ways.__getitem__, ahead, limit=2.9) is None
    assert a_star("d", "a", ways.__getitem__, ahead) is None
    assert a_star("a", "a", ways.__getitem__, ahead) == (0.0, ["a"])
