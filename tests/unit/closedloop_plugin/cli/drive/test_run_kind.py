"""Differences that prevent a comparison of two runs."""

from __future__ import annotations

from closedloop_plugin.cli.drive.run_kind import unlike


def test_the_decision_rate_of_the_profile_is_named() -> None:
    one, two = {"profile": "p", "decision_hz": None, "map": None}, {"profile": "p", "decision_hz": 2.0, "map": None}
    assert unlike(one, two, one_suite=True) == ["decision_hz is the profile's rate in the first and 2.0 in the second"]
    assert unlike(two, one, one_suite=True) == ["decision_hz is 2.0 in the first and the profile's rate in the second"]
    assert unlike(one, {**one, "map": "x"}, one_suite=True) == ['map is not set in the first and "x" in the second']


def test_words_within_values_are_not_replaced() -> None:
    one = {"agent": {"decision_hz": None, "note": "not set there and here"}}
    two = {"agent": {"decision_hz": 1, "note": "x"}}
    assert unlike(one, two, one_suite=False) == [
        "agent.decision_hz is not set in the first and 1 in the second",
        'agent.note is "not set there and here" in the first and "x" in the second',
    ]
