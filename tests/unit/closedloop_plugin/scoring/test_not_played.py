"""The line on scenarios that were not played."""

from __future__ import annotations

from closedloop_plugin.scoring.not_played import not_played_note


def test_scenarios_are_counted_by_reason_and_routes_named() -> None:
    note = not_played_note({"1": {"A_1": "no program", "B_1": "no program"}, "2": {"A_1": "no junction"}, "3": {}})
    assert note == (
        "2 route(s) driven without a scenario of theirs, 3 scenario(s) in all (1, 2): no program: 2; no junction: 1"
    )
    assert not_played_note({"1": {}}) == not_played_note({}) == ""


def test_many_reasons_are_cut() -> None:
    assert not_played_note({str(i): {"A": f"reason {i}"} for i in range(11)}).endswith("; 3 more reasons")
