"""Faults of routes and maps, found before a drive: refused, or left out by name; never a driver's 0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.runs import SUITE

from closedloop_plugin.cli.drive.score import left_out_of
from closedloop_plugin.core.routes import Route, RouteScenario, read_routes
from closedloop_plugin.runner.assemble import _selection_json
from closedloop_plugin.runner.options import drive_options
from closedloop_plugin.runner.routes import (
    check_mapped,
    drivable,
    left_out_note,
    not_played,
    suite_subject,
    towns_of,
    unmapped,
    without,
)
from closedloop_plugin.scenarios.suites.lookup import Suite
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.identity import read_run

ZIGZAG = ((0, 0), (20, 0), (1, 0), (21, 0), (2, 0))
ROUTE = '<route id="{}" town="Town99"><waypoints>{}</waypoints><scenarios>{}</scenarios></route>'
CUSTOM = '<scenario name="c" type="CustomObstacle"><trigger_point x="9" y="0" yaw="0" z="0"/></scenario>'
FAULTY = CUSTOM.replace("CustomObstacle", "Accident").replace("<trigger", '<distance value="far"/><trigger')


def route(id_: str, points: tuple[tuple[float, float], ...] = ((0, 0), (90, 0))) -> Route:
    return Route(id_, "Town99", points, "", "", (0, 0, 0))


def write(tmp_path: Path, *routes: tuple[str, tuple[tuple[float, float], ...], str]) -> Path:
    rows = [
        ROUTE.format(id_, "".join(f'<position x="{x}" y="{y}" z="0"/>' for x, y in points), scenarios)
        for id_, points, scenarios in routes
    ]
    (tmp_path / "mine.xml").write_text(f"<routes>{''.join(rows)}</routes>")
    return tmp_path / "mine.xml"


STRAIGHT = ((0, 0), (90, 0))


def options(file: Path, **more: object):
    return drive_options({"suite": str(file), "agent": "expert", "out": file.parent / "run", **more})


def test_a_route_without_a_map_is_named_with_the_way_out(tmp_path: Path) -> None:
    found = unmapped([route("1"), route("2", ZIGZAG)], {})
    assert list(found) == ["2"] and "route 2 has no map" in found["2"] and found["2"].endswith("--towns DIR")
    (tmp_path / "Town99.xodr").write_text("<OpenDRIVE/>")
    with pytest.raises(Ad2Error, match="no driving lane"):
        raise Ad2Error(unmapped([route("1")], {"Town99": tmp_path / "Town99.xodr"})["1"])


def test_a_drive_is_refused_before_it_begins_or_leaves_the_route_out(tmp_path: Path) -> None:
    file = write(tmp_path, ("1", STRAIGHT, ""), ("2", ZIGZAG, ""), ("3", STRAIGHT, CUSTOM))
    with pytest.raises(Ad2Error, match=r"mine\.xml: route 2 has no map: .*others: --config skip_unmapped=true \(under"):
        suite_subject(options(file), str(file))
    subject = suite_subject(options(file, skip_unmapped=True), str(file))
    notes = subject.notes
    assert [one.id for one in subject.routes] == subject.all_ids == ["1", "3"]
    assert list(subject.left_out) == ["2"] and notes[0].startswith("left out, 1 of 3 routes: 2 (route 2 has no map")
    assert subject.not_played == {"3": {"c": "no program for scenario type 'CustomObstacle'"}}
    saved = _selection_json(subject)
    assert saved["routes"] == ["1", "3"] and set(saved["left_out"]) == {"2"} and set(saved["not_played"]) == {"3"}
    (tmp_path / "run").mkdir()
    with pytest.raises(Ad2Error, match="route 2 has no map"):
        check_mapped("mine", [route("2", ZIGZAG)], {}, skip=True)


def test_several_routes_without_a_map_are_counted() -> None:
    with pytest.raises(Ad2Error, match=r"mine: 2 of 3 routes have no map: 1, 2\. route 1 has no map"):
        check_mapped("mine", [route("1", ZIGZAG), route("2", ZIGZAG), route("3")], {}, skip=False)


def test_a_known_scenario_that_cannot_be_read_leaves_its_route_out(tmp_path: Path) -> None:
    file = write(tmp_path, ("1", STRAIGHT, ""), ("2", STRAIGHT, FAULTY))
    subject = suite_subject(options(file), str(file))
    notes = subject.notes
    assert subject.all_ids == ["1"] and "expected a number, found 'far'" in subject.left_out["2"]
    assert "left out, 1 of 2 routes: 2 (" in notes[0]
    with pytest.raises(Ad2Error, match=r"--routes-ids 2: left out of .*found 'far'"):
        suite_subject(options(file, routes_ids="2"), str(file))
    only = Suite("mine", tuple(read_routes(write(tmp_path, ("2", STRAIGHT, FAULTY)))), "")
    with pytest.raises(Ad2Error, match=r"mine: no route can be driven; route 2: .*found 'far'"):
        drivable(only, "embedded")
    assert drivable(only, "my.world:make") is only


def test_what_a_town_offers_is_played_there() -> None:
    turns = tuple(RouteScenario("T_Junction", f"T_{i}", (9, 0, 0), {}) for i in (1, 2))
    two = replace(route("1"), scenarios=turns)
    assert set(not_played([two], {}, "embedded")["1"]) == {"T_1", "T_2"}
    assert not_played([two], {"Town99": Path()}, "embedded") == not_played([two], {}, "carla") == {}


def test_routes_that_a_run_left_out_do_not_count_as_missing(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"identity": {}, "selection": {"routes": ["1"], "left_out": {"2": "no map"}}}')
    left_out = left_out_of({tmp_path: read_run(tmp_path)})
    found = without(Suite("mine", (route("1"), route("2")), ""), left_out)
    assert found.ids == ["1"] and left_out_note(found) == ("left out, 1 of 2 routes: 2 (no map)",)


def test_long_routes_under_a_short_profile_are_noted(tmp_path: Path) -> None:
    file = write(tmp_path, ("1", ((0, 0), (900, 0)), ""))
    notes = suite_subject(options(file), str(file)).notes
    assert any("1 routes are longer than 500 m, and bench2advlm ends each after 125 s" in note for note in notes)
    assert suite_subject(options(file, profile="longest6"), str(file)).notes == ()


def test_the_towns_of_a_run_are_those_of_its_suite_not_of_the_selected_routes(tmp_path: Path) -> None:
    routes = [replace(SUITE.routes[0], town=town) for town in ("TownA", "TownB", "TownC")]
    for town in "AB":
        (tmp_path / f"Town{town}.xodr").touch()
    both = [list(towns_of(tmp_path, routes, selected)) for selected in (routes[:1], routes)]
    assert both == [["TownA", "TownB"]] * 2
    with pytest.raises(Ad2Error, match=r"expected TownC\.xodr"):
        towns_of(tmp_path, routes, routes[2:])


@pytest.mark.parametrize("town", ["../Town", "a/../../Town", "{}/Town"])
def test_the_name_of_a_town_does_not_lead_out_of_the_folder(town: str, tmp_path: Path) -> None:
    (tmp_path / "Town.xodr").touch()
    (tmp_path / "maps" / "a").mkdir(parents=True)
    routes = [replace(SUITE.routes[0], town=town.format(tmp_path))]
    with pytest.raises(Ad2Error, match="no map of these routes' towns"):
        towns_of(tmp_path / "maps", routes, routes)
