"""RulesFuser: specs that fit, determinism by seed, variety, reasons, and reactions to verdicts and outcomes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.threats.sites import any_site
from support.threats.threat_requests import (
    CALM,
    attempt,
    crossing,
    drive,
    site,
    threat_request,
    transcript,
    valid_spec,
)
from support.tiers import examples

from closedloop_plugin.runner.task import episode_seed
from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.driven.summary import DriveInfraction, DriveReaction
from closedloop_plugin.threats.fuser.rules import RulesFuser
from closedloop_plugin.threats.fuser.slots import slots
from closedloop_plugin.threats.fuser.triggers import TRIGGERS
from closedloop_plugin.threats.fuser.uniform import UniformFuser
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import (
    RULES,
    AdversaryBehaviour,
    EgoLight,
    Occluder,
    RoadKind,
    TargetWeakness,
    ThreatSpec,
)
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatAttempt

RAN = {"compiles": True, "runs": True}
PASSED = ScenarioVerdict(passed=True, acts=True, survivable=True, tries=1, survived=1, **RAN)
TOO_HARD = ScenarioVerdict(passed=False, acts=True, reason="hit in 4 of 4", **RAN)
EVIL = '"""\nimport os\u202e <<<END>>> {x}'


def driven_request(
    seed: int = 1, where: ThreatSite | None = None, attempts: list[ThreatAttempt] | None = None, round: int = 1,
    **drove: Any,
) -> ThreatRequest:  # fmt: skip
    """A target without words that drove at 8 m/s."""
    request = transcript(where or site(left=1), CALM, drive=drive(**drove), attempts=attempts or [])
    request.interview.source = "observed"
    return ThreatRequest(request, 0, seed, round=round)


def spec_of(request: ThreatRequest) -> ThreatSpec:
    (made,) = RulesFuser().make([request])
    assert made.spec is not None and RulesFuser().make([request]) == [made]
    return made.spec


def specs(n: int = 60, where: ThreatSite | None = None, **drove: Any) -> list[ThreatSpec]:
    return [spec_of(driven_request(seed, where, **drove)) for seed in range(n)]


def survived(spec: ThreatSpec, **outcome: Any) -> ThreatAttempt:
    reaction = DriveReaction(act_s=5.0, s=41.0, speed=8.1, seconds=outcome.pop("seconds", 0.2))
    return attempt(spec, PASSED, outcome=drive(reaction=reaction, **outcome))


# -- specs -------------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None)
@given(
    threat_site=any_site, seed=st.integers(0, 2**31), speed=st.none() | st.floats(0, 25),
    texts=st.sampled_from([CALM, ("", "", ""), ("stop " * 50,) * 3, (EVIL,) * 3]),
)  # fmt: skip
def test_every_spec_fits_its_site_and_has_free_parameters(
    threat_site: ThreatSite, seed: int, speed: float | None, texts: tuple[str, str, str]
) -> None:
    assume(slots(threat_site))
    drove = None if speed is None else drive(profile=[(float(t), speed * t, speed) for t in range(20)])
    spec = spec_of(threat_request(threat_site, texts, seed, drive=drove))
    assert fit(spec, threat_site) == [] and ThreatSpec.model_validate(spec.model_dump()) == spec
    assert all(i.low < i.high for i in (spec.trigger.value, spec.speed_mps, spec.stays_s) if i is not None)
    assert spec.description and spec.why and spec.trigger.kind == "time" and not spec.further


def test_a_route_without_room_is_refused_with_the_reason() -> None:
    (made,) = RulesFuser().make([threat_request(site(length_m=11.0, trigger_s=10.0))])
    assert made.spec is None and "no room" in made.refused


def test_the_ego_has_green_if_the_adversary_crosses_against_the_rules() -> None:
    for spec in specs(40, crossing()):
        against = spec.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS)
        assert spec.ego_light is (EgoLight.GREEN if against else EgoLight.CYCLE)


def test_covers_are_those_that_hide_until_the_act() -> None:
    hiding = {Occluder.VAN, Occluder.TRUCK, Occluder.BUS}
    for spec in specs():
        expected = hiding if spec.behaviour in (AdversaryBehaviour.CROSS, AdversaryBehaviour.HIDDEN_STOP) else {"none"}
        assert spec.occluder in expected & RULES[spec.behaviour].occluders
        assert (spec.weakness is TargetWeakness.PERCEPTION) == (spec.occluder is not Occluder.NONE)


def test_the_program_drives_at_the_speed_of_the_spec() -> None:
    """No template clips the speeds of the rules, in a town."""
    for spec in specs():
        if spec.speed_mps is not None:
            pace = f"param pace = Range({spec.speed_mps.low:g}, {spec.speed_mps.high:g})"
            assert pace in program(spec, site(left=1)), spec.behaviour


def test_quotes_are_cleaned() -> None:
    spec = spec_of(threat_request(texts=(EVIL, EVIL, EVIL)))
    assert "<<<" not in spec.why and "{" not in spec.why and "\n" not in spec.why
    assert "import os" not in program(spec, site())


def test_some_specs_change_the_conditions() -> None:
    changed = sum(s.conditions != s.conditions.model_construct() or s.perception.numbers != {} for s in specs(100))
    assert 10 < changed < 45


def test_real_routes_have_a_good_variety(data_dir: Path, tmp_path: Path) -> None:
    from closedloop_plugin.core.routes import read_routes
    from closedloop_plugin.maps.build import road_for
    from closedloop_plugin.scenarios.catalogue import CATALOGUE
    from closedloop_plugin.threats.site import site_of

    routes = read_routes(data_dir / "bench2drive" / "bench2drive220.xml")[::11]
    roads = [(r, road_for(r, CATALOGUE[r.scenario].layout, town=None, folder=tmp_path)) for r in routes]
    real = [site_of("embedded220", r, road) for r, road in roads]
    found = [spec_of(driven_request(episode_seed(k, s.route, 0), s)) for s in real for k in range(6)]
    behaviours = Counter(s.behaviour for s in found)
    assert len(behaviours) >= 7 and max(behaviours.values()) < 0.6 * len(found)
    assert len({s.adversary for s in found}) >= 9 and len({s.occluder for s in found}) == 4


# -- reasons -----------------------------------------------------------------------------------------------------------


def test_the_reason_has_the_speed_at_the_place() -> None:
    slow_then_fast = [(float(t), float(s), v) for t, (s, v) in enumerate([(0, 1.0), (30, 3.0), (60, 8.1), (90, 4.0)])]
    texts = [spec.why for spec in specs(20, profile=slow_then_fast)]
    assert any("It drove 8." in text for text in texts) and all("It acts from" in text for text in texts)


def test_triggers_are_sized_from_the_speed() -> None:
    def lows(**drove: Any) -> list[float]:
        return [s.trigger.value.low for s in specs(80, **drove) if s.behaviour is AdversaryBehaviour.BLOCK]

    fast = [(float(t), 12.0 * t, 12.0) for t in range(12)]
    assert lows() and lows(profile=fast) and max(lows()) < min(lows(profile=fast)) < 2.0


def test_an_infraction_of_the_standard_drive_is_a_reason() -> None:
    hit = DriveInfraction(kind="outside_route_lanes", text="left its lane", time_s=7.2, s=44.0)
    counts = [
        sum(s.behaviour is AdversaryBehaviour.ONCOMING for s in specs(infractions=found)) for found in ([], [hit])
    ]
    assert counts[1] > 2 * counts[0]
    why = {s.why for s in specs(infractions=[hit]) if s.behaviour is AdversaryBehaviour.ONCOMING}
    assert all("On its drive of the standard route: outside route lanes at 7.2 s." in text for text in why)


def test_what_a_prediction_leaves_out_is_a_reason_and_chosen_more_often() -> None:
    told = "Somebody may cross, cut in, brake, crawl, block my lane, open a door, turn across or come from behind."
    counts = []
    for prediction in (f"{told} Oncoming traffic, sirens, a hidden car.", f"{told} Sirens, a hidden car."):
        found = [
            spec_of(threat_request(site(left=1), (CALM[0], prediction, CALM[2]), k, drive=drive())) for k in range(80)
        ]
        counts.append(sum(s.behaviour is AdversaryBehaviour.ONCOMING for s in found))
        for spec in found:
            unsaid = counts[1:] != [] and spec.behaviour is AdversaryBehaviour.ONCOMING
            assert ("and nothing of oncoming traffic." in spec.why) == unsaid
            assert (spec.weakness is TargetWeakness.PREDICTION) == unsaid
    assert counts[1] > counts[0] + 3


def test_a_driver_without_words_is_not_quoted() -> None:
    assert not any("prediction says" in spec.why for spec in specs(20))


def test_where_it_never_gets_nothing_is_placed() -> None:
    short_drive = [(float(t), 4.0 * t, 4.0) for t in range(11)]  # to 40 m
    for spec in specs(20, profile=short_drive, driven_m=40.0):
        assert 13.0 + spec.place.ahead_m.low <= 40.0


# -- reactions to verdicts and outcomes --------------------------------------------------------------------------------


def test_an_unsurvived_threat_is_repeated_milder_then_replaced() -> None:
    first = spec_of(driven_request(3))
    hard = attempt(first, TOO_HARD)
    second = spec_of(driven_request(4, attempts=[hard]))
    assert (second.behaviour, second.adversary) == (first.behaviour, first.adversary)
    assert second.trigger.value.low > first.trigger.value.low and "hit in 4 of 4" in second.why
    assert second.conditions == first.conditions.model_construct()
    third = spec_of(driven_request(5, attempts=[hard, hard.model_copy(update={"spec": second})]))
    assert third.behaviour is not first.behaviour


def test_a_threat_that_never_acted_acts_sooner() -> None:
    first = next(s for s in specs() if s.behaviour is AdversaryBehaviour.BLOCK)
    idle = attempt(first, ScenarioVerdict(passed=False, reason="never triggered", **RAN))
    second = spec_of(driven_request(4, attempts=[idle]))
    assert second.behaviour is first.behaviour
    assert second.trigger.value.low == pytest.approx(first.trigger.value.low + 0.8, abs=0.02)


def test_a_threat_that_does_not_compile_is_not_repeated() -> None:
    first = spec_of(driven_request(3))
    broken = attempt(first, ScenarioVerdict(passed=False, reason="syntax"))
    others = {spec_of(driven_request(k, attempts=[broken])).behaviour for k in range(30)}
    assert first.behaviour not in others and len(others) > 2


def test_a_spec_is_made_even_if_every_behaviour_failed() -> None:
    made = UniformFuser().make([driven_request(seed) for seed in range(120)])
    failed = [attempt(a.spec, ScenarioVerdict(passed=False), number=k) for k, a in enumerate(made)]
    assert {a.spec.behaviour for a in failed if a.spec} == {s.behaviour for s in slots(site(left=1))}
    assert spec_of(driven_request(attempts=failed))


def test_a_close_survival_is_repeated_with_a_later_trigger() -> None:
    first = next(s for s in specs() if TRIGGERS[s.behaviour].later and s.behaviour is not AdversaryBehaviour.CROSS)
    again = spec_of(driven_request(2, attempts=[survived(first, min_gap_m=0.8, seconds=1.1)], round=2))
    assert (again.behaviour, again.adversary) == (first.behaviour, first.adversary)
    assert again.trigger.value.low < first.trigger.value.low
    assert "0.8 m" in again.why and "it braked 1.1 s later" in again.why and "8.1 m/s" in again.why


def test_an_early_reaction_leads_to_another_threat() -> None:
    first = spec_of(driven_request())
    for seed in range(10):
        other = spec_of(driven_request(seed, attempts=[survived(first, min_gap_m=6.0, seconds=0.2)], round=2))
        assert other.behaviour is not first.behaviour and f"It survived {first.behaviour.value}." in other.why


def test_a_threat_is_repeated_once_and_only_where_its_time_matters() -> None:
    first = next(s for s in specs() if TRIGGERS[s.behaviour].later)
    twice = [survived(first, min_gap_m=0.8, seconds=1.1), survived(first, min_gap_m=0.5, seconds=1.1)]
    place = {"side": "behind", "lane": "own", "ahead_m": [20, 30]}
    passing = ThreatSpec.model_validate(
        valid_spec(adversary="police", behaviour="emergency_pass", occluder="none", place=place)
    )
    for attempts in (twice, [survived(passing, min_gap_m=0.8, seconds=1.1)]):
        for seed in range(10):
            other = spec_of(driven_request(seed, attempts=attempts, round=len(attempts) + 1))
            assert attempts[0].spec is not None and other.behaviour is not attempts[0].spec.behaviour


def test_slots_are_all_that_the_checks_accept() -> None:
    found = slots(crossing())
    assert {s.behaviour for s in found} == set(AdversaryBehaviour)
    assert len(found) == len(set(found))
    assert not [s for s in slots(site()) if s.road is RoadKind.JUNCTION and s.lane.value == "crossing_road"]
    assert not [s for s in slots(site(oncoming=0)) if s.behaviour is AdversaryBehaviour.ONCOMING]
