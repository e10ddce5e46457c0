"""Maps of Bench2Drive's routes and CARLA's towns: all are built; one of each topology is loaded in Scenic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.maps.base import RoadLayout, RoadMap
from closedloop_plugin.maps.build import plan_for, road_for, waypoint_errors
from closedloop_plugin.maps.layouts import LAYOUTS
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

CHANGES = "SequentialLaneChange"
# One route of each topology: a plain corridor, lane changes, parking, signal, stop, bicycle lane, T, exit, entry.
LOADED = ("1852", "17563", "1711", "2373", "2416", "3086", "26458", "23658", "23695")


@pytest.fixture(scope="module")
def routes(request: pytest.FixtureRequest) -> list[Route]:
    data: Path = request.getfixturevalue("data_dir")
    return read_routes(data / "bench2drive" / "bench2drive220.xml")


@pytest.fixture(scope="module")
def roads(routes: list[Route], tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Route, RoadMap]]:
    folder = tmp_path_factory.mktemp("maps")
    return [(r, road_for(r, LAYOUTS[r.scenario], folder=folder)) for r in routes]


def test_every_type_has_a_layout(routes: list[Route]) -> None:
    assert {r.scenario for r in routes} == set(LAYOUTS)


def test_every_route_builds_close_to_its_points(roads: list[tuple[Route, RoadMap]]) -> None:
    assert len(roads) == 220
    errors = np.concatenate([waypoint_errors(r, m) for r, m in roads if r.scenario != CHANGES])
    assert np.median(errors) < 0.05
    assert errors.max() < 0.15
    jumps = np.concatenate([waypoint_errors(r, m) for r, m in roads if r.scenario == CHANGES])
    assert jumps.max() < 1.2
    assert all(len(m.changes) >= 1 for r, m in roads if r.scenario == CHANGES)


def test_every_route_of_version_0_0_4_builds_close_to_its_points(data_dir: Path, tmp_path: Path) -> None:
    """24944: its turn begins in a bend, and no biarc leads through it."""
    found = read_routes(data_dir / "bench2drive" / "bench2drive_0.0.4_val.xml")
    built = {r.id: (r, road_for(r, LAYOUTS[r.scenario], folder=tmp_path)) for r in found}
    assert len(built) == 220
    errors = [waypoint_errors(r, m).max() for r, m in built.values() if r.scenario != CHANGES]
    assert max(errors) < 0.3
    route, road = built["24944"]
    assert abs(road.path.locate(*route.trigger[:2])[1]) < 0.02
    assert road.path.length == pytest.approx(141.2, abs=0.5)


def test_path_lengths_are_close_to_those_of_the_route_file(roads: list[tuple[Route, RoadMap]]) -> None:
    """The file crosses a gap in a straight line where the map turns, and zigzags in a lane change."""
    for route, road in roads:
        assert -2.0 < road.path.length - route.length < 8.0, route.id
        assert road.pieces[-1].end_m == pytest.approx(road.path.length, abs=0.5)


def test_paths_have_no_kinks(roads: list[tuple[Route, RoadMap]]) -> None:
    for route, road in roads:
        assert np.abs(np.diff(road.path.yaw)).max() < np.radians(7), route.id  # half a metre at a radius of 4


def test_highway_flows_pass_through_the_points_of_the_route_file(roads: list[tuple[Route, RoadMap]]) -> None:
    highway = [(r, m) for r, m in roads if "mainline" in m.facts]
    assert len(highway) == 25
    assert [r.id for r, m in highway if m.experimental] == ["23930"]
    for route, road in highway:
        line = np.array(road.facts["mainline"])
        for name in ("start_actor_flow", "end_actor_flow"):
            distance = np.hypot(*(line - route.params[name][:2]).T).min()
            assert distance < 1.5 or road.experimental, (route.id, name)


def test_the_bicycle_flows_start_on_the_bicycle_lane(roads: list[tuple[Route, RoadMap]]) -> None:
    for route, road in roads:
        if route.scenario == "CrossingBicycleFlow":
            line = np.array(road.facts["bicycle"])
            for name in ("start_actor_flow", "end_actor_flow"):
                assert np.hypot(*(line - route.params[name][:2]).T).min() < 1.0, route.id


@pytest.mark.parametrize("id_", LOADED)
def test_scenic_reads_the_map_and_path_and_flows_are_on_the_road(roads: list[tuple[Route, RoadMap]], id_: str) -> None:
    shapely = pytest.importorskip("shapely")
    driving = pytest.importorskip("scenic.domains.driving.roads")
    road = next(m for r, m in roads if r.id == id_)
    network = driving.Network.fromFile(road.file, useCache=False, writeCache=False)
    parts = [network.drivableRegion.polygons]
    if network.intersections:
        parts.append(network.intersectionRegion.polygons)
    ground = shapely.union_all(parts).buffer(0.02)
    lines = {"path": road.path.xy, **road.facts.get("flows", {}), "mainline": road.facts.get("mainline", ())}
    for name, points in lines.items():
        if len(points):
            x, y = np.asarray(points).T
            assert shapely.contains_xy(ground, x, y).all(), name
    assert not list(road.file.parent.glob("*.snet"))


def town_of(route: Route, data: Path) -> Path:
    return data / "opendrive" / f"{route.town}.xodr"


def test_twelve_routes_are_traced_on_the_available_towns(routes: list[Route], data_dir: Path, tmp_path: Path) -> None:
    found = [r for r in routes if town_of(r, data_dir).is_file()]
    assert len(found) == 12
    for route in found:
        road = road_for(route, LAYOUTS[route.scenario], town=town_of(route, data_dir), folder=tmp_path)
        assert waypoint_errors(route, road).max() < 0.15, route.id
        assert np.abs(np.diff(road.path.yaw)).max() < np.radians(7), route.id
        assert road.source == "town"
        assert road.file.parent == tmp_path
        assert road.file.read_bytes() == town_of(route, data_dir).read_bytes()


@pytest.mark.parametrize(("id_", "others", "at"), [("28048", {"ahead"}, 27.4), ("28154", {"right"}, 78.3)])
def test_the_junction_of_a_town_has_its_arms_control_and_flows(
    routes: list[Route], data_dir: Path, tmp_path: Path, id_: str, others: set[str], at: float
) -> None:
    """Town02: the ego turns off a road that continues. Town10HD: it goes straight, a road joins from the right."""
    route = next(r for r in routes if r.id == id_)
    road = road_for(route, LAYOUTS[route.scenario], town=town_of(route, data_dir), folder=tmp_path)
    junction = road.facts["junction"]
    assert {a["name"] for a in junction["arms"]} == {"entry", "exit"} | others
    assert junction["control"] == "signal"
    own = [s for s in road.stop_lines if s.on_route]
    assert [(s.control, round(s.route_s or 0, 1)) for s in own] == [("signal", at)]
    assert road.junctions[0][0] == pytest.approx(at, abs=0.1)
    own_flow = np.array(road.facts["flows"]["entry->exit"])
    assert max(abs(road.path.locate(x, y)[1]) for x, y in own_flow[60:75]) < 0.1
    assert f"{next(iter(others))}->exit" in road.facts["flows"]


def test_a_route_of_another_town_is_refused(routes: list[Route], data_dir: Path, tmp_path: Path) -> None:
    route = next(r for r in routes if r.town == "Town12")
    with pytest.raises(Ad2Error, match=f"route {route.id}: its point 0 .* lies on no lane; the route is of Town12"):
        road_for(route, LAYOUTS[route.scenario], town=data_dir / "opendrive" / "Town01.xodr", folder=tmp_path)


def test_a_built_map_can_be_read_as_a_town(roads: list[tuple[Route, RoadMap]], tmp_path: Path) -> None:
    """A corridor file read as a town: the same path, junction and control."""
    route, built = next((r, m) for r, m in roads if r.id == "2373")
    read = road_for(route, LAYOUTS[route.scenario], town=built.file, folder=tmp_path)
    assert max(abs(built.path.locate(x, y)[1]) for x, y in read.path.xy) < 0.1
    assert read.junctions[0] == pytest.approx(built.junctions[0], abs=0.5)
    assert read.facts["junction"]["control"] == "signal"
    assert {a["name"] for a in read.facts["junction"]["arms"]} == {a["name"] for a in built.facts["junction"]["arms"]}


def test_routes_of_keypoints_are_traced_on_their_towns(data_dir: Path, tmp_path: Path) -> None:
    """Longest6: points 20 to 200 m apart, at corners with steps of 70 degrees to the lane; facts at each trigger."""
    if not (data_dir / "routes" / "longest6").is_dir():
        pytest.skip("no such routes here")
    found = [r for r in read_routes(data_dir / "routes" / "longest6") if town_of(r, data_dir).is_file()]
    assert len(found) == 12
    for route in found:
        road = road_for(route, RoadLayout(), town=town_of(route, data_dir), folder=tmp_path)
        assert waypoint_errors(route, road).max() < 1.0, route.id
        assert abs(road.path.length / route.length - 1) < 0.15, route.id
        assert set(road.facts_at) == set(route.triggers)


def test_routes_of_keypoints_have_corridors(data_dir: Path) -> None:
    for folder in ("fail2drive", "longest6"):
        if not (data_dir / "routes" / folder).is_dir():
            pytest.skip("no such routes here")
        for route in read_routes(data_dir / "routes" / folder):
            plan = plan_for(route, RoadLayout())
            assert RoutePath(plan.path).length < 1.05 * route.length, route.id
