"""Uniform threats: they cover the vocabulary and fit; further actors and conditions of the pictures."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import assume, given, settings
from support.threats.sites import any_site
from support.threats.threat_requests import crossing, site, threat_request
from support.tiers import examples

from closedloop_plugin.threats.fuser.slots import slots
from closedloop_plugin.threats.fuser.uniform import UniformFuser, picture_conditions
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import RULES, AdversaryBehaviour, ContradictorySign, ThreatSpec
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.threats.words import apart


def uniform(where: ThreatSite, seed: int) -> ThreatSpec:
    request = threat_request(where, seed=seed)
    (made,) = UniformFuser().make([request])
    assert made.spec is not None and UniformFuser().make([request]) == [made]
    return made.spec


@settings(max_examples=examples(30), deadline=None)
@given(threat_site=any_site)
def test_every_spec_fits_its_site(threat_site: ThreatSite) -> None:
    assume(slots(threat_site))
    for seed in range(3):
        spec = uniform(threat_site, seed)
        assert fit(spec, threat_site) == [] and ThreatSpec.model_validate(spec.model_dump()) == spec


def test_a_route_without_room_is_refused_with_the_reason() -> None:
    (made,) = UniformFuser().make([threat_request(site(length_m=11.0, trigger_s=10.0))])
    assert made.spec is None and "no room" in made.refused


def test_the_vocabulary_of_a_site_is_covered() -> None:
    found = [uniform(crossing(), seed) for seed in range(250)]
    assert {s.behaviour for s in found} == set(AdversaryBehaviour)
    triggers = [s.trigger.value.low for s in found if s.trigger.kind == "time"]
    assert min(triggers) < 1.0 and max(triggers) > 7.5 and sum(t < 4.25 for t in triggers) / len(triggers) < 0.62
    assert all((s.speed_mps is not None) == ("speed_mps" in RULES[s.behaviour].numbers) for s in found)


@pytest.mark.parametrize("where", [site(), site(left=1, right=1), crossing()])
def test_some_have_a_further_actor_and_some_a_condition_of_the_pictures(where: ThreatSite) -> None:
    further, sights = 0, Counter[str]()
    for seed in range(120):
        spec = uniform(where, seed)
        assert program(spec, where)
        further += len(spec.further)
        assert all(apart(spec.behaviour, other.behaviour) is not None for other in spec.further)
        sights.update(list(spec.perception.model_dump(exclude_defaults=True)))
    assert 0.15 < further / 120 < 0.45 and 0.15 < sights.total() / 120 < 0.45
    assert sights["worn_markings"] and sights["lens_drops"] and sights["contradictory_sign"]


def test_all_conditions_that_a_site_can_show_are_possible() -> None:
    found = Counter[str]()
    spec = uniform(crossing(), 1).model_copy(update={"perception": ThreatSpec.model_fields["perception"].default})
    for seed in range(30):
        for change in picture_conditions(spec, crossing(), Random(seed)):
            found.update([*change["perception"].numbers, change["perception"].contradictory_sign.value])
    assert {"worn_markings", "lens_drops", "hidden_signs", *ContradictorySign} <= set(found)
    only = site(shows=("lens_drops",))
    assert [list(c["perception"].numbers) for c in picture_conditions(spec, only, Random(0))] == [["lens_drops"]]
