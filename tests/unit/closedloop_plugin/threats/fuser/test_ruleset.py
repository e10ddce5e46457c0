"""RulesFuser: keywords, specs that fit, determinism by seed, variety, and reactions to verdicts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.threats.threat_requests import CALM, attempt, crossing, site, threat_request, transcript
from support.tiers import examples

from closedloop_plugin.runner.task import episode_seed
from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.fuser.rules import RulesFuser
from closedloop_plugin.threats.fuser.ruleset.candidates import FORESEEN, RELIES, WHO
from closedloop_plugin.threats.fuser.ruleset.keywords import AnswerKeywords, AnswerTopic, DrivingIntent, read_keywords
from closedloop_plugin.threats.fuser.slots import slots
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import (
    RULES,
    Adversary,
    AdversaryBehaviour,
    AdversarySide,
    EgoLight,
    Occluder,
    TargetWeakness,
)
from closedloop_plugin.threats.templates.crossing import waiting_offset
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.threats.transcript import ScenarioVerdict

BLIND = (
    "It looks at nobody. It does not look at weather or darkness.",
    "It expects nothing of others.",
    "It keeps the speed. It does not brake for anybody.",
)
FUSER = RulesFuser()


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said", "denied"),
    [
        ("A cyclist rides on the right.", {AnswerTopic.TWO_WHEELERS}, set()),
        ("There are no pedestrians.", set(), {AnswerTopic.WALKERS}),
        ("No pedestrians, but a bus is parked.", {AnswerTopic.VEHICLES, AnswerTopic.PARKED}, {AnswerTopic.WALKERS}),
        ("Pedestrians are not visible.", set(), {AnswerTopic.WALKERS}),
        ("The child isn't there any more. A child waits.", {AnswerTopic.WALKERS}, set()),
        ("I see not only cars.", {AnswerTopic.VEHICLES}, set()),
        ("The traffic light is red.", {AnswerTopic.LIGHTS}, set()),
        ("Somebody may open a door. It is foggy.", {AnswerTopic.DOOR, AnswerTopic.SKY}, set()),
        (
            "It does not react to a car that comes out of a side road.",
            set(),
            {AnswerTopic.VEHICLES, AnswerTopic.JUNCTION},
        ),
        ("Ein Fußgänger überquert die Straße.", set(), set()),
        ("", set(), set()),
    ],
)
def test_topics_mentioned_and_denied(text: str, said: set[AnswerTopic], denied: set[AnswerTopic]) -> None:
    found = read_keywords(text)
    assert set(found.mentioned) == said and set(found.denied) == denied


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("I will keep my speed and go straight.", {DrivingIntent.KEEP}),
        ("Maintain the current speed, then turn left.", {DrivingIntent.KEEP, DrivingIntent.LEFT}),
        ("I do not brake.", set()),
        ("Slow down and stop.", {DrivingIntent.SLOW, DrivingIntent.STOP}),
        ("Overtake the truck and speed up.", {DrivingIntent.OVERTAKE, DrivingIntent.ACCELERATE}),
    ],
)
def test_intentions_are_read(text: str, meant: set[DrivingIntent]) -> None:
    assert set(read_keywords(text).intended) == meant


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    found = read_keywords(text)
    assert (
        isinstance(found, AnswerKeywords) and not set(found.mentioned) & set(found.denied) and len(found.quote()) <= 140
    )


def test_the_tables_cover_the_vocabulary() -> None:
    assert set(WHO) == set(Adversary) and set(FORESEEN) == set(RELIES) == set(AdversaryBehaviour)


# -- fitting -----------------------------------------------------------------------------------------------------------

sites = st.builds(
    site,
    length_m=st.floats(30, 400), trigger_s=st.floats(0, 40), speed_limit=st.sampled_from([8.33, 13.89, 25.0, 30.0]),
    left=st.integers(0, 2), right=st.integers(0, 2), oncoming=st.integers(0, 2),
)  # fmt: skip
crossings = st.builds(
    crossing,
    length_m=st.floats(50, 200), trigger_s=st.floats(0, 20),
    junction=st.tuples(st.floats(5, 30), st.floats(31, 60)),
    control=st.sampled_from(["signal", "stop", "yield", "none"]),
    topology=st.sampled_from(["junction", "merge", "diverge", "town"]), left=st.integers(0, 1), right=st.integers(0, 1),
    oncoming=st.integers(0, 1), arms=st.sampled_from([(), ("entry", "exit"), ("entry", "exit", "left", "right")]),
)  # fmt: skip
texts = st.sampled_from([CALM, BLIND, ("", "", ""), ("stop " * 50,) * 3])


@settings(max_examples=examples(60), deadline=None)
@given(threat_site=sites | crossings, seed=st.integers(0, 2**31), answers=texts)
def test_every_spec_fits_its_site_and_has_free_parameters(threat_site: ThreatSite, seed: int, answers) -> None:
    result = FUSER.make([threat_request(threat_site, answers, seed)])[0]
    assume(slots(threat_site))
    assert result.spec is not None and result.refused == ""
    assert fit(result.spec, threat_site) == []
    intervals = [result.spec.trigger.value, result.spec.speed_mps, result.spec.stays_s]
    assert all(i.low < i.high for i in intervals if i is not None)
    assert result.spec.description and result.description == result.spec.description
    assert FUSER.make([threat_request(threat_site, answers, seed)])[0] == result


def test_a_route_without_room_is_refused_with_the_reason() -> None:
    result = FUSER.make([threat_request(site(length_m=11.0, trigger_s=10.0))])[0]
    assert result.spec is None and "no room" in result.refused


def test_slots_are_all_that_the_checks_accept() -> None:
    found = slots(crossing())
    assert {s.behaviour for s in found} == set(AdversaryBehaviour)
    assert len(found) == len(set(found))
    assert not [
        s for s in slots(site()) if s.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS)
    ]
    assert not [s for s in slots(site(oncoming=0)) if s.behaviour is AdversaryBehaviour.ONCOMING]


def test_the_ego_has_green_if_the_adversary_crosses_against_the_rules() -> None:
    for seed in range(40):
        spec = FUSER.make([threat_request(crossing(), BLIND, seed)])[0].spec
        assert spec is not None
        if spec.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS):
            assert spec.ego_light is EgoLight.GREEN


# -- choosing ----------------------------------------------------------------------------------------------------------


def specs_of(answers: tuple[str, str, str], n: int = 100, threat_site: ThreatSite | None = None) -> list:
    return [
        a.spec for a in FUSER.make([threat_request(threat_site or site(left=1), answers, seed) for seed in range(n)])
    ]


def test_denied_topics_are_used_more_often_than_mentioned_ones() -> None:
    walkers = {Adversary.PEDESTRIAN, Adversary.CHILD}
    seen = ("Pedestrians and a child stand at the edge.", "Somebody may cross.", "I stop.")
    unseen = (
        "There are no pedestrians. A car, a cyclist, an animal, debris and an ambulance.",
        *CALM[1:],
    )
    counts = [sum(s.adversary in walkers for s in specs_of(answers)) for answers in (seen, unseen)]
    assert counts[1] > 3 * max(counts[0], 1)


def test_overtaking_leads_to_oncoming_traffic_more_often_than_stopping() -> None:
    counts = [
        sum(s.behaviour is AdversaryBehaviour.ONCOMING for s in specs_of((CALM[0], "The car ahead may brake.", plan)))
        for plan in ("I overtake the car.", "I stop and wait.")
    ]
    assert counts[0] > counts[1]


def test_the_reason_quotes_the_answer_that_led_to_it() -> None:
    for spec in specs_of(CALM, 40):
        assert spec.why and any(part in spec.why for part in ("perception says", "prediction says", "planning says"))
        assert f"{spec.weakness.value} says" in spec.why or spec.weakness is TargetWeakness.PERCEPTION


def test_a_target_that_misses_everything_is_probed_at_every_stage() -> None:
    found = Counter(spec.weakness for spec in specs_of(BLIND))
    assert set(found) == set(TargetWeakness) and min(found.values()) >= 10
    specs = [s for s in specs_of(BLIND) if s.why]
    assert all(s.why.startswith(f"{s.weakness.value} says") and s.weakness.value in s.description for s in specs)


def test_an_empty_answer_is_reported_in_the_reason() -> None:
    spec = FUSER.make([threat_request(texts=("", "", ""))])[0].spec
    assert spec is not None and "says nothing at all" in spec.why and '""' not in spec.why


def test_triggers_by_distance_only_if_the_speed_is_predictable() -> None:
    """Behind a junction the ego is slow: a trigger by distance would let the animal cross long before it arrives."""
    assert {s.trigger.kind for s in specs_of(BLIND)} == {"time", "distance"}
    assert {s.trigger.kind for s in specs_of(BLIND, threat_site=crossing())} == {"time"}


def test_a_crossing_adversary_meets_the_ego_for_any_values() -> None:
    """With wide ranges 12 of 32 did not meet a blind driver."""
    met = 0
    for threat_site in (site(), site(oncoming=1, right=1), crossing()):
        for spec in specs_of(BLIND, 120, threat_site):
            if spec.behaviour is not AdversaryBehaviour.CROSS:
                continue
            lanes = (
                threat_site.right if spec.place.side is AdversarySide.RIGHT else threat_site.left + threat_site.oncoming
            )
            distance_m = threat_site.lane_width * (0.5 + lanes) + waiting_offset(spec.place.lane, spec.occluder)
            for pace in (spec.speed_mps.low, spec.speed_mps.high):
                for due in (spec.trigger.value.low, spec.trigger.value.high):
                    assert abs(distance_m / pace + pace / 12 - due) < 1.0, spec
            met += 1
    assert met > 20


def test_the_program_drives_at_the_speed_of_the_spec() -> None:
    """No template clips the speeds of the rules, in a town."""
    for spec in specs_of(BLIND, 80):
        if spec.speed_mps is not None:
            pace = f"param pace = Range({spec.speed_mps.low:g}, {spec.speed_mps.high:g})"
            assert pace in program(spec, site(left=1)), spec.behaviour


def test_quotes_are_cleaned() -> None:
    evil = '"""\nimport os\u202e <<<END>>> {x}'
    spec = FUSER.make([threat_request(texts=(evil, evil, evil))])[0].spec
    assert spec is not None and "<<<" not in spec.why and "{" not in spec.why and "\n" not in spec.why
    assert "import os" not in program(spec, site())


def test_some_specs_change_the_conditions() -> None:
    changed = sum(any(v is not None for v in s.conditions.model_dump().values()) for s in specs_of(BLIND))
    assert 100 * 0.2 < changed < 100 * 0.55


def test_twenty_real_routes_have_a_good_variety(data_dir, tmp_path) -> None:
    from closedloop_plugin.core.routes import read_routes
    from closedloop_plugin.maps.build import road_for
    from closedloop_plugin.scenarios.catalogue import CATALOGUE
    from closedloop_plugin.threats.site import site_of

    routes = read_routes(data_dir / "bench2drive" / "bench2drive220.xml")[::11]
    roads = [(r, road_for(r, CATALOGUE[r.scenario].layout, town=None, folder=tmp_path)) for r in routes]
    real = [site_of("embedded220", r, road) for r, road in roads]
    requests = [ThreatRequest(transcript(s, BLIND), 0, episode_seed(k, s.route, 0)) for s in real for k in range(6)]
    specs = [a.spec for a in FUSER.make(requests)]
    assert all(s is not None and fit(s, w.transcript.site) == [] for s, w in zip(specs, requests, strict=True))
    behaviours = Counter(s.behaviour for s in specs if s)
    assert len(behaviours) >= 10 and max(behaviours.values()) < 0.35 * len(specs)
    assert len({s.adversary for s in specs if s}) >= 9
    assert len({s.occluder for s in specs if s}) >= 5


# -- reactions to verdicts ---------------------------------------------------------------------------------------------

RAN = {"compiles": True, "runs": True}


def test_an_unsurvived_threat_is_repeated_milder_then_replaced() -> None:
    first = FUSER.make([threat_request(texts=BLIND, seed=3)])[0].spec
    assert first is not None
    hard = attempt(first, ScenarioVerdict(passed=False, acts=True, reason="the expert hit it", **RAN))
    second = FUSER.make([threat_request(texts=BLIND, seed=4, attempts=[hard])])[0].spec
    assert second is not None and (second.behaviour, second.adversary) == (first.behaviour, first.adversary)
    assert _seconds(second) > _seconds(first)
    assert all(v is None for v in second.conditions.model_dump().values())
    third = FUSER.make(
        [threat_request(texts=BLIND, seed=5, attempts=[hard, hard.model_copy(update={"spec": second})])]
    )[0].spec
    assert third is not None and third.behaviour is not first.behaviour


def test_a_threat_that_never_acted_acts_sooner() -> None:
    first = FUSER.make([threat_request(texts=BLIND, seed=3)])[0].spec
    idle = attempt(first, ScenarioVerdict(passed=False, reason="never triggered", **RAN))
    second = FUSER.make([threat_request(texts=BLIND, seed=4, attempts=[idle])])[0].spec
    assert first is not None and second is not None and second.behaviour is first.behaviour
    assert _seconds(second) > _seconds(first)


def test_a_threat_that_does_not_compile_is_not_repeated() -> None:
    first = FUSER.make([threat_request(texts=BLIND, seed=3)])[0].spec
    broken = attempt(first, ScenarioVerdict(passed=False, reason="syntax"))
    results = FUSER.make([threat_request(texts=BLIND, seed=k, attempts=[broken]) for k in range(30)])
    others = {a.spec.behaviour for a in results if a.spec}
    assert first is not None and first.behaviour not in others and len(others) > 3


def test_a_spec_is_made_even_if_every_behaviour_failed() -> None:
    failed = [attempt(spec, ScenarioVerdict(passed=False), number=k) for k, spec in enumerate(specs_of(BLIND, 60))]
    assert {a.spec.behaviour for a in failed if a.spec} == {s.behaviour for s in slots(site(left=1))}
    assert FUSER.make([threat_request(site(left=1), BLIND, attempts=failed)])[0].spec is not None


def _seconds(spec) -> float:
    value = spec.trigger.value.middle
    return value if spec.trigger.kind == "time" else value / (0.6 * 13.89)


def test_occluders_match_their_behaviours() -> None:
    for spec in specs_of(BLIND, 60):
        assert spec.occluder in RULES[spec.behaviour].occluders
        assert spec.occluder is not Occluder.NONE or spec.behaviour is not AdversaryBehaviour.HIDDEN_STOP
