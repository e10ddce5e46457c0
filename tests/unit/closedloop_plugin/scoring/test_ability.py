"""Five abilities, Skill Score, and both variants of Traffic_Signs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.scored import record

from closedloop_plugin.core.routes import read_routes
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scoring.ability import (
    ABILITIES,
    ShareBelow,
    _table,
    known_bounds,
    of_type,
    passed_junction,
    skill_score,
    skills,
    untested,
)
from closedloop_plugin.scoring.official import read
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error

SIGN = "T_Junction"
HIT = {"collisions_vehicle": ["x"]}
RED = {"red_light": ["x"]}


def signs(records: list[OfficialRecord], variant: str, junctions=None):
    return skills([(SIGN, r) for r in records], variant, junctions)["Traffic_Signs"]


def test_abilities_have_the_official_numbers_of_types() -> None:
    assert {name: len(types) for name, types in ABILITIES.items()} == {
        "Overtaking": 9, "Merging": 16, "Emergency_Brake": 12, "Give_Way": 2, "Traffic_Signs": 19,
    }  # fmt: skip
    assert of_type("EnterActorFlow") == ("Merging", "Traffic_Signs")
    assert of_type("BlockedIntersection") == ("Emergency_Brake", "Traffic_Signs")
    assert of_type("nothing") == ()


def test_abilities_have_the_types_of_the_catalogue() -> None:
    for name, types in ABILITIES.items():
        assert types == {kind for kind, info in CATALOGUE.items() if name in info.abilities}


def test_every_type_of_the_routes_has_an_ability(data_dir: Path) -> None:
    """Five routes per type; the published denominators are 45, 80, 60, 10, 95."""
    routes = read_routes(data_dir / "bench2drive" / "bench2drive220.xml")
    counts = Counter(name for r in routes for name in of_type(r.scenario))
    assert counts == {"Overtaking": 45, "Merging": 80, "Emergency_Brake": 60, "Give_Way": 10, "Traffic_Signs": 95}
    assert all(of_type(r.scenario) for r in routes)


def test_v003_counts_every_route_twice() -> None:
    # success, passed | collision, passed | red light | not reached: S = 1, J = 2, N = 4
    records = [
        record("1", scenario=SIGN),
        record("2", scenario=SIGN, score=60.0, infractions=HIT),
        record("3", scenario=SIGN, infractions=RED),
        record("4", scenario=SIGN, score=20.0, status="Failed"),
    ]
    junctions = {r.route_id: 0.4 for r in records}
    old, new = (signs(records, variant, junctions) for variant in ("v0.0.3", "v0.0.4"))
    assert old.percent == pytest.approx(100 * (1 + 2) / 8)
    assert new.percent == pytest.approx(100 * 2 / 4)  # the success, and the collision credited
    assert not old.partial and not new.partial


def test_traffic_signs_without_the_map_are_s_over_n_and_partial() -> None:
    records = [record("1"), record("2", infractions=HIT), record("3", infractions=RED), record("4", score=0.0)]
    found = signs(records, "v0.0.3", {"1": 0.5})
    assert found.partial
    assert found.untested == 1  # only route 2: a red light and no metre driven need no map
    assert found.percent == 50.0  # 1 and 4 are successes by their status
    # successes 1 and 4; 1 passed, 4 drove nothing; if route 2 passed: (2 + 2) / 8, otherwise (2 + 1) / 8
    assert found.at_most == pytest.approx(50.0)
    assert found.at_least == pytest.approx(37.5)


def test_v004_needs_a_map_for_failed_records_only() -> None:
    records = [record("1", scenario=SIGN), record("2", scenario=SIGN, score=60.0, infractions=HIT)]
    pairs = [(SIGN, r) for r in records] + [("Accident", record("3"))]
    assert untested(pairs, "v0.0.4", {}) == ("2",)
    assert untested(pairs, "v0.0.3", {}) == ("1", "2")
    assert untested(pairs, "v0.0.3", {"1": ShareBelow(100), "2": ShareBelow(100)}) == ("2",)
    assert not signs(records, "v0.0.4", {"2": 0.7}).partial
    assert signs(records, "v0.0.3", {"2": 0.7}).partial


@pytest.mark.parametrize(
    ("score", "lists", "fact", "passed"),
    [
        (41.0, {}, 0.4, True),
        (40.0, {}, 0.4, False),  # must be exceeded
        (41.0, RED, 0.4, False),
        (41.0, {"stop_infraction": ["x"]}, 0.4, False),
        (41.0, {}, True, True),
        (41.0, {}, False, False),
        (41.0, {}, ShareBelow(41.0), True),  # the share is less
        (40.9, {}, ShareBelow(41.0), None),
        (41.0, RED, ShareBelow(41.0), False),
        (0.0, {}, None, False),
        (41.0, {}, None, None),
        (100.0, {}, None, None),  # the junction may be at the very end
    ],
)
def test_when_a_junction_counts_as_passed(
    score: float, lists: dict, fact: float | bool | ShareBelow | None, passed: bool | None
) -> None:
    facts = {} if fact is None else {"1": fact}
    assert passed_junction(record("1", score=score, infractions=lists), facts) is passed


def test_the_junction_count_of_our_records_is_used() -> None:
    plain = record("1", score=50.0)
    for n, passed in ((0, False), (2, True)):
        for junctions in ({}, {"1": ShareBelow(50.0)}):
            assert passed_junction(OfficialRecord(**{**vars(plain), "junctions_passed": n}), junctions) is passed


def test_skill_score_is_the_mean_of_five() -> None:
    types = {"Accident": 2, "HighwayExit": 1, "ControlLoss": 1, "InvadingTurn": 4, SIGN: 1}
    pairs = [
        (kind, record(f"{kind}{i}", infractions={} if i == 0 else HIT)) for kind, n in types.items() for i in range(n)
    ]
    found = skills(pairs, "v0.0.3", {f"{SIGN}0": True})
    assert [s.percent for s in found.values()] == [50.0, 100.0, 100.0, 25.0, 100.0]
    assert skill_score(found) == 75.0
    assert skill_score(skills(pairs[:-1])) is None  # no Traffic_Signs: no value, not 0


def test_an_unknown_variant_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Ad2Error, match=r"v0\.0\.3, v0\.0\.4"):
        skills([], "v1")


def test_the_table_is_what_pdm_lite_drove(data_dir: Path) -> None:
    folder = data_dir / "bench2drive"
    routes = {route.id: route for route in read_routes(folder / "bench2drive220.xml")}
    records = read([folder / "pdm_lite_results.json"]).records
    signs = [r for r in records if routes[r.route_id].scenario in ABILITIES["Traffic_Signs"]]
    able = [r for r in signs if r.score_route and not r.infractions["red_light"] + r.infractions["stop_infraction"]]
    # (successes + passed) / 2 N is the official figure only if every record passed that can.
    figure = json.loads((folder / "pdm_lite_ability.json").read_text())["Traffic_Signs"]
    assert (sum(r.success for r in signs) + len(able)) / (2 * len(signs)) == pytest.approx(figure, abs=1e-12)
    assert known_bounds(routes.values()) == {r.route_id: ShareBelow(r.score_route) for r in able}
    assert len(_table()) == len(able) == 91


def test_other_routes_of_the_same_ids_have_no_bounds(data_dir: Path) -> None:
    routes = read_routes(data_dir / "bench2drive" / "bench2drive220.xml")
    assert known_bounds(replace(route, town="Town99") for route in routes) == {}
    assert known_bounds(replace(route, points=route.points[1:]) for route in routes) == {}
    later = known_bounds(read_routes(data_dir / "bench2drive" / "bench2drive_0.0.4_val.xml"))
    assert set(later) == {"4183", "26990"}, "the same two routes in both files"
