"""Fuser without a model: keywords in the answers, tables of threats and numbers. Deterministic for a seed.

Every threat that the route has room for scores points for gaps in the three answers: an adversary or a cover that the
perception does not mention, an action that the prediction does not expect, a plan that relies on nothing happening. A
behaviour is drawn at random among those with the most points, so that a suite with similar answers has variety:

    P(behaviour b) ~ exp(STEEP * (best_b - top)),   best_b >= top - NEAR_BEST
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.fuser.ruleset.candidates import ThreatCandidate, candidates
from closedloop_plugin.threats.fuser.ruleset.keywords import AnswerKeywords, AnswerTopic, read_keywords
from closedloop_plugin.threats.fuser.ruleset.numbers import ThreatAdjustment, numbers, sky
from closedloop_plugin.threats.fuser.slots import ThreatSlot, slots
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import (
    AdversaryBehaviour,
    EgoLight,
    RoadKind,
    TargetWeakness,
    ThreatConditions,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.transcript import FuserExchange, ThreatAttempt

NEAR_BEST = 3.5  # points below the best within which a behaviour can be drawn
STEEP = 0.8  # per point: exponent of the odds between two behaviours
NEAR_TOP = 0.5  # points below a behaviour's best within which its threats can be drawn


class RulesFuser:
    """Fuser by rules, deterministic for ThreatRequest.seed."""

    name = "rules"

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "version": 2}

    def make(self, requests: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """See Fuser.make."""
        return [self._attempt(request) for request in requests]

    def _attempt(self, request: ThreatRequest) -> ThreatAttempt:
        site, rng = request.transcript.site, Random(request.seed)
        attempt = ThreatAttempt(number=request.number, seed=request.seed, fuser=self.describe())
        answers = {TargetWeakness(a.stage): read_keywords(a.text) for a in request.transcript.interview.answers}
        found = [c for slot in slots(site) for c in candidates(slot, answers, site)]
        if not found:
            return attempt.model_copy(update={"refused": "the route has no room for any threat of the vocabulary"})
        plan, adjustment = retry_plan(request)
        kept = [c for c in found if c.slot.behaviour not in plan.exhausted] or found
        if plan.repeat:
            kept = [c for c in kept if _matches(c, plan.repeat)] or kept
        spec = spec_of(choose(kept, rng), site, adjustment, answers, rng)
        exchange = FuserExchange(
            purpose="fuse", prompt=f"{len(found)} threats that fit, {len(kept)} to choose from", reply=spec.why
        )
        return attempt.model_copy(update={"spec": spec, "description": spec.description, "exchanges": [exchange]})


def choose(found: Sequence[ThreatCandidate], rng: Random) -> ThreatCandidate:
    """Draw a behaviour among those near the best, then one of its threats near that behaviour's best."""
    by_behaviour: dict[AdversaryBehaviour, list[ThreatCandidate]] = {}
    for candidate in found:
        by_behaviour.setdefault(candidate.slot.behaviour, []).append(candidate)
    best = {behaviour: max(c.points for c in group) for behaviour, group in by_behaviour.items()}
    top = max(best.values())
    near = sorted(b for b in best if best[b] >= top - NEAR_BEST)
    behaviour = rng.choices(near, [math.exp(STEEP * (best[b] - top)) for b in near])[0]
    group = [c for c in by_behaviour[behaviour] if c.points >= best[behaviour] - NEAR_TOP]
    # First the adversary, then the cover: a pedestrian with seven covers is not seven times as likely as a cyclist.
    adversary = rng.choice(sorted({c.adversary for c in group}))
    return rng.choice([c for c in group if c.adversary is adversary])


@dataclass(frozen=True)
class RetryPlan:
    """Behaviours that are exhausted by earlier attempts, and a spec to repeat once with other numbers."""

    exhausted: frozenset[AdversaryBehaviour] = frozenset()
    repeat: ThreatSpec | None = None


def retry_plan(request: ThreatRequest) -> tuple[RetryPlan, ThreatAdjustment]:
    """Plan of the next attempt, and the adjustment of its numbers.

    A threat that ran but did not act, or that was not survived, is repeated once with other numbers; then another
    behaviour is used. A threat that does not run is not repeated.
    """
    failed = [a for a in request.transcript.attempts if a.spec and a.verdict and not a.verdict.passed]
    if not failed:
        return RetryPlan(), ThreatAdjustment()
    last = failed[-1]
    assert last.spec and last.verdict
    tried = [a for a in failed if a.spec and a.spec.behaviour is last.spec.behaviour]
    adjustment = ThreatAdjustment(
        milder=sum(bool(a.verdict and a.verdict.acts and not a.verdict.survivable) for a in failed),
        sooner=sum(bool(a.verdict and a.verdict.runs and not a.verdict.acts) for a in failed),
    )
    repeat = last.verdict.compiles and last.verdict.runs and len(tried) == 1
    exhausted = {a.spec.behaviour for a in failed if a.spec and not (repeat and a is last)}
    return RetryPlan(frozenset(exhausted), last.spec if repeat else None), adjustment


def _matches(candidate: ThreatCandidate, spec: ThreatSpec) -> bool:
    slot = candidate.slot
    return (slot.behaviour, slot.side, slot.lane, slot.road, candidate.adversary, candidate.occluder) == (
        spec.behaviour, spec.place.side, spec.place.lane, spec.road, spec.adversary, spec.occluder,
    )  # fmt: skip


def spec_of(
    candidate: ThreatCandidate,
    site: ThreatSite,
    adjustment: ThreatAdjustment,
    answers: Mapping[TargetWeakness, AnswerKeywords],
    rng: Random,
) -> ThreatSpec:
    """The complete spec. It fits the site by construction, which is asserted."""
    slot = candidate.slot
    values = numbers(slot, candidate.adversary, candidate.occluder, site, adjustment, rng)
    ahead = values.pop("ahead_m")
    fields: dict[str, Any] = {
        "adversary": candidate.adversary,
        "behaviour": slot.behaviour,
        "place": {"side": slot.side, "lane": slot.lane, "ahead_m": ahead},
        "road": slot.road,
        "occluder": candidate.occluder,
        "ego_light": _light(slot, site, rng),
        "conditions": _conditions(answers, adjustment, rng),
        **values,
    }
    weakness = rng.choice(candidate.weaknesses)
    fields |= {"weakness": weakness, "why": candidate.why(weakness)}
    plain = ThreatSpec(**fields, description="-")
    spec = plain.model_copy(update={"description": f"{sentence(plain)} It tests the {plain.weakness.value}."})
    problems = fit(spec, site)
    if problems:
        raise AssertionError(f"route {site.route}: {problems[0]}")
    return spec


def _light(slot: ThreatSlot, site: ThreatSite, rng: Random) -> EgoLight:
    """Green for the ego if the adversary crosses against the rules: at red the ego would only wait."""
    if slot.road is not RoadKind.JUNCTION or site.control != "signal":
        return EgoLight.CYCLE
    crossing = slot.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS)
    return EgoLight.GREEN if crossing else rng.choice([EgoLight.CYCLE, EgoLight.GREEN])


def _conditions(
    answers: Mapping[TargetWeakness, AnswerKeywords], adjustment: ThreatAdjustment, rng: Random
) -> ThreatConditions:
    """Weather of about a third of the specs, more often if the target ignores weather; none after a failed check."""
    mentioned = any(AnswerTopic.SKY in answer.mentioned for answer in answers.values())
    wanted = rng.random() < (0.25 if mentioned else 0.4)
    return sky(rng) if wanted and not adjustment.milder else ThreatConditions()
