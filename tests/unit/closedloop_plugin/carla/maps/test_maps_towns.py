"""Roads of the CARLA world on CARLA's towns: as on the town's file, and as carla.Map has them; path search."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.carla.maps.ground import TownGround
from closedloop_plugin.carla.maps.road_map import LaneSearch, a_star, carla_road, line, trace
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.maps.build import waypoint_errors
from closedloop_plugin.maps.plan import TOWN_LIMIT
from closedloop_plugin.maps.towns.lanes import LaneNetwork, read_town
from closedloop_plugin.maps.towns.town_road import town_road
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

carla = pytest.importorskip("carla")

TOWNS = ("Town01", "Town02", "Town10HD")
Both = tuple[Route, RoadMap, RoadMap]


@pytest.fixture(scope="module")
def towns(request: pytest.FixtureRequest) -> dict[str, Any]:
    folder: Path = request.getfixturevalue("data_dir") / "opendrive"
    return {t: carla.Map(f"Carla/Maps/{t}", (folder / f"{t}.xodr").read_text()) for t in TOWNS}


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest, towns: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[Both]:
    """For each route of the three towns: route, road of the CARLA world, road of the town's file."""
    data: Path = request.getfixturevalue("data_dir")
    folder = tmp_path_factory.mktemp("carla")
    routes = [r for r in read_routes(data / "bench2drive" / "bench2drive220.xml") if r.town in TOWNS]
    return [
        (r, carla_road(r, towns[r.town], folder), town_road(r, data / "opendrive" / f"{r.town}.xodr", folder))
        for r in routes
    ]


def test_twelve_routes_have_the_same_roads_in_both_worlds(both: list[Both]) -> None:
    """Measured: less than 4 mm apart. An earlier reader failed on route 24330."""
    assert len(both) == 12
    assert "24330" in {route.id for route, _, _ in both}
    for route, road, own in both:
        assert waypoint_errors(route, road).max() < 0.15, route.id
        assert max(abs(own.path.locate(x, y)[1]) for x, y in road.path.xy) < 0.02, route.id
        assert road.path.length == pytest.approx(own.path.length, abs=0.1)
        assert np.abs(np.diff(road.path.yaw)).max() < np.radians(7), route.id
        assert np.array(road.junctions) == pytest.approx(np.array(own.junctions), abs=0.1)
        assert road.changes == own.changes == ()
        assert road.lane_width == own.lane_width
        assert road.sha256 == own.sha256  # of the complete town, although the file contains a part
        assert (road.source, road.town) == (own.source, own.town)


def test_the_facts_are_those_of_the_complete_town(both: list[Both]) -> None:
    for route, road, own in both:
        assert road.facts.pop("start_z") == 0.0, route.id  # these towns are flat
        assert road.facts == own.facts, route.id


def near(stop: StopLine, road: RoadMap, metres: float) -> bool:
    return bool(np.hypot(*(road.path.xy - (stop.x, stop.y)).T).min() < metres)


def test_both_worlds_have_the_same_stop_lines(both: list[Both]) -> None:
    """Town10HD has approaches with a light per lane: two lines in CARLA, one in the other world."""
    controls = set()
    for route, road, own in both:
        for ours, theirs in ((own, road), (road, own)):
            for stop in ours.stop_lines:
                if not near(stop, road, 200.0):
                    continue
                same = [x for x in theirs.stop_lines if x.control == stop.control]
                assert any(math.dist((x.x, x.y), (stop.x, stop.y)) < 2.0 for x in same), (route.id, stop)
                controls.add(stop.control)
        driven = [[(s.control, s.route_s, s.width, s.yaw) for s in m.stop_lines if s.on_route] for m in (road, own)]
        assert len(driven[0]) == len(driven[1])
        for a, b in zip(*driven, strict=True):
            assert a[0] == b[0]
            assert a[1:] == pytest.approx(b[1:], abs=0.1)
    assert controls == {"signal", "stop", "yield"}


def test_stop_line_ids_are_signal_ids(both: list[Both], towns: dict[str, Any]) -> None:
    for route, road, _ in both:
        for stop in road.stop_lines:
            found = towns[route.town].get_all_landmarks_from_id(stop.id)
            assert found, stop
            assert {x.is_dynamic for x in found} == {stop.control == "signal"}
    turning = next(road for route, road, _ in both if route.id == "28154")
    assert [(s.id, s.width) for s in turning.stop_lines if s.on_route] == [("954", pytest.approx(7.0, abs=0.01))]


def test_the_speed_limit_is_that_of_the_last_sign_passed(both: list[Both]) -> None:
    limits = {route.id: road.speed_limit * 3.6 for route, road, _ in both}
    assert limits["24211"] == pytest.approx(90)  # CARLA's Speed_90, "mph" in the landmark, km/h in the simulator
    assert limits["24224"] == pytest.approx(60)
    assert limits["28154"] == pytest.approx(TOWN_LIMIT * 3.6)  # Town10HD has no speed signs


@pytest.fixture(scope="module")
def graphs(request: pytest.FixtureRequest) -> dict[str, LaneNetwork]:
    folder: Path = request.getfixturevalue("data_dir") / "opendrive"
    return {town: read_town(folder / f"{town}.xodr") for town in TOWNS}


@pytest.mark.parametrize("town", TOWNS)
def test_lanes_are_those_of_carla_map(towns: dict[str, Any], graphs: dict[str, LaneNetwork], town: str) -> None:
    """Place, height, width, direction and permitted lane changes, every 5 m of every driving lane."""
    for waypoint in towns[town].generate_waypoints(5.0):
        lane = graphs[town].lanes[waypoint.road_id, waypoint.section_id, waypoint.lane_id]
        along = waypoint.s - lane.start_s
        along = along if lane.forward else float(lane.road_m[-1]) - along
        found = lane.part3(s := float(np.interp(along, lane.road_m, lane.s)), s)[0]
        place = waypoint.transform.location
        assert math.dist(found, (place.x, -place.y, place.z)) < 0.05
        assert lane.forward == (waypoint.lane_id < 0)
        assert (lane.junction if waypoint.is_junction else -1) == lane.junction
        here = max(int(np.searchsorted(lane.road_m, along, side="right")) - 1, 0)
        permits = [bool(int(waypoint.lane_change) & side) for side in (2, 1)]  # carla.LaneChange: left, right
        assert permits in lane.permits[max(here - 1, 0) : here + 2].tolist()


@pytest.mark.parametrize("every", [1000.0, 50.0, 7.0])
def test_sparse_routes_have_the_same_path(both: list[Both], graphs: dict[str, LaneNetwork], every: float) -> None:
    """Start and end only, one point per 50 m, one per 7 m."""
    for route, road, _ in both:
        at = np.linspace(0, road.path.length, 2 + int(road.path.length / every))
        sparse = replace(route, points=tuple(road.path.pose(s)[:2] for s in at))
        town = graphs[route.town]
        found = RoutePath(line(town, trace(sparse, town, route.town))[0])
        assert found.length == pytest.approx(road.path.length, abs=0.1), route.id
        assert max(abs(road.path.locate(x, y)[1]) for x, y in found.xy) < 0.1, route.id


def test_a_route_of_another_town_is_refused_with_the_town_to_load(
    both: list[Both], towns: dict[str, Any], tmp_path: Path
) -> None:
    route = next(r for r, _, _ in both if r.town == "Town10HD")
    message = f"Town01: route {route.id}: its point 0 .* lies on no lane; the route is of Town10HD"
    with pytest.raises(Ad2Error, match=message):
        carla_road(route, towns["Town01"], tmp_path)


def test_successive_lanes_share_end_points(graphs: dict[str, LaneNetwork]) -> None:
    graph = graphs["Town10HD"]
    for lane in graph.drivable():
        for following in (graph.lanes[k] for k in lane.after):
            assert math.dist(lane.centre[-1], following.centre[0]) < 0.01
            assert lane.key in following.before


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.booleans())
def test_a_star_has_the_same_cost_as_dijkstra(
    graphs: dict[str, LaneNetwork], data: st.DataObject, strict: bool
) -> None:
    graph = graphs["Town10HD"]
    keys = sorted(lane.key for lane in graph.drivable())
    places = []
    for _ in range(2):
        key = data.draw(st.sampled_from(keys))
        places.append((key, round(data.draw(st.floats(0, 1)) * graph.lanes[key].length, 2)))
    search = LaneSearch(graph, places[1], strict)
    fast = a_star(places[0], places[1], search.edges, search.ahead)
    exact = a_star(places[0], places[1], search.edges, lambda _: 0.0)
    assert (fast is None) == (exact is None)
    if fast is not None and exact is not None:
        assert fast[0] == pytest.approx(exact[0], abs=1e-6)
        assert fast[0] >= math.dist(*(search.xy(p) for p in places)) - 1e-6
        assert a_star(places[0], places[1], search.edges, search.ahead, fast[0] - 0.01) is None or fast[0] < 0.01


@pytest.mark.parametrize(("town", "alike"), [("Town01", 0.99), ("Town02", 0.985), ("Town10HD", 0.965)])
def test_surfaces_agree_with_the_embedded_ground(
    graphs: dict[str, LaneNetwork], data_dir: Path, town: str, alike: float
) -> None:
    """0.3, 0.5 and 2 % of the places differ: shoulders within junctions, which Scenic drops, and holes between a
    junction's lanes, which Scenic fills. In the middle of lanes both agree."""
    roads = pytest.importorskip("scenic.domains.driving.roads")
    from closedloop_plugin.worlds.bridge.ground import NetworkGround

    theirs = NetworkGround(
        roads.Network.fromFile(data_dir / "opendrive" / f"{town}.xodr", useCache=False, writeCache=False)
    )
    ground, lanes = TownGround(graphs[town]), graphs[town].drivable()
    middles = np.vstack([lane.centre for lane in lanes])
    rng = np.random.default_rng(5)
    places = middles[rng.integers(len(middles), size=1500)] + rng.uniform(-9, 9, (1500, 2))
    pairs = [(ground.surface(x, y, 0.1), theirs.surface(x, y, 0.1)) for x, y in places]
    assert np.mean([a == b for a, b in pairs]) > alike
    assert len({a for a, _ in pairs}) == 4
    for lane in lanes:
        x, y = lane.centre[len(lane.centre) // 2]
        assert ground.surface(x, y, 0.1) == theirs.surface(x, y, 0.1), lane.key
