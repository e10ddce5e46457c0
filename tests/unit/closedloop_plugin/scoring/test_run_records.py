"""The line on scenarios that were not played."""

from __future__ import annotations

from dataclasses import replace

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.official_record import OfficialRecord
from closedloop_plugin.scoring.run_records import not_played_note
from closedloop_plugin.scoring.summary import summarise


def test_scenarios_are_counted_by_reason_and_routes_named() -> None:
    note = not_played_note({"1": {"A_1": "no program", "B_1": "no program"}, "2": {"A_1": "no junction"}, "3": {}})
    assert note == (
        "2 route(s) driven without a scenario of theirs, 3 scenario(s) in all (1, 2): no program: 2; no junction: 1"
    )
    assert not_played_note({"1": {}}) == not_played_note({}) == ""


def test_many_reasons_are_cut() -> None:
    assert not_played_note({str(i): {"A": f"reason {i}"} for i in range(11)}).endswith("; 3 more reasons")


def test_a_route_whose_scenario_was_not_played_tests_no_ability() -> None:
    """It counts for the Driving Score; a success of it is none at overtaking."""
    routes = [Route(id_, "Town12", ((0, 0), (90, 0)), "Accident", "Accident_1", (0, 0, 0)) for id_ in ("1", "2")]
    clean = dict.fromkeys(INFRACTIONS, ())
    good = OfficialRecord("1", 0, "Accident", "Accident_1", "Town12", "Completed", clean, 100.0, 1.0, 100.0)
    bad = replace(
        good, route_id="2", infractions={**clean, "red_light": ("x",)}, score_penalty=0.7, score_composed=70.0
    )
    found = summarise([replace(good, not_played={"Accident_1": "no flow"}), bad], routes, profile("bench2drive"))
    assert found["driving_score"] == 85.0 and found["abilities"]["Overtaking"] == 0.0
    assert summarise([good, bad], routes, profile("bench2drive"))["abilities"]["Overtaking"] == 50.0
    assert [note for note in found["notes"] if "no flow: 1" in note]
