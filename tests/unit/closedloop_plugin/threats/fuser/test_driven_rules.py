"""Rules from what the target did: speeds, infractions, outcomes of earlier rounds; and uniform threats."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.threats.threat_requests import CALM, attempt, crossing, drive, site, transcript, valid_spec
from support.tiers import examples

from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.driven.summary import DriveInfraction, DriveReaction
from closedloop_plugin.threats.fuser.rules import TIMED, RulesFuser
from closedloop_plugin.threats.fuser.ruleset.driven import evidence_of
from closedloop_plugin.threats.fuser.ruleset.late import TriggerBracket
from closedloop_plugin.threats.fuser.slots import slots
from closedloop_plugin.threats.fuser.uniform import UniformFuser
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import RULES, AdversaryBehaviour, ThreatSpec
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatAttempt

PASSED = ScenarioVerdict(passed=True, compiles=True, runs=True, acts=True, survivable=True, tries=1, survived=1)
TOO_HARD = ScenarioVerdict(passed=False, compiles=True, runs=True, acts=True, reason="hit in 4 of 4")


def driven_request(
    seed: int = 1, where: ThreatSite | None = None, attempts: list[ThreatAttempt] | None = None, round: int = 1,
    **drove: Any,
) -> ThreatRequest:  # fmt: skip
    request = transcript(where or site(left=1), CALM, drive=drive(**drove), attempts=attempts or [])
    request.interview.source = "observed"
    return ThreatRequest(request, 0, seed, round=round)


def made(request: ThreatRequest) -> ThreatAttempt:
    return RulesFuser().make([request])[0]


def spec_of(request: ThreatRequest) -> ThreatSpec:
    result = made(request)
    assert result.spec is not None
    return result.spec


def survived(spec: ThreatSpec, **outcome: Any) -> ThreatAttempt:
    reaction = DriveReaction(act_s=5.0, s=41.0, speed=8.1, seconds=outcome.pop("seconds", 0.2))
    return attempt(spec, PASSED, outcome=drive(reaction=reaction, **outcome))


def test_the_reason_has_the_speed_at_the_place() -> None:
    slow_then_fast = [(float(t), float(s), v) for t, (s, v) in enumerate([(0, 1.0), (30, 3.0), (60, 8.1), (90, 4.0)])]
    request = driven_request(profile=slow_then_fast)
    evidence = evidence_of(request.transcript)
    assert evidence is not None
    slot = next(s for s in slots(site(left=1)) if s.behaviour is AdversaryBehaviour.BRAKE_HARD)
    place = evidence.place(slot, site(left=1))
    assert place is not None and place.s == pytest.approx(60, abs=2) and place.speed == pytest.approx(8.1, abs=0.3)
    texts = [spec_of(driven_request(seed, profile=slow_then_fast)).why for seed in range(20)]
    assert any("It drove 8." in text and "slowed down" in text for text in texts)
    assert all("It acts from" in text for text in texts)


def test_triggers_are_sized_from_the_speed_and_later_than_without_a_drive() -> None:
    def lows(**drove: Any) -> list[float]:
        specs = [spec_of(driven_request(seed, **drove)) for seed in range(24)]
        return [s.trigger.value.low for s in specs if s.behaviour is AdversaryBehaviour.BLOCK]

    fast = [(float(t), 12.0 * t, 12.0) for t in range(12)]
    assert lows() and lows(profile=fast) and max(lows()) < min(lows(profile=fast)) < 2.0


def test_an_infraction_of_the_standard_drive_is_a_reason() -> None:
    hit = DriveInfraction(kind="collisions_pedestrian", text="hit", time_s=7.2, s=44.0)
    counts = [
        Counter(spec_of(driven_request(seed, infractions=found)).behaviour for seed in range(24))[
            AdversaryBehaviour.CROSS
        ]
        for found in ([], [hit])
    ]
    assert counts[1] > counts[0]


def test_where_it_never_gets_nothing_is_placed() -> None:
    short_drive = [(float(t), 4.0 * t, 4.0) for t in range(11)]  # to 40 m
    for seed in range(20):
        place = spec_of(driven_request(seed, profile=short_drive, driven_m=40.0)).place
        assert 13.0 + place.ahead_m.low <= 40.0


def test_a_close_survival_is_repeated_with_a_later_trigger() -> None:
    first = spec_of(driven_request())
    again = spec_of(driven_request(2, attempts=[survived(first, min_gap_m=0.8, seconds=1.1)], round=2))
    assert again.behaviour is first.behaviour and again.adversary is first.adversary
    assert again.trigger.value.low < first.trigger.value.low or first.behaviour is AdversaryBehaviour.CROSS
    assert "0.8 m" in again.why and "it braked 1.1 s after the act" in again.why and "8.1 m/s" in again.why


def test_an_early_reaction_leads_to_another_threat() -> None:
    first = spec_of(driven_request())
    for seed in range(10):
        other = spec_of(driven_request(seed, attempts=[survived(first, min_gap_m=6.0, seconds=0.2)], round=2))
        assert other.behaviour is not first.behaviour and "another threat follows" in other.why


def test_a_threat_is_repeated_once_and_only_where_its_time_matters() -> None:
    first = spec_of(driven_request())
    assert first.behaviour in TIMED
    twice = [survived(first, min_gap_m=0.8, seconds=1.1), survived(first, min_gap_m=0.5, seconds=1.1)]
    place = {"side": "behind", "lane": "own", "ahead_m": [20, 30]}
    passing = ThreatSpec.model_validate(
        valid_spec(adversary="police", behaviour="emergency_pass", occluder="none", place=place)
    )
    for attempts in (twice, [survived(passing, min_gap_m=0.8, seconds=1.1)]):
        for seed in range(10):
            other = spec_of(driven_request(seed, attempts=attempts, round=len(attempts) + 1))
            assert attempts[0].spec is not None and other.behaviour is not attempts[0].spec.behaviour


def test_a_threat_that_the_expert_does_not_survive_acts_earlier_next() -> None:
    first = spec_of(driven_request())
    again = spec_of(driven_request(2, attempts=[attempt(first, TOO_HARD)]))
    assert again.behaviour is first.behaviour and again.trigger.value.low > first.trigger.value.low


def test_a_bracket_is_halved_until_it_is_exhausted() -> None:
    assert TriggerBracket().next(1.2) == 1.2
    assert TriggerBracket(too_late=(1.0,)).next(1.2) == pytest.approx(1.4)
    assert TriggerBracket(too_early=(1.5,)).next(1.2) == pytest.approx(1.1)
    assert TriggerBracket(too_late=(1.0,), too_early=(1.5, 2.0)).next(1.2) == 1.25
    assert TriggerBracket(too_late=(1.4,), too_early=(1.5,)).exhausted


sites = st.builds(site, length_m=st.floats(30, 400), left=st.integers(0, 2), oncoming=st.integers(0, 2)) | st.builds(
    crossing, length_m=st.floats(50, 200), control=st.sampled_from(["signal", "stop", "none"])
)


@settings(max_examples=examples(20), deadline=None)
@given(threat_site=sites, seed=st.integers(0, 2**31), speed=st.floats(0, 25))
def test_every_driven_and_every_uniform_spec_fits_its_site(threat_site: ThreatSite, seed: int, speed: float) -> None:
    assume(slots(threat_site))
    profile = [(float(t), speed * t, speed) for t in range(20)]
    request = driven_request(seed, threat_site, profile=profile)
    for fuser in (RulesFuser(), UniformFuser()):
        result = fuser.make([request])[0]
        assert result.spec is not None and fit(result.spec, threat_site) == []
        assert fuser.make([request])[0] == result and result.spec.why


def test_uniform_threats_cover_the_vocabulary_of_a_site() -> None:
    found = [UniformFuser().make([driven_request(seed, crossing())])[0].spec for seed in range(250)]
    assert {s.behaviour for s in found if s} == set(AdversaryBehaviour)
    triggers = [s.trigger.value.low for s in found if s and s.trigger.kind == "time"]
    assert min(triggers) < 1.0 and max(triggers) > 7.5 and sum(t < 4.25 for t in triggers) / len(triggers) < 0.62
    assert all((s.speed_mps is not None) == ("speed_mps" in RULES[s.behaviour].numbers) for s in found if s)


def test_the_room_behind_a_junction_ends_at_the_limit_of_ahead_m() -> None:
    """On a long road: a further actor, or a uniform place, may be drawn at the end of the room."""
    assert crossing(length_m=170.0, control="signal").room_behind_junction()[0][1] == 80.0
