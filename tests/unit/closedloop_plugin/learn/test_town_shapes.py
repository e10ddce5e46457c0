from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.closedloop.made_town import town

from closedloop_plugin.core.routes import Route
from closedloop_plugin.learn.contamination import TrainedRoutes, trained_route
from closedloop_plugin.learn.made_routes import known_set, made_routes
from closedloop_plugin.learn.town_shapes import IN_TOWNS, along, pose_at
from closedloop_plugin.maps.build import waypoint_errors
from closedloop_plugin.maps.towns.town_road import town_road
from closedloop_plugin.scenarios.catalogue import CATALOGUE


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AD2_BENCH2DRIVE_ROUTES", raising=False)


def in_town(routes: list[Route], name: str) -> list[Route]:
    return [route for route in routes if route.town == name]


def test_half_of_the_routes_are_on_a_road_of_the_town(tmp_path: Path) -> None:
    street = town(tmp_path, "ControlLoss", "Street")
    routes = in_town(made_routes(40, 2, types=["ControlLoss"], towns=[street]), "Street")
    assert 12 <= len(routes) <= 28
    assert made_routes(10, 2, types=["ControlLoss"], towns=[street])[-1].id == "m2-000009"
    for route in routes[:4]:
        road = town_road(route, street, tmp_path / "maps")
        s, d = road.path.locate(*route.trigger[:2])
        assert waypoint_errors(route, road).max() < 0.1 and not road.junctions, route.id
        assert 8.5 < s < 15.5 and abs(d) < 0.1 and abs(road.path.length - route.length) < 1.0, route.id


def test_only_roads_with_the_lanes_of_the_type(tmp_path: Path) -> None:
    street = town(tmp_path, "ControlLoss", "Street")  # one lane in each direction
    assert in_town(made_routes(12, 3, types=["ParkedObstacleTwoWays"], towns=[street]), "Street")
    assert not in_town(made_routes(12, 3, types=["ParkedObstacle"], towns=[street]), "Street")
    assert not in_town(made_routes(12, 3, types=["T_Junction"], towns=[street]), "Street")


def test_turns_at_the_lights_of_the_town(tmp_path: Path) -> None:
    crossing = town(tmp_path, "T_Junction", "Crossing")
    routes = in_town(made_routes(12, 4, types=["T_Junction"], towns=[crossing]), "Crossing")
    assert routes
    for route in routes:
        road = town_road(route, crossing, tmp_path / "maps")
        assert len(road.junctions) == 1 and any(line.on_route for line in road.stop_lines), route.id
        turn = np.degrees(road.path.pose(road.path.length)[2] - road.path.pose(0.0)[2])
        assert abs((turn + 180) % 360 - 180) > 30 and route.length >= 60, route.id


def test_a_stretch_of_a_known_route_of_the_town_is_not_used_again(tmp_path: Path) -> None:
    street = town(tmp_path, "ControlLoss", "Street")
    first, second = in_town(made_routes(20, 5, types=["ControlLoss"], towns=[street]), "Street")[:2]
    other = replace(first, id="known", scenario="Other", params={"a": 1.0})
    assert TrainedRoutes([known_set([other])]).leak(trained_route(first)) is not None
    piece = replace(second, points=first.points[5:])
    assert TrainedRoutes([known_set([piece])]).leak(trained_route(replace(first, id="x"))) is not None


def test_types_of_towns_need_no_places_in_the_route_file() -> None:
    assert CATALOGUE.keys() >= IN_TOWNS
    assert not any(CATALOGUE[name].needs or CATALOGUE[name].layout.parking for name in IN_TOWNS)


def test_points_and_poses_along_a_line() -> None:
    line = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 6.0]])
    assert np.allclose(along(line, 2.0, 8.0), [[2, 0], [4, 0], [4, 2], [4, 4]])
    assert pose_at(along(line, 0.0, 10.0), 7.0) == pytest.approx((4.0, 3.0, np.pi / 2))
