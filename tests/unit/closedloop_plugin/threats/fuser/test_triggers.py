"""The table of triggers: complete, places from the drive, numbers as late as an attentive driver survives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.threats.sites import any_site
from support.threats.threat_requests import crossing, drive, site
from support.tiers import examples

from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.threats.fuser.slots import ThreatSlot, slots
from closedloop_plugin.threats.fuser.triggers import (
    DECEL,
    EXPERT_S,
    OWN_SPEED,
    TRIGGERS,
    DrivenPlace,
    TriggerBracket,
    driven_place,
    numbers,
)
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import RULES, Adversary, AdversaryBehaviour, AdversarySide, Occluder
from closedloop_plugin.threats.templates.crossing import waiting_offset

B = AdversaryBehaviour


def slot_of(behaviour: AdversaryBehaviour, where: ThreatSite) -> ThreatSlot:
    return next(s for s in slots(where) if s.behaviour is behaviour)


def test_the_table_covers_the_vocabulary() -> None:
    assert set(TRIGGERS) == set(AdversaryBehaviour)
    for behaviour, row in TRIGGERS.items():
        assert set(row.covers) <= RULES[behaviour].occluders
        assert set(row.infractions) <= set(INFRACTIONS)
        needs = RULES[behaviour].numbers
        assert ("stays_s" in needs) == (row.stays_s[1] > 0)
        assert ("speed_mps" in needs and behaviour is not B.CROSS) == (row.speed[1] > 0)
        assert not row.is_expected("") and not row.is_expected("The sun shines.")


@pytest.mark.parametrize(
    ("behaviour", "prediction"),
    [
        (B.CROSS, "A pedestrian steps out."), (B.CUT_IN, "the bus will merge"), (B.OPEN_DOOR, "A DOOR may open"),
        (B.EMERGENCY_PASS, "I hear sirens"), (B.ONCOMING, "Oncoming traffic passes."), (B.TAILGATE, "from behind"),
    ],
)  # fmt: skip
def test_predictions_that_expect_a_behaviour(behaviour: AdversaryBehaviour, prediction: str) -> None:
    assert TRIGGERS[behaviour].is_expected(prediction)


def test_the_place_is_where_it_drove_fastest() -> None:
    profile = [(float(t), float(s), v) for t, (s, v) in enumerate([(0, 1.0), (30, 3.0), (60, 8.1), (90, 4.0)])]
    where = site(left=1)
    place = driven_place(slot_of(B.BRAKE_HARD, where), where, drive(profile=profile))
    assert place is not None and place.s == pytest.approx(60, abs=2) and place.speed == pytest.approx(8.1, abs=0.3)
    assert place.ahead_m == pytest.approx(place.s - where.trigger_s, abs=0.11)
    assert driven_place(slot_of(B.BLOCK, where), where, drive(profile=[(0.0, 0.0, 0.0), (1.0, 1.0, 1.0)])) is None


def test_a_bracket_is_halved() -> None:
    assert TriggerBracket().next(1.2) == 1.2
    assert TriggerBracket(too_late=(1.0,)).next(1.2) == pytest.approx(1.4)
    assert TriggerBracket(too_early=(1.5,)).next(1.2) == pytest.approx(1.1)
    assert TriggerBracket(too_late=(1.0,), too_early=(1.5, 2.0)).next(1.2) == 1.25
    assert TriggerBracket(idle=2).next(1.2) == pytest.approx(2.8)


def test_the_first_trigger_leaves_the_time_to_brake() -> None:
    """12 m/s, a body that stands: 0.35 s and v / (2 a), and what it takes until it is in the way."""
    where = site()
    made = numbers(
        slot_of(B.BLOCK, where), Adversary.CAR, Occluder.NONE, where,
        place=DrivenPlace(20.0, 33.0, 12.0), bracket=TriggerBracket(), milder=0,
    )  # fmt: skip
    low = EXPERT_S + 12.0 / (2 * DECEL) + 0.3
    assert made["trigger"]["value"].low == pytest.approx(low, abs=0.01)
    assert (made["ahead_m"].low, made["ahead_m"].high) == (20.1, 26.1)
    assert (made["stays_s"].low, made["stays_s"].high) == (6.0, 14.0)


@settings(max_examples=examples(60), deadline=None)
@given(where=any_site, speed=st.floats(0, 25), milder=st.integers(0, 3), late=st.floats(0, 8))
def test_numbers_are_within_the_room_and_ordered(where: ThreatSite, speed: float, milder: int, late: float) -> None:
    drove = drive(profile=[(float(t), speed * t, speed) for t in range(30)])
    for slot in slots(where):
        place = driven_place(slot, where, drove)
        for adversary in slot.adversaries:
            made = numbers(
                slot, adversary, slot.occluders[-1], where,
                place=place, bracket=TriggerBracket(too_late=(late,)), milder=milder,
            )  # fmt: skip
            ahead = made["ahead_m"]
            assert any(a - 0.01 <= ahead.low <= ahead.high <= b + 0.01 for a, b in slot.rooms)
            others = [made["trigger"]["value"], *(made[n] for n in RULES[slot.behaviour].numbers)]
            assert all(value.low < value.high for value in others)


@pytest.mark.parametrize("where", [site(), site(oncoming=1, right=1), crossing()])
def test_a_crossing_adversary_meets_the_ego_for_any_values(where: ThreatSite) -> None:
    for slot in (s for s in slots(where) if s.behaviour is B.CROSS):
        lanes = where.right if slot.side is AdversarySide.RIGHT else where.left + where.oncoming
        for adversary in OWN_SPEED:
            for cover in (Occluder.NONE, Occluder.TRUCK):
                distance_m = where.lane_width * (0.5 + lanes) + waiting_offset(slot.lane, cover)
                made = numbers(slot, adversary, cover, where, place=None, bracket=TriggerBracket(), milder=0)
                for pace in (made["speed_mps"].low, made["speed_mps"].high):
                    for due in (made["trigger"]["value"].low, made["trigger"]["value"].high):
                        assert abs(distance_m / pace + pace / 12 - due) < 1.0


def test_a_milder_attempt_is_slower_and_shorter() -> None:
    where = crossing()

    def made(behaviour: AdversaryBehaviour, milder: int) -> dict[str, Any]:
        slot = slot_of(behaviour, where)
        return numbers(
            slot, slot.adversaries[0], Occluder.NONE, where, place=None, bracket=TriggerBracket(), milder=milder
        )

    assert made(B.TURN_ACROSS, 1)["speed_mps"].high < made(B.TURN_ACROSS, 0)["speed_mps"].high
    assert made(B.CUT_IN, 1)["speed_mps"].high > made(B.CUT_IN, 0)["speed_mps"].high
    assert made(B.BLOCK, 1)["stays_s"].high < made(B.BLOCK, 0)["stays_s"].high
