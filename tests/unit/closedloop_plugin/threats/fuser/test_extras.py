"""Further actors and conditions of the rules: how often, always fitting, deterministic."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from support.threats.threat_requests import crossing, site, threat_request

from closedloop_plugin.threats.fuser.rules import RulesFuser
from closedloop_plugin.threats.fuser.ruleset.extras import RULE_ODDS, UNIFORM_ODDS, ExtraOdds, with_extras
from closedloop_plugin.threats.fuser.ruleset.numbers import ThreatAdjustment
from closedloop_plugin.threats.pairs import apart
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import ContradictorySign, TargetWeakness, ThreatSpec
from closedloop_plugin.threats.templates.program import program

SITES = (site(), site(left=1), site(left=1, right=1), crossing())
SPECS = 40  # per site


def plain(where: ThreatSite, seed: int) -> ThreatSpec:
    (made,) = RulesFuser().make([threat_request(where, seed=seed)])
    assert made.spec is not None
    return made.spec.model_copy(update={"further": ()})


@pytest.mark.parametrize("odds", [RULE_ODDS, UNIFORM_ODDS])
def test_about_a_third_have_a_further_actor(odds: ExtraOdds) -> None:
    further, sights = 0, Counter[str]()
    for where in SITES:
        for seed in range(SPECS):
            spec = plain(where, seed)
            more = with_extras(spec, where, Random(seed), odds=odds)
            assert more == with_extras(spec, where, Random(seed), odds=odds)
            assert fit(more, where) == [] and ThreatSpec.model_validate(more.model_dump()) == more
            assert program(more, where)
            further += len(more.further)
            assert all(apart(spec.behaviour, other.behaviour) is not None for other in more.further)
            sights.update(list(more.perception.numbers))
            sights[more.perception.contradictory_sign.value] += 1
    assert 0.25 < further / (SPECS * len(SITES)) < 0.42
    words = {"worn_markings", "sun_glare", "lens_drops", "hidden_signs", *ContradictorySign} - {"none"}
    assert all(sights[word] for word in words), sights


def test_perception_is_probed_by_conditions_more_often() -> None:
    shares = {}
    for weakness in TargetWeakness:
        base = plain(site(), 1).model_copy(update={"weakness": weakness})
        drawn = [with_extras(base, site(), Random(seed)) for seed in range(100)]
        shares[weakness] = sum(spec.perception != base.perception for spec in drawn) / 100
    assert shares[TargetWeakness.PERCEPTION] > 1.5 * max(shares[TargetWeakness.PLANNING], 0.1)


@pytest.mark.parametrize("adjustment", [ThreatAdjustment(milder=1), ThreatAdjustment(sooner=1)])
def test_an_attempt_after_a_failed_check_has_no_further_actor(adjustment: ThreatAdjustment) -> None:
    for seed in range(40):
        assert not with_extras(plain(site(), seed), site(), Random(seed), adjustment).further


def test_only_what_the_world_shows_is_drawn() -> None:
    where = site(shows=("lens_drops",))
    every = ExtraOdds(further=0.0, perception=dict.fromkeys(TargetWeakness, 1.0))
    for seed in range(20):
        spec = with_extras(plain(where, seed), where, Random(seed), odds=every)
        assert list(spec.perception.numbers) == ["lens_drops"]
