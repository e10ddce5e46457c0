"""Planted copies of measured routes are found in training sets, and roads that only resemble them are not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.closedloop.planted import CLEAN, PLANTED, made, moved

from closedloop_plugin.core.routes import Route
from closedloop_plugin.learn.contamination import (
    RouteContamination,
    TrainedRoutes,
    contamination,
    town_name,
    trained_route,
)
from lmms_eval_ad2.storage.training_card import TrainedRoute, TrainingCard, TrainingSet

PER_KIND = 10


def compared(trained: Sequence[Route], measured: Sequence[Route], map_source: str = "corridor") -> RouteContamination:
    routes = tuple(trained_route(route, map_source) for route in trained)
    card = TrainingCard((TrainingSet("made", routes=routes),))
    return contamination([card], [trained_route(route, map_source) for route in measured])


def suite_and_set(seed: str) -> tuple[list[Route], list[Route], random.Random]:
    """8 measured routes and 4 trained ones that have nothing in common."""
    rng = random.Random(seed)
    return (
        [made(rng, f"suite-{i}", "suite") for i in range(8)],
        [made(rng, f"m0-{i}", "routes") for i in range(4)],
        rng,
    )


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_route_is_found(name: str) -> None:
    """100 sets, ten of each of ten kinds."""
    kind, change = PLANTED[name]
    for number in range(PER_KIND):
        suite, trained, rng = suite_and_set(f"{name} {number}")
        victim = suite[rng.randrange(len(suite))]
        found = compared([*trained, change(victim, rng)], suite)
        assert {leak.route: leak.kind for leak in found.leaks} == {victim.id: kind}, number
        assert found.n == 8 and found.text() == f"trained on 1 of these 8 routes ({kind} 1)"


@pytest.mark.parametrize("name", CLEAN)
def test_a_similar_road_is_no_leak(name: str) -> None:
    """100 clean sets, ten of each of ten kinds, each with a similar road for every measured route."""
    for number in range(PER_KIND):
        suite, trained, rng = suite_and_set(f"{name} {number}")
        found = compared([*trained, *(CLEAN[name](route, rng) for route in suite)], suite)
        assert not found.leaks, [leak.text() for leak in found.leaks]


def test_a_shape_elsewhere_is_the_same_road_on_built_maps_only() -> None:
    route = made(random.Random(0), "1", "suite")
    copy = replace(moved(route, 1.0, 5000.0, 0.0), id="other")
    assert [leak.kind for leak in compared([copy], [route]).leaks] == ["same_shape"]
    assert not compared([copy], [route], "town").leaks


def test_towns_are_compared_without_carlas_suffix_and_unknown_ones_match_all() -> None:
    route = made(random.Random(0), "1", "suite")
    named = [replace(route, id="other", town=town, scenario="") for town in (f"{route.town}_Opt", "", "Town09")]
    assert [len(compared([one], [route]).leaks) for one in named] == [1, 1, 0]
    assert town_name("Town10HD_Opt") == "town10hd"


def test_text_and_metadata_of_several_leaks() -> None:
    rng = random.Random(3)
    suite = [made(rng, str(i), "suite") for i in range(6)]
    found = compared([replace(route, id=f"m0-{route.id}") for route in suite[:5]], suite)
    assert found.text() == "trained on 5 of these 6 routes (same_geometry 5)"
    assert found.examples() == [f"same_geometry: {i} is in made as m0-{i}, 100 % of the shorter one" for i in range(3)]
    assert found.of(["0", "5"]).text() == "trained on 1 of these 2 routes (same_geometry 1)"
    about = found.to_dict()
    assert about["routes"]["4"] == {"kind": "same_geometry", "set": "made", "trained": "m0-4"}
    assert about["cards"] == [{"model": None, "sha256": "", "sets": ["made"]}] and about["named"]


@pytest.mark.parametrize("order", [1, -1])
def test_routes_of_two_files_with_equal_ids_are_counted_alone(order: int) -> None:
    """Ids of made routes are m<seed>-<n>, whatever their types."""
    rng = random.Random(5)
    first, second = made(rng, "m0-1", "a"), made(rng, "m0-1", "b")
    known = replace(first, id="x"), replace(second, id="y")
    found = compared(known[:1], [first, second][::order])
    assert found.text() == "trained on 1 of these 2 routes (same_geometry 1)"
    assert compared(known, [first, second]).text() == "trained on 2 of these 2 routes (same_geometry 2)"


def test_a_name_of_several_lines_is_shown_in_one() -> None:
    named = TrainingSet("made\nad2: clean\x1b[2J", routes=(TrainedRoute("2790"),))
    found = contamination([TrainingCard((named,))], [TrainedRoute("2790")])
    assert found.line().endswith(r"e.g. same_id: 2790 is in made\nad2: clean\x1b[2J as 2790")


def test_routes_without_points_are_compared_by_id_alone() -> None:
    index = TrainedRoutes(
        [TrainingSet("named", routes=(TrainedRoute("2790"), TrainedRoute("x", points=((1.0, 1.0),))))]
    )
    route = trained_route(made(random.Random(0), "2790", "bench2drive220"))
    leak = index.leak(route)
    assert leak is not None and leak.text() == "same_id: 2790 is in named as 2790"
