"""Fuser without a model: what the target did, keywords in its answers, tables of threats and numbers.

Deterministic for a seed. Every threat that the route has room for scores points: for what the target's drive shows
(its speed there, road users that it does not react to, infractions), and for gaps in its answers (candidates.py). A
behaviour is drawn at random among those with the most points, so that a suite with similar targets has variety:

    P(behaviour b) ~ exp(STEEP * (best_b - top)),   best_b >= top - NEAR_BEST

In a later round the target has survived: if it came close or reacted late, the same threat is repeated once with a
later trigger (late.py), where that matters; else another behaviour is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.driven.summary import DriveSummary
from closedloop_plugin.threats.fuser.ruleset.candidates import ThreatCandidate, candidates
from closedloop_plugin.threats.fuser.ruleset.complete import OfflineFuser, complete
from closedloop_plugin.threats.fuser.ruleset.driven import DrivenEvidence, evidence_of
from closedloop_plugin.threats.fuser.ruleset.free import free_slots
from closedloop_plugin.threats.fuser.ruleset.keywords import AnswerKeywords, AnswerTopic, joined, read_keywords
from closedloop_plugin.threats.fuser.ruleset.late import bracket_of, is_at, late_numbers
from closedloop_plugin.threats.fuser.ruleset.numbers import ThreatAdjustment, numbers, sky
from closedloop_plugin.threats.fuser.slots import ThreatSlot, lights
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    AdversaryBehaviour,
    EgoLight,
    TargetWeakness,
    ThreatConditions,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_parsing import short
from closedloop_plugin.threats.transcript import ThreatAttempt

NEAR_BEST = 3.5  # points below the best within which a behaviour can be drawn
STEEP = 0.8  # per point: exponent of the odds between two behaviours
NEAR_BEST_DRIVEN, STEEP_DRIVEN = 1.5, 1.6  # the same with evidence of a drive
NEAR_TOP = 0.5  # points below a behaviour's best within which its threats can be drawn
REPEATS = 1  # of a threat that was survived, with a later trigger
# Behaviours that are harder if they begin later; how somebody follows or passes, and a stop behind a covering vehicle,
# do not depend on when they begin.
TIMED = frozenset(AdversaryBehaviour) - {
    AdversaryBehaviour.TAILGATE, AdversaryBehaviour.EMERGENCY_PASS, AdversaryBehaviour.HIDDEN_STOP,
    AdversaryBehaviour.SLOW_AHEAD,
}  # fmt: skip
CLOSE_M, CLOSE_TTC_S, LATE_S = 2.0, 1.5, 0.8  # gap, time to collision, reaction time of a survived drive that was close


class RulesFuser(OfflineFuser):
    """Fuser by rules."""

    name, version = "rules", 4

    def spec(self, request: ThreatRequest, rng: Random) -> tuple[ThreatSpec, str] | None:
        site, answers = request.transcript.site, answers_of(request)
        evidence = evidence_of(request.transcript)
        free = free_slots(site, evidence.drive if evidence else None)
        found = [c for slot in free for c in candidates(slot, answers, site, evidence)]
        if not found:
            return None
        plan, adjustment = retry_plan(request, evidence)
        kept = [c for c in found if c.slot.behaviour not in plan.exhausted] or found
        if plan.repeat:
            kept = [c for c in kept if _matches(c, plan.repeat)] or kept
        spec = spec_of(
            choose(kept, rng, evidence is not None), site, adjustment, answers, rng,
            request=request, evidence=evidence, plan=plan, free=free,
        )  # fmt: skip
        return spec, f"{len(found)} threats that fit, {len(kept)} to choose from"


def answers_of(request: ThreatRequest) -> dict[TargetWeakness, AnswerKeywords]:
    """Keywords of each stage, over all moments; none of a driver without words."""
    if request.transcript.interview.source == "observed":
        return {}
    by_stage: dict[TargetWeakness, list[AnswerKeywords]] = {}
    for answer in request.transcript.interview.answers:
        by_stage.setdefault(TargetWeakness(answer.stage), []).append(read_keywords(answer.text))
    return {stage: joined(parts) for stage, parts in by_stage.items()}


def choose(found: Sequence[ThreatCandidate], rng: Random, driven: bool = False) -> ThreatCandidate:
    """Draw a behaviour among those near the best, then one of its threats near that behaviour's best."""
    within, steep = (NEAR_BEST_DRIVEN, STEEP_DRIVEN) if driven else (NEAR_BEST, STEEP)
    by_behaviour: dict[AdversaryBehaviour, list[ThreatCandidate]] = {}
    for candidate in found:
        by_behaviour.setdefault(candidate.slot.behaviour, []).append(candidate)
    best = {behaviour: max(c.points for c in group) for behaviour, group in by_behaviour.items()}
    top = max(best.values())
    near = sorted(b for b in best if best[b] >= top - within)
    behaviour = rng.choices(near, [math.exp(steep * (best[b] - top)) for b in near])[0]
    group = [c for c in by_behaviour[behaviour] if c.points >= best[behaviour] - NEAR_TOP]
    # First the adversary, then the cover: a pedestrian with seven covers is not seven times as likely as a cyclist.
    adversary = rng.choice(sorted({c.adversary for c in group}))
    return rng.choice([c for c in group if c.adversary is adversary])


@dataclass(frozen=True)
class RetryPlan:
    """Behaviours that are exhausted by earlier attempts, and a spec to repeat with other numbers, with the reason."""

    exhausted: frozenset[AdversaryBehaviour] = frozenset()
    repeat: ThreatSpec | None = None
    why: str = ""


def retry_plan(request: ThreatRequest, evidence: DrivenEvidence | None) -> tuple[RetryPlan, ThreatAdjustment]:
    """Plan of the next attempt, and the adjustment of its numbers.

    A threat that ran but did not act, or that was not survived, is repeated once with other numbers; then another
    behaviour is used. A threat that does not run is not repeated. The first attempt of a later round follows what the
    target did in the last one.
    """
    attempts = request.transcript.attempts
    survived = [a for a in attempts if a.survived]
    failed = [a for a in attempts if a.spec and a.verdict and not a.verdict.passed and a.round == request.round]
    if not failed:
        return (_after_round(survived[-1], attempts) if survived else RetryPlan()), ThreatAdjustment()
    last = failed[-1]
    assert last.spec and last.verdict
    tried = [a for a in failed if a.spec and a.spec.behaviour is last.spec.behaviour]
    adjustment = ThreatAdjustment(
        milder=sum(bool(a.verdict and a.verdict.acts and not a.verdict.survivable) for a in failed),
        sooner=sum(bool(a.verdict and a.verdict.runs and not a.verdict.acts) for a in failed),
    )
    repeat = last.verdict.compiles and last.verdict.runs and len(tried) == 1
    exhausted = {a.spec.behaviour for a in failed if a.spec and not (repeat and a is last)}
    exhausted |= {
        a.spec.behaviour for a in survived if a.spec and not (repeat and a.spec.behaviour is last.spec.behaviour)
    }
    reason = short(last.verdict.reason, 120)
    shown = reason.startswith("not hidden")
    why = f"The last attempt was {reason}." if shown else f"The expert did not get through the last attempt ({reason})."
    return RetryPlan(frozenset(exhausted), last.spec if repeat else None, why), adjustment


def _after_round(last: ThreatAttempt, attempts: Sequence[ThreatAttempt]) -> RetryPlan:
    """After a scenario that the target survived."""
    assert last.spec is not None and last.outcome is not None
    slot = ThreatSlot(last.spec.behaviour, last.spec.place.side, last.spec.place.lane, last.spec.road, ())
    bracket = bracket_of(attempts, slot, last.spec.adversary)
    others = frozenset(a.spec.behaviour for a in attempts if a.survived and a.spec)
    figures = _figures(last.outcome)
    again = last.spec.behaviour in TIMED and len(bracket.too_early) <= REPEATS and not bracket.exhausted
    if again and _was_close(last.outcome):
        return RetryPlan(
            others - {last.spec.behaviour}, last.spec, f"It survived {last.spec.behaviour.value} {figures}."
        )
    return RetryPlan(others, None, f"It got through {last.spec.behaviour.value} {figures}, so another threat follows.")


def _was_close(outcome: DriveSummary) -> bool:
    reaction = outcome.reaction
    late = reaction is not None and (reaction.seconds is None or reaction.seconds >= LATE_S)
    margins = outcome.margins
    gap = margins.gap_m is not None and margins.gap_m <= CLOSE_M
    return late or gap or (margins.ttc_s is not None and margins.ttc_s <= CLOSE_TTC_S)


def _figures(outcome: DriveSummary) -> str:
    """The outcome of a survived scenario in words."""
    parts, margins = [], outcome.margins
    if margins.gap_m is not None:
        parts.append(f"{margins.gap_m:.1f} m")
    if margins.ttc_s is not None:
        parts.append(f"{margins.ttc_s:.1f} s to a collision")
    text = f"with {' and '.join(parts)} left" if parts else "without coming near anybody"
    if outcome.reaction is None:
        return text
    late = outcome.reaction.seconds
    reacted = "it did not brake" if late is None else f"it braked {late:.1f} s after the act"
    return f"{text}; at {outcome.reaction.speed:.1f} m/s {reacted}"


def _matches(candidate: ThreatCandidate, spec: ThreatSpec) -> bool:
    return is_at(spec, candidate.slot, candidate.adversary) and candidate.occluder is spec.occluder


def spec_of(
    candidate: ThreatCandidate,
    site: ThreatSite,
    adjustment: ThreatAdjustment,
    answers: Mapping[TargetWeakness, AnswerKeywords],
    rng: Random,
    *,
    request: ThreatRequest,
    evidence: DrivenEvidence | None,
    plan: RetryPlan,
    free: Sequence[ThreatSlot],
) -> ThreatSpec:
    """The complete spec; see `complete`. `free`: slots for a further actor."""
    slot = candidate.slot
    values = numbers(slot, candidate.adversary, candidate.occluder, site, adjustment, rng)
    note = ""
    if evidence is not None and not adjustment.sooner:
        bracket = bracket_of(request.transcript.attempts, slot, candidate.adversary)
        place = evidence.place(slot, site)
        values, low = late_numbers(
            values, slot, candidate.adversary, candidate.occluder, site, place=place, bracket=bracket
        )
        note = f" It acts from {low:g} s before the place on."
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
    why = short(f"{plan.why} {candidate.why(weakness)}{note}", 600)
    return complete({**fields, "weakness": weakness, "why": why}, site, rng, adjustment, available=_companions(free))


def _companions(free: Sequence[ThreatSlot]) -> list[ThreatSlot]:
    """Slots of a further actor: no follower, which would hit an ego that must brake hard for a late first actor."""
    return [slot for slot in free if slot.behaviour is not AdversaryBehaviour.TAILGATE]


def _light(slot: ThreatSlot, site: ThreatSite, rng: Random) -> EgoLight:
    """Green for the ego if the adversary crosses against the rules; never red, where the ego would only wait."""
    fitting = lights(slot, site)
    if EgoLight.GREEN not in fitting:
        return EgoLight.CYCLE
    return rng.choice([EgoLight.CYCLE, EgoLight.GREEN]) if EgoLight.RED in fitting else EgoLight.GREEN


def _conditions(
    answers: Mapping[TargetWeakness, AnswerKeywords], adjustment: ThreatAdjustment, rng: Random
) -> ThreatConditions:
    """Weather of about a third of the specs, more often if the target ignores weather; none after a failed check."""
    mentioned = any(AnswerTopic.SKY in answer.mentioned for answer in answers.values())
    wanted = rng.random() < (0.25 if mentioned else 0.4)
    return sky(rng) if wanted and not adjustment.milder else ThreatConditions()
