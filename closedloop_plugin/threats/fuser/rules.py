"""The fuser without a model: keyword reading, a table of what endangers whom, numbers from tables. The same seed gives
the same spec.

Every threat that the route has room for gets points for what it finds in the three answers: an adversary or a cover
that the perception does not speak of, an action that the prediction does not expect, a plan that relies on nothing
happening. Among the behaviours with the most points the seed chooses, so that a suite of like answers has variety.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.fuser.ruleset.candidates import ThreatCandidate, candidates
from closedloop_plugin.threats.fuser.ruleset.keywords import AnswerKeywords, AnswerTopic, heard
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

NEAR_BEST = 3.5  # behaviours whose best threat has at most so many points less may be chosen
STEEP = 0.8  # how much likelier the better behaviour is
NEAR_TOP = 0.5  # the same within a behaviour


class RulesFuser:
    """Offline and deterministic by Wish.seed."""

    name = "rules"

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "version": 2}

    def make(self, wishes: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """See Fuser.make."""
        return [self._one(wish) for wish in wishes]

    def _one(self, wish: ThreatRequest) -> ThreatAttempt:
        site, dice = wish.transcript.site, Random(wish.seed)
        attempt = ThreatAttempt(number=wish.number, seed=wish.seed, fuser=self.describe())
        answers = {TargetWeakness(a.stage): heard(a.text) for a in wish.transcript.interview.answers}
        found = [c for slot in slots(site) for c in candidates(slot, answers, site)]
        if not found:
            return attempt.model_copy(update={"refused": "the route has no room for any threat of the vocabulary"})
        again, mood = lesson(wish)
        kept = [c for c in found if c.slot.behaviour not in again.worn] or found
        if again.same:
            kept = [c for c in kept if _like(c, again.same)] or kept
        spec = spec_of(choose(kept, dice), site, mood, answers, dice)
        exchange = FuserExchange(
            purpose="fuse", prompt=f"{len(found)} threats that fit, {len(kept)} to choose from", reply=spec.why
        )
        return attempt.model_copy(update={"spec": spec, "description": spec.description, "exchanges": [exchange]})


def choose(found: Sequence[ThreatCandidate], dice: Random) -> ThreatCandidate:
    """A behaviour among those near the best, the better the likelier; then one of its threats near its own best."""
    by_behaviour: dict[AdversaryBehaviour, list[ThreatCandidate]] = {}
    for candidate in found:
        by_behaviour.setdefault(candidate.slot.behaviour, []).append(candidate)
    best = {behaviour: max(c.points for c in group) for behaviour, group in by_behaviour.items()}
    top = max(best.values())
    near = sorted(b for b in best if best[b] >= top - NEAR_BEST)
    behaviour = dice.choices(near, [math.exp(STEEP * (best[b] - top)) for b in near])[0]
    group = [c for c in by_behaviour[behaviour] if c.points >= best[behaviour] - NEAR_TOP]
    # First who, then how: a walker with seven covers is not seven times as likely as a cyclist without one.
    who = dice.choice(sorted({c.adversary for c in group}))
    return dice.choice([c for c in group if c.adversary is who])


@dataclass(frozen=True)
class RetryPlan:
    """Of earlier attempts: what is worn out, and what is tried once more with other numbers."""

    worn: frozenset[AdversaryBehaviour] = frozenset()
    same: ThreatSpec | None = None


def lesson(wish: ThreatRequest) -> tuple[RetryPlan, ThreatAdjustment]:
    """A threat that ran but did not act, or that nobody survived, gets one more try with other numbers; then another
    behaviour comes. What does not run is not tried again."""
    failed = [a for a in wish.transcript.attempts if a.spec and a.verdict and not a.verdict.passed]
    if not failed:
        return RetryPlan(), ThreatAdjustment()
    last = failed[-1]
    assert last.spec and last.verdict
    tried = [a for a in failed if a.spec and a.spec.behaviour is last.spec.behaviour]
    mood = ThreatAdjustment(
        milder=sum(bool(a.verdict and a.verdict.acts and not a.verdict.survivable) for a in failed),
        sooner=sum(bool(a.verdict and a.verdict.runs and not a.verdict.acts) for a in failed),
    )
    once_more = last.verdict.compiles and last.verdict.runs and len(tried) == 1
    worn = {a.spec.behaviour for a in failed if a.spec and not (once_more and a is last)}
    return RetryPlan(frozenset(worn), last.spec if once_more else None), mood


def _like(candidate: ThreatCandidate, spec: ThreatSpec) -> bool:
    slot = candidate.slot
    return (slot.behaviour, slot.side, slot.lane, slot.road, candidate.adversary, candidate.occluder) == (
        spec.behaviour, spec.place.side, spec.place.lane, spec.road, spec.adversary, spec.occluder,
    )  # fmt: skip


def spec_of(
    candidate: ThreatCandidate,
    site: ThreatSite,
    mood: ThreatAdjustment,
    answers: Mapping[TargetWeakness, AnswerKeywords],
    dice: Random,
) -> ThreatSpec:
    """The whole spec; it fits the site by construction, and that is checked."""
    slot = candidate.slot
    values = numbers(slot, candidate.adversary, candidate.occluder, site, mood, dice)
    ahead = values.pop("ahead_m")
    fields: dict[str, Any] = {
        "adversary": candidate.adversary,
        "behaviour": slot.behaviour,
        "place": {"side": slot.side, "lane": slot.lane, "ahead_m": ahead},
        "road": slot.road,
        "occluder": candidate.occluder,
        "ego_light": _light(slot, site, dice),
        "conditions": _conditions(answers, mood, dice),
        **values,
    }
    weakness = dice.choice(candidate.weaknesses)
    fields |= {"weakness": weakness, "why": candidate.why(weakness)}
    plain = ThreatSpec(**fields, description="-")
    spec = plain.model_copy(update={"description": f"{sentence(plain)} It tests the {plain.weakness.value}."})
    problems = fit(spec, site)
    if problems:
        raise AssertionError(f"route {site.route}: {problems[0]}")
    return spec


def _light(slot: ThreatSlot, site: ThreatSite, dice: Random) -> EgoLight:
    """Where somebody crosses against the rules the ego has green: at red it would only stand there."""
    if slot.road is not RoadKind.JUNCTION or site.control != "signal":
        return EgoLight.CYCLE
    crossing = slot.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS)
    return EgoLight.GREEN if crossing else dice.choice([EgoLight.CYCLE, EgoLight.GREEN])


def _conditions(
    answers: Mapping[TargetWeakness, AnswerKeywords], mood: ThreatAdjustment, dice: Random
) -> ThreatConditions:
    """About a third, and rather where the target says nothing of weather; none once a threat was too hard."""
    looks = any(AnswerTopic.SKY in answer.said for answer in answers.values())
    wanted = dice.random() < (0.25 if looks else 0.4)
    return sky(dice) if wanted and not mood.milder else ThreatConditions()
