"""Maps built from routes alone: small routes with hand-computed results, and the written files."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.build import plan_for, road_for, waypoint_errors
from closedloop_plugin.maps.towns.lanes import read_town
from lmms_eval_ad2.core.errors import Ad2Error


def line(a: tuple[float, float], b: tuple[float, float], step: float = 2.0) -> list[tuple[float, float]]:
    n = round(math.dist(a, b) / step)
    return [(a[0] + (b[0] - a[0]) * i / n, a[1] + (b[1] - a[1]) * i / n) for i in range(n + 1)]


def route(points: list[tuple[float, float]], trigger: tuple[float, float, float] = (10, 0, 0), **params) -> Route:
    return Route("7", "Nowhere", tuple(points), "Accident", "Accident_1", trigger, params, suite="own")


STRAIGHT = route(line((0, 0), (100, 0)))
# East, a gap, then north: the dividers (1.75 m left of each) cross at (18.25, 1.75) from the entry's end.
LEFT_TURN = route([*line((0, 0), (24, 0)), *line((44, 20), (44, 50))])
AHEAD = route([*line((0, 0), (24, 0)), *line((56, 0), (90, 0))])


def lanes_at(road, x: float, y: float) -> list[str]:
    """Kinds of the lanes outside junctions whose middle passes within 0.3 m."""
    town = read_town(road.file)
    return [
        lane.kind
        for lane in town.lanes.values()
        if np.hypot(*(lane.centre - (x, y)).T).min() < 0.3 and lane.kind != "none"
    ]


def test_lanes_match_the_layout(tmp_path: Path) -> None:
    road = road_for(STRAIGHT, RoadLayout(left=1, right=1, parking="right"), folder=tmp_path)
    assert waypoint_errors(STRAIGHT, road).max() < 0.01
    for y, kind in ((0, "driving"), (3.5, "driving"), (-3.5, "driving"), (7, "driving"), (-6.4, "parking")):
        assert lanes_at(road, 50, y) == [kind], y
    assert lanes_at(road, 50, 9.5) == ["shoulder"]  # 8.75 to 10.25, beyond the oncoming lane
    directions = {lane.forward for lane in read_town(road.file).drivable() if abs(lane.centre[0, 1] - 7) < 0.3}
    assert directions == {False}  # oncoming
    assert road.facts["lanes"] == {"left": 1, "right": 1, "oncoming": 1}
    assert [p.geometry for p in road.pieces] == ["measured"]
    assert road.path.length == pytest.approx(100, abs=0.01)


def test_the_middle_line_may_be_crossed_only_on_a_two_lane_road(tmp_path: Path) -> None:
    texts = [
        road_for(STRAIGHT, RoadLayout(left=n, oncoming=o), folder=tmp_path).file.read_text()
        for n, o in ((0, 1), (1, 1), (0, 0))
    ]
    marks = [t.split("<center>")[1].split("</center>")[0] for t in texts]
    assert 'type="broken"' in marks[0]
    assert 'color="yellow"' in marks[0]
    assert 'type="solid solid"' in marks[1]
    assert 'type="solid" weight="standard" color="standard"' in marks[2]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    a = road_for(LEFT_TURN, RoadLayout("junction", control="signal"), folder=tmp_path / "a")
    b = road_for(LEFT_TURN, RoadLayout("junction", control="signal"), folder=tmp_path / "b")
    assert (a.sha256, a.file.name, a.file.read_bytes()) == (b.sha256, b.file.name, b.file.read_bytes())
    assert [f.name for f in (tmp_path / "a").iterdir()] == [a.file.name]  # no temporary file is left


def test_a_route_that_jumps_lanes_keeps_a_smooth_road(tmp_path: Path) -> None:
    points = [*line((0, 0), (40, 0), 5), *line((45, 3.5), (80, 3.5), 5), *line((85, 7), (120, 7), 5)]
    road = road_for(route(points), RoadLayout(oncoming=0), folder=tmp_path)
    assert [side for _, _, side in road.changes] == [1, 1]
    assert [(a + b) / 2 for a, b, _ in road.changes] == pytest.approx([42.5, 82.5], abs=1.0)
    assert road.facts["lanes"] == {"left": 2, "right": 0, "oncoming": 0}
    assert waypoint_errors(route(points), road).max() < 1.1
    assert abs(np.diff(road.path.yaw)).max() < math.radians(3)
    for y in (0, 3.5, 7):
        assert lanes_at(road, 100, y) == ["driving"]


def test_a_four_arm_junction_has_the_hand_computed_arms(tmp_path: Path) -> None:
    road = road_for(LEFT_TURN, RoadLayout("junction", control="signal"), folder=tmp_path)
    assert road.junctions[0] == pytest.approx((24, 24 + road.junctions[0][1] - road.junctions[0][0]))
    arms = {arm["name"]: arm for arm in road.facts["junction"]["arms"]}
    assert set(arms) == {"entry", "exit", "ahead", "right"}
    assert arms["entry"]["in"] == pytest.approx([24, 0, 0], abs=1e-3)
    assert arms["entry"]["out"] == pytest.approx([24, 3.5, math.pi], abs=1e-3)
    assert arms["exit"]["out"] == pytest.approx([44, 20, math.pi / 2], abs=1e-3)
    # Dividers cross at x = 44 - 1.75, y = 1.75: the opposite arms begin as far beyond.
    assert arms["ahead"]["in"] == pytest.approx([60.5, 3.5, math.pi], abs=1e-3)
    assert arms["right"]["in"] == pytest.approx([44, -16.5, math.pi / 2], abs=1e-3)
    assert len(road.facts["flows"]) == 12
    own = [s for s in road.stop_lines if s.on_route]
    assert [(s.id, s.control) for s in own] == [("entry", "signal")]
    assert (own[0].x, own[0].y, own[0].yaw, own[0].width) == pytest.approx((24, 0, 0, 3.5))
    assert len(road.stop_lines) == 4
    assert [p.geometry for p in road.pieces] == ["measured", "interpolated", "measured"]


def test_flows_extend_60_m_before_and_after_the_junction(tmp_path: Path) -> None:
    road = road_for(LEFT_TURN, RoadLayout("junction"), folder=tmp_path)
    flow = np.array(road.facts["flows"]["ahead->entry"])
    assert flow[0] == pytest.approx((120.5, 3.5), abs=0.1)
    assert flow[-1] == pytest.approx((-36, 3.5), abs=0.1)
    assert np.hypot(*np.diff(flow, axis=0).T).max() < 1.01
    assert road.stop_lines == ()  # control "none"


def test_arms_of_a_t_junction_and_of_a_straight_crossing(tmp_path: Path) -> None:
    t = road_for(LEFT_TURN, RoadLayout("junction", arms=3), folder=tmp_path)
    assert [a["name"] for a in t.facts["junction"]["arms"]] == ["entry", "exit", "ahead"]
    flow = {"start_actor_flow": (42.0, -30.0, 0.0), "end_actor_flow": (70.0, 0.0, 0.0)}
    straight = road_for(route(list(AHEAD.points), **flow), RoadLayout("junction"), folder=tmp_path)
    arms = {a["name"]: a for a in straight.facts["junction"]["arms"]}
    assert set(arms) == {"entry", "exit", "left", "right"}
    assert arms["right"]["in"][0] == pytest.approx(42.0)  # placed at the start of the route's flow


def test_a_long_gap_is_mostly_filled_with_road(tmp_path: Path) -> None:
    long = route([*line((0, 0), (24, 0)), *line((90, 20), (90, 50))])
    road = road_for(long, RoadLayout("junction", control="stop"), folder=tmp_path)
    (a, b) = road.junctions[0]
    assert a == pytest.approx(70.0, abs=0.1)  # 20 m before the corner at x = 90
    assert b < a + 40
    assert road.stop_lines[0].route_s == pytest.approx(a)


def test_the_bicycle_lane_is_beyond_the_oncoming_lane(tmp_path: Path) -> None:
    road = road_for(LEFT_TURN, RoadLayout("junction", bicycle=True), folder=tmp_path)
    line_ = np.array(road.facts["bicycle"])
    assert line_[:, 1] == pytest.approx(np.full(len(line_), 8.75), abs=1e-3)  # 5.25 m beyond the oncoming lane
    assert line_[0, 0] > line_[-1, 0]  # towards the ego
    assert lanes_at(road, 0, 8.75) == ["biking"]


def test_a_route_without_a_gap_still_gets_its_junction(tmp_path: Path) -> None:
    dense = route([*line((0, 0), (30, 0)), *line((32, 2), (32, 40))])
    road = road_for(dense, RoadLayout("junction"), folder=tmp_path)
    assert road.junctions[0][0] < 31 < road.junctions[0][1]
    assert [p.geometry for p in road.pieces] == ["measured"] * 3
    plain = road_for(STRAIGHT, RoadLayout("junction"), folder=tmp_path)
    assert 20 < plain.junctions[0][0] < plain.junctions[0][1] < 50


def test_parking_on_the_left_makes_a_one_way_road(tmp_path: Path) -> None:
    road = road_for(route(list(STRAIGHT.points), direction="left"), RoadLayout(parking="both"), folder=tmp_path)
    assert road.facts["lanes"]["oncoming"] == 0
    assert lanes_at(road, 50, 2.9) == ["parking"]


@pytest.mark.parametrize("wrong", [RoadLayout("spiral"), RoadLayout("junction", arms=5), RoadLayout(left=-1)])
def test_a_layout_that_cannot_be_built_is_refused(tmp_path: Path, wrong: RoadLayout) -> None:
    with pytest.raises(Ad2Error):
        road_for(STRAIGHT, wrong, folder=tmp_path)


def test_an_unwritable_cache_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Ad2Error, match="another cache folder"):
        road_for(STRAIGHT, RoadLayout(), folder=tmp_path / "file")


def test_the_mainline_of_a_highway_exit_continues_straight(tmp_path: Path) -> None:
    """Exit to the right; the flow is in the lane between, at y = -3.5."""
    slip = [(80 + 2 * i * math.cos(-0.3), -14 + 2 * i * math.sin(-0.3)) for i in range(15)]
    leaving = route(
        [*line((0, 0), (24, 0)), *slip], start_actor_flow=(-20.0, -3.5, 0.0), end_actor_flow=(95.0, -3.5, 0.0)
    )
    road = road_for(leaving, RoadLayout("diverge", oncoming=0), folder=tmp_path)
    main = np.array(road.facts["mainline"])
    assert main[:, 1] == pytest.approx(np.full(len(main), -3.5), abs=0.01)
    assert not road.experimental
    assert road.speed_limit == pytest.approx(25.0)
    assert road.facts["lanes"] == {"left": 0, "right": 1, "oncoming": 0}


def test_a_ramp_on_top_of_the_road_it_joins_is_experimental(tmp_path: Path) -> None:
    road = road_for(AHEAD, RoadLayout("merge", oncoming=0), folder=tmp_path)
    assert road.experimental


@pytest.mark.parametrize(
    ("radius", "turn", "one"),
    [(60.0, 170, True), (60.0, 200, False), (9.0, 90, False), (9.0, -90, True)],
    ids=["half a circle", "more than that", "left, where three lanes fold", "right, with one lane"],
)
def test_a_dense_road_that_would_meet_itself_is_several_in_series(radius: float, turn: float, one: bool) -> None:
    angles = np.radians(np.arange(0.0, abs(turn) + 0.1, math.degrees(2 / radius)))
    arc = [(40 + radius * math.sin(a), math.copysign(radius, turn) * (1 - math.cos(a))) for a in angles]
    plan = plan_for(route([*line((0, 0), (38, 0)), *arc]), RoadLayout(shoulder=False))
    assert (len(plan.roads) == 1) == one
    assert all(b.before and b.before.id == a.id for a, b in pairwise(plan.roads))
