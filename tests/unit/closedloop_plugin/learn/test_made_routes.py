from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.learn.contamination import TrainedRoutes, trained_route
from closedloop_plugin.learn.made_routes import known_set, made_routes, write_routes
from closedloop_plugin.learn.route_draws import RouteDraws, drawn_weather
from closedloop_plugin.learn.route_parameters import RECIPES
from closedloop_plugin.maps.build import plan_for
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from lmms_eval_ad2.core.errors import Ad2Error


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AD2_BENCH2DRIVE_ROUTES", raising=False)


@pytest.fixture(scope="module")
def routes() -> list[Route]:
    return made_routes(88, 0)


def test_every_scenario_type_has_a_recipe() -> None:
    assert RECIPES.keys() == CATALOGUE.keys()


def test_each_block_contains_each_type_once(routes: list[Route]) -> None:
    assert Counter(route.scenario for route in routes) == dict.fromkeys(CATALOGUE, 2)
    assert [route.scenario for route in routes[:44]] != [route.scenario for route in routes[44:]]


def test_a_route_depends_on_seed_and_number_only(routes: list[Route]) -> None:
    assert made_routes(20, 0) == routes[:20]
    assert [route.id for route in routes[:2]] == ["m0-000000", "m0-000001"]
    assert made_routes(1, 1)[0].points != routes[0].points


def test_only_the_types_asked_for() -> None:
    found = made_routes(6, 3, types=["Accident", "T_Junction"])
    assert Counter(route.scenario for route in found) == {"Accident": 3, "T_Junction": 3}
    with pytest.raises(Ad2Error, match="no such scenario type: Acident"):
        made_routes(1, 0, types=["Acident"])


def test_the_file_has_the_same_routes(routes: list[Route], tmp_path: Path) -> None:
    write_routes(tmp_path / "made.xml", routes)
    assert [replace(route, suite="") for route in read_routes(tmp_path / "made.xml")] == routes


def test_no_route_repeats_a_known_one(routes: list[Route], tmp_path: Path) -> None:
    """A suite that contains the routes that would be drawn: each is drawn again. Made suites do not count."""
    kept = [replace(route, id=f"r{i}") for i, route in enumerate(routes[:8])]
    write_routes(tmp_path / "home" / "routes" / "known.xml", kept)
    other = made_routes(8, 0)
    assert all(route.points != before.points for route, before in zip(other, routes, strict=False))
    known = TrainedRoutes([known_set(kept)])
    assert not any(known.leak(trained_route(route)) for route in other)
    write_routes(tmp_path / "home" / "routes" / "known.xml", routes[:8])
    assert made_routes(8, 0) == routes[:8]


def test_no_route_repeats_one_of_a_given_set(routes: list[Route]) -> None:
    """Types without parameters on a straight road repeat each other in any two seeds."""
    trained = known_set(routes)
    index = TrainedRoutes([trained])
    alike = [route.id for route in made_routes(44, 1) if index.leak(trained_route(route))]
    other = made_routes(44, 1, unlike=[trained])
    assert alike and not any(index.leak(trained_route(route)) for route in other)
    kept = {route.id for route in other if route in made_routes(44, 1)}
    assert kept == {route.id for route in other} - set(alike)


def test_routes_of_a_set_of_the_same_seed_have_other_ids(routes: list[Route]) -> None:
    """As both collections have seed 0 unless another is given. A block with an id of the set is left out."""
    trained = known_set(routes[:3])
    other = made_routes(8, 0, unlike=[trained])
    assert [route.id for route in other] == [f"m0-{number:06d}" for number in range(44, 52)]
    assert not any(TrainedRoutes([trained]).leak(trained_route(route)) for route in other)
    assert {route.scenario for route in made_routes(44, 0, unlike=[trained])} == set(CATALOGUE)


def test_all_have_the_length_and_parameters_of_their_type(routes: list[Route]) -> None:
    for route in routes:
        assert 60 <= route.length <= 200, route.id
        assert all(name in route.params for name in CATALOGUE[route.scenario].needs), route.id


def test_maps_are_sound_and_contain_the_trigger_point(routes: list[Route]) -> None:
    for route in routes[:44]:
        layout = CATALOGUE[route.scenario].layout
        plan = plan_for(route, layout)
        path = RoutePath(plan.path)
        s, d = path.locate(*route.trigger[:2])
        assert -0.1 <= s <= 35 and abs(d) < 0.2, route.id
        assert not plan.experimental and bool(plan.crossed) == (layout.topology != "corridor"), route.id
        assert np.abs(path.curvature[4:-4]).max() < 0.2 or plan.changes, route.id
        assert bool(plan.changes) == (route.scenario == "SequentialLaneChange"), route.id


def test_flows_run_on_lanes_of_the_map() -> None:
    types = [t.name for t in CATALOGUE.values() if t.needs]
    for route in made_routes(2 * len(types), 4, types=types):
        facts = plan_for(route, CATALOGUE[route.scenario].layout).facts
        lines = [*facts["flows"].values(), *(facts[k] for k in ("mainline", "bicycle") if k in facts)]
        ends = [route.params[name][:2] for name in CATALOGUE[route.scenario].needs]
        gaps = [max(abs(RoutePath(line).locate(*end)[1]) for end in ends) for line in lines]
        assert min(gaps) < 1.5, (route.id, route.scenario)


def test_weather_has_the_shares_of_the_benchmark() -> None:
    weathers = [drawn_weather(RouteDraws("weather", i)) for i in range(1000)]
    shares = [
        np.mean([w.sun_altitude_angle < 0 for w in weathers]),
        np.mean([w.precipitation > 0 for w in weathers]),
        np.mean([w.fog_density > 10 for w in weathers]),
    ]
    assert np.abs(np.array(shares) - [0.24, 0.49, 0.31]).max() < 0.05
