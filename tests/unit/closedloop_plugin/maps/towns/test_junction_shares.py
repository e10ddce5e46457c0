"""Shares of routes up to their first junction, and what has none."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.closedloop.crossing_town import APPROACH_M, crossing_town, route_along

from closedloop_plugin.core.routes import read_routes
from closedloop_plugin.maps.towns.junction_shares import (
    HOP,
    first_junction_share,
    junction_shares,
    planner_lane,
    planner_waypoints,
)
from closedloop_plugin.maps.towns.lanes import LaneNetwork, read_town
from closedloop_plugin.maps.towns.route_trace import trace
from lmms_eval_ad2.core.errors import Ad2Error


def test_the_share_counts_the_first_waypoint_in_a_junction_and_eight_more() -> None:
    assert first_junction_share(np.array([False, False, True] + [False] * 17)) == (3 + 8) / 20
    assert first_junction_share(np.array([False, True])) == 5.0  # near its end: cannot be passed
    assert first_junction_share(np.zeros(4, dtype=bool)) is None


def test_routes_without_a_share_are_named_with_their_town_or_reason(tmp_path: Path) -> None:
    file = crossing_town(tmp_path / "Town99.xodr")
    routes = [
        route_along([10.2, 12.2, 44.2], id_="1"),
        route_along([4.0, 6.0], id_="2"),
        route_along([44.0, 42.0], id_="3"),  # against the lane
        route_along([4.0, 6.0], id_="4", name="Town12"),
        route_along([4.0, 6.0], id_="5", name="Town12"),
    ]
    found = junction_shares(routes, {"Town99": file})
    assert found.share == {"1": (21 + 8) / 35}
    assert found.without_map == {"Town12": ("4", "5")}
    assert found.unknown.keys() == {"2", "3"}
    assert "route 2 crosses no junction" in found.unknown["2"]
    assert "lies on no lane" in found.unknown["3"]


def test_a_file_that_is_no_map_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "x.xodr").write_text("hello")
    with pytest.raises(Ad2Error, match="not an OpenDRIVE file") as caught:
        junction_shares([route_along([4.0, 6.0])], {"Town99": tmp_path / "x.xodr"})
    assert str(tmp_path / "x.xodr") in str(caught.value)


TOWNS = ("Town01", "Town02", "Town10HD")
# route -> (waypoints, those up to the first in a junction) by GlobalRoutePlanner (hop 1 m) on carla.Map 0.9.16
COUNTS = {
    "24211": (67, None), "24781": (65, None), "24841": (132, None), "28035": (126, 77),
    "24294": (104, None), "24784": (104, None), "28048": (70, 17),
    "24240": (81, None), "24330": (81, None), "24340": (81, None), "28154": (159, 80),
}  # fmt: skip
ALMOST = {"24224": (110, None)}  # in Town02; ours 111: a waypoint just 1 m from the end of its lane


def town(tmp_path: Path, height: str = "") -> LaneNetwork:
    return read_town(crossing_town(tmp_path / "t.xodr", height))


def test_waypoints_of_a_lane_are_a_metre_apart_up_to_a_metre_before_its_end(tmp_path: Path) -> None:
    here = town(tmp_path)
    lane = planner_lane(here, here.lanes[(1, 0, -1)])
    # 30.5 m: 0, 1, ... 29 are more than 1 m from the end, 30 is not; then the end, on the connecting road.
    assert lane.xyz[:, 0] == pytest.approx([*range(30), APPROACH_M])
    assert lane.junction.tolist() == [False] * 30 + [True]


def test_points_2_m_apart_give_one_or_two_waypoints_each(tmp_path: Path) -> None:
    """From x = 3.3, the nearest waypoint is 3: 2.3 m from the next point 5.3, so a second one, 4, follows."""
    here = town(tmp_path)
    near = [3.3, 5.3, 7.3]
    assert len(planner_waypoints(route_along(near), here, "t")) == 4
    beyond = [3.6, 5.6, 7.6]  # from the waypoint 4, 1.6 m before 5.6: one each
    assert len(planner_waypoints(route_along(beyond), here, "t")) == 2


def test_a_gap_across_the_junction_is_filled(tmp_path: Path) -> None:
    """Points at 10.2, 12.2 and 44.2; roads begin at 0, 30.5 and 40.

    10, 11 | 12 ... 29; the end 30.5, already in the junction | 30.5 ... 38.5; the end 40 | 40, 41, 42, 43
    """
    flags = planner_waypoints(route_along([10.2, 12.2, 44.2]), town(tmp_path), "t")
    assert flags.tolist() == [False] * 20 + [True] * (1 + 9) + [False] * (1 + 4)


def test_a_slope_lengthens_the_distance_to_the_next_point(tmp_path: Path) -> None:
    """Between waypoint 4 and point 5.99: 1.99 m seen from above, 2.04 m on a slope of 0.2, so another waypoint."""
    points = [4.0, 5.99]
    assert len(planner_waypoints(route_along(points), town(tmp_path), "t")) == 1
    steep = '<elevationProfile><elevation s="0" a="3" b="0.2" c="0" d="0"/></elevationProfile>'
    assert len(planner_waypoints(route_along(points), town(tmp_path, steep), "t")) == 2


def test_a_lane_change_skips_five_waypoints(tmp_path: Path) -> None:
    """The place before, a waypoint of the new lane 5 further than beside it, and that one again: already beyond."""
    flags = planner_waypoints(route_along([4.0, 6.0], lanes=(0, 1)), town(tmp_path), "t")
    assert len(flags) == 3


@pytest.mark.integration
def test_counts_on_real_towns_are_those_of_the_planner(data_dir: Path) -> None:
    towns = {name: read_town(data_dir / "opendrive" / f"{name}.xodr") for name in TOWNS}
    found = {}
    for route in read_routes(data_dir / "bench2drive" / "bench2drive220.xml"):
        if route.town in towns:
            flags = planner_waypoints(route, towns[route.town], route.town)
            found[route.id] = (len(flags), int(flags.argmax()) + 1 if flags.any() else None)
    assert {route: found[route] for route in COUNTS} == COUNTS
    assert found.keys() == COUNTS.keys() | ALMOST.keys()
    for route, (n, first) in ALMOST.items():
        assert abs(found[route][0] - n) <= 1 and found[route][1] == first


@pytest.mark.integration
@pytest.mark.parametrize("name", TOWNS)
def test_lanes_and_places_are_those_of_carla(data_dir: Path, name: str) -> None:
    """Along the routes: waypoints and junctions as CARLA's topology, `next` and is_junction; places as get_waypoint."""
    carla = pytest.importorskip("carla")
    file = data_dir / "opendrive" / f"{name}.xodr"
    here, there = read_town(file), carla.Map(name, file.read_text())
    entries = {(a.road_id, a.section_id, a.lane_id): (a, b) for a, b in there.get_topology()}
    routes = [r for r in read_routes(data_dir / "bench2drive" / "bench2drive220.xml") if r.town == name]
    assert len(routes) == 4
    for route in routes:
        spots, legs = trace(route, here, file)
        for key in {key for leg in legs for key in leg.lanes}:
            _same_waypoints(planner_lane(here, here.lanes[key]), *entries[key])
        for spot, (x, y) in zip(spots, route.points, strict=True):
            found = there.get_waypoint(carla.Location(x, -y, 0.0))
            if (found.road_id, found.section_id, found.lane_id) != spot.lane:
                continue  # where lanes join, or overlap
            place = planner_lane(here, here.lanes[spot.lane]).place(np.array([x, y]))
            at = found.transform.location
            assert place[:2] == pytest.approx([at.x, -at.y], abs=0.01), route.id


def _same_waypoints(lane, entry, end) -> None:  # type: ignore[no-untyped-def]
    """`entry`, `end`: carla.Waypoint of a lane's start and of its successor's."""
    goal = end.transform.location
    expected, here = [entry], entry.next(HOP)[0]
    while here.transform.location.distance(goal) > HOP:
        expected.append(here)
        here = here.next(HOP)[0]
    places = np.array([(w.transform.location.x, -w.transform.location.y) for w in [*expected, end]])
    if abs(len(lane.xyz) - len(places)) == 1:  # the last one is 1 m from the end within CARLA's float32
        assert abs(math.dist(lane.xyz[-1], lane.xyz[-2]) - HOP) < 1e-3 or (
            abs(math.dist(places[-1], places[-2]) - HOP) < 1e-3
        )
        return
    assert lane.xyz[:, :2] == pytest.approx(places, abs=0.01)
    assert lane.junction.tolist() == [w.is_junction for w in [*expected, end]]
