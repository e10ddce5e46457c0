"""Rooms that the standard scenario leaves: bodies that stand, streams that drive in the ego's lane."""

from __future__ import annotations

import pytest
from support.threats.threat_requests import CALM, crossing, drive, site, transcript

from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.driven.summary import ScenarioActorTrack
from closedloop_plugin.threats.fuser.driven_text import drive_text
from closedloop_plugin.threats.fuser.rules import RulesFuser
from closedloop_plugin.threats.fuser.slots import AFTER_M, BEFORE_M, STOPS, WAITS, free_slots, slots
from closedloop_plugin.threats.spec import AdversaryBehaviour, AdversarySide

# The trigger, from which rooms are measured, is at s = 13 m; the open road's room is 5 to 80 m.
PARKED = ScenarioActorTrack(kind="car", low=53.0, high=53.0, d=0.4, moves=False)
STREAM = ScenarioActorTrack(kind="car", low=43.0, high=134.0, d=0.2, moves=True)
BESIDE = ScenarioActorTrack(kind="bicycle", low=20.0, high=134.0, d=3.5, moves=True)


def test_a_place_near_a_standing_body_is_not_free() -> None:
    found = free_slots(site(), drive(actors=[PARKED]))
    rooms = {slot.rooms for slot in found if slot.behaviour is AdversaryBehaviour.CROSS}
    assert rooms == {((5.0, 40.0 - BEFORE_M), (40.0 + AFTER_M, 80.0))}
    behind = [slot for slot in found if slot.side is AdversarySide.BEHIND]
    assert behind == [slot for slot in slots(site()) if slot.side is AdversarySide.BEHIND] != []


def test_nothing_stops_in_a_stream_in_the_egos_lane() -> None:
    found = free_slots(site(), drive(actors=[STREAM]))
    for slot in found:
        assert slot.rooms[-1][1] == (30.0 if slot.behaviour in STOPS else pytest.approx(80.0)), slot
    assert free_slots(site(), drive(actors=[BESIDE])) == slots(site())


def test_nothing_stops_the_ego_before_it_joins_a_stream() -> None:
    for where in (site(), crossing(length_m=134.0)):
        found = {slot.behaviour for slot in free_slots(where, drive(actors=[STREAM] * 3))}
        assert found.isdisjoint(WAITS)
        assert AdversaryBehaviour.CROSS in found
        assert {AdversaryBehaviour.CUT_IN, AdversaryBehaviour.BLOCK} <= {slot.behaviour for slot in slots(where)}


@pytest.mark.parametrize("actors", [[], [ScenarioActorTrack(kind="car", low=0.0, high=134.0, d=0.0, moves=False)]])
def test_all_slots_count_if_nothing_is_taken_or_everything(actors: list[ScenarioActorTrack]) -> None:
    crowded = free_slots(site(), drive(actors=actors))
    assert crowded == (slots(site()) if not actors else [s for s in slots(site()) if s.side is AdversarySide.BEHIND])
    assert free_slots(site(), None) == slots(site())


def test_rules_use_free_places() -> None:
    for seed in range(60):
        request = ThreatRequest(transcript(site(), CALM, drive=drive(actors=[PARKED])), 0, seed)
        (made,) = RulesFuser().make([request])
        assert made.spec is not None
        low, high = made.spec.place.ahead_m.low, made.spec.place.ahead_m.high
        outside = high <= 40.0 - BEFORE_M + 0.1 or low >= 40.0 + AFTER_M - 0.1
        assert outside or made.spec.place.side is AdversarySide.BEHIND, made.spec


def test_a_models_prompt_names_what_stands_and_what_moves() -> None:
    text = drive_text(drive(actors=[PARKED, STREAM, BESIDE]))
    assert "- standing objects of the route's own scenario: car at 53 m; keep 20 m away from them" in text
    assert "- 2 actors of the route's own scenario move there, 20 to 134 m on" in text
    assert "own scenario" not in drive_text(drive())
