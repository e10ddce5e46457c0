from __future__ import annotations

import math
from dataclasses import replace

from closedloop_plugin.core.routes import Route
from closedloop_plugin.learn.made_routes import geometry_sha256, nearest_overlap
from closedloop_plugin.suites.lookup import suite

DEMO = list(suite("demo").routes)


def moved(route: Route, x: float, y: float, angle: float, **changes: object) -> Route:
    """The route rotated and translated, under another name."""

    def place(p: tuple[float, ...]) -> tuple[float, ...]:
        c, s = math.cos(angle), math.sin(angle)
        return x + p[0] * c - p[1] * s, y + p[0] * s + p[1] * c, *(a + angle for a in p[2:])

    points = tuple(place(p) for p in route.points)
    copy = replace(route, id="copy", suite="", town="Elsewhere", points=points, trigger=place(route.trigger))
    return replace(copy, **changes)


def straight(metres: float = 100.0, **changes: object) -> Route:
    points = tuple((2.0 * i, 0.0) for i in range(int(metres / 2) + 1))
    route = Route("known", "Town", points, "Accident", "Accident_1", (10.0, 0.0, 0.0), {"distance": 40.0}, suite="s")
    return replace(route, **changes)


def test_a_copy_of_each_demo_route_is_found_at_any_place() -> None:
    for i, route in enumerate(DEMO):
        found = nearest_overlap(moved(route, 100.0 * i, -50.0, 0.7 * i), DEMO)
        assert found is not None and (found.route, found.kind) == (f"demo_routes:{route.id}", "shape")


def test_the_same_id_in_the_same_town() -> None:
    found = nearest_overlap(straight(60.0, points=((0.0, 50.0), (60.0, 50.0))), [straight()])
    assert found is not None and (found.kind, found.route) == ("id", "s:known")
    assert nearest_overlap(straight(60.0, town="Other"), [straight()]) is None


def test_a_stretch_of_the_same_town() -> None:
    piece = straight(points=tuple((70.0 + 2.0 * i, 1.0) for i in range(40)), id="piece")
    found = nearest_overlap(piece, [straight()])
    assert found is not None and found.kind == "place" and 28 < found.metres < 36
    short = straight(points=tuple((90.0 + 2.0 * i, 1.0) for i in range(40)), id="piece")
    assert nearest_overlap(short, [straight()]) is None


def test_straight_roads_repeat_each_other_with_the_same_scenario_only() -> None:
    known = [straight()]
    copy = moved(known[0], 500.0, 500.0, 1.0)
    assert nearest_overlap(copy, known) is not None
    assert nearest_overlap(replace(copy, params={"distance": 40.4}), known) is not None
    assert nearest_overlap(replace(copy, params={"distance": 41.0}), known) is None
    assert nearest_overlap(replace(copy, scenario="ParkedObstacle"), known) is None
    later = moved(straight(trigger=(12.0, 0.0, 0.0)), 500.0, 500.0, 1.0)
    assert nearest_overlap(later, known) is None


def test_another_bend_or_a_mirrored_one_is_no_copy() -> None:
    bend = next(route for route in DEMO if nearest_overlap(moved(route, 9e3, 0, 0, scenario="Other"), DEMO))
    mirrored = replace(bend, points=tuple((x, -y) for x, y in bend.points), id="copy", town="Elsewhere")
    assert nearest_overlap(mirrored, DEMO) is None
    stretched = replace(bend, points=tuple((1.02 * x, 1.02 * y) for x, y in bend.points), id="copy", town="Elsewhere")
    assert nearest_overlap(stretched, DEMO) is None


def test_the_hash_knows_the_points_only() -> None:
    route = DEMO[0]
    assert geometry_sha256(replace(route, id="x", town="y", scenario="z")) == geometry_sha256(route)
    assert geometry_sha256(moved(route, 0.2, 0.0, 0.0)) != geometry_sha256(route)
