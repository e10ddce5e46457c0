"""The bounds follow from PDM-Lite's public result file and its official ability figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from closedloop_plugin.core.routes import read_routes
from closedloop_plugin.scoring.ability import ABILITIES, ShareBelow
from closedloop_plugin.scoring.junction_bounds import _table, known_bounds
from closedloop_plugin.scoring.official import read


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
