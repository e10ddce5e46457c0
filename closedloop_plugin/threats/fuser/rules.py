"""Fuser without a model: what the target did, and the table of triggers (triggers.py).

Deterministic for a seed. Every place that the route has room for scores points: those of its behaviour, for the
target's speed there, for infractions of its standard drive, and if the target's prediction says nothing of it. A
behaviour is drawn at random, so that a suite with similar targets has variety:

    P(behaviour b) ~ exp(STEEP * (best_b - top)),   best_b >= top - NEAR_BEST

In a later round the target has survived: if it came close or reacted late, the same threat is repeated once with a
later trigger, where that matters; else another behaviour is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from closedloop_plugin.driver.agents.model_backend import harmless
from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.driven.summary import DriveSummary
from closedloop_plugin.threats.fuser.driven_text import outcome_text
from closedloop_plugin.threats.fuser.slots import ThreatSlot, free_slots, lights
from closedloop_plugin.threats.fuser.triggers import (
    MOTORWAY,
    TRIGGERS,
    DrivenPlace,
    TriggerBracket,
    driven_place,
    numbers,
)
from closedloop_plugin.threats.fuser.uniform import OfflineFuser, complete, picture_conditions
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    AdversaryBehaviour,
    AdversarySide,
    EgoLight,
    Occluder,
    RoadKind,
    TargetWeakness,
    ThreatConditions,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_parsing import short
from closedloop_plugin.threats.transcript import ThreatAttempt

NEAR_BEST, STEEP = (
    2.5,
    1.6,
)  # points below the best within which a behaviour can be drawn; exponent of the odds per point
NEAR_TOP = 0.5  # points below a behaviour's best within which its places can be drawn
# Points: an infraction that calls for the behaviour, full speed at the place, never there, not in the prediction,
# an implausible place.
DONE, FAST, ABSENT, UNSAID, ODD = 1.5, 1.2, -3.0, 0.6, -1.5
CHANGED = 0.3  # share of the specs with other weather or a condition of the pictures
SKIES = (
    {"fog_density": (25, 55), "cloudiness": (60, 90)},
    {"precipitation": (40, 80), "precipitation_deposits": (30, 70), "wetness": (40, 80), "cloudiness": (70, 100)},
    {"sun_altitude_angle": (-30, -8)},
)
QUOTE = 140  # characters of an answer in a reason
REPEATS = 1  # of a threat that was survived, with a later trigger
CLOSE_M, CLOSE_TTC_S, LATE_S = 2.0, 1.5, 0.8  # gap, time to collision, reaction time of a survived drive that was close


@dataclass(frozen=True)
class ThreatChoice:
    """A slot with its points. `place`: where the target drives fastest; `unsaid`: its prediction leaves it out."""

    slot: ThreatSlot
    place: DrivenPlace | None
    points: float
    reasons: tuple[str, ...]
    unsaid: bool = False


@dataclass(frozen=True)
class RetryPlan:
    """What earlier attempts leave: behaviours that are exhausted, a spec to repeat with other numbers, the reason.

    `milder`: attempts of the round that the expert did not survive.
    """

    exhausted: frozenset[AdversaryBehaviour] = frozenset()
    repeat: ThreatSpec | None = None
    why: str = ""
    milder: int = 0


class RulesFuser(OfflineFuser):
    """Fuser by rules."""

    name, version = "rules", 5

    def spec(self, request: ThreatRequest, rng: Random) -> tuple[ThreatSpec, str] | None:
        site, drive = request.transcript.site, request.transcript.interview.drive
        prediction = _prediction(request)
        found = [choice_of(slot, site, drive, prediction) for slot in free_slots(site, drive)]
        if not found:
            return None
        plan = retry_plan(request)
        kept = [c for c in found if c.slot.behaviour not in plan.exhausted] or found
        if plan.repeat:
            kept = [c for c in kept if _is_at(plan.repeat, c.slot)] or kept
        spec = spec_of(draw(kept, rng), request, plan, rng)
        return spec, f"{len(found)} places that fit, {len(kept)} to choose from"


def choice_of(slot: ThreatSlot, site: ThreatSite, drive: DriveSummary | None, prediction: str) -> ThreatChoice:
    """The slot with its points and reasons. `prediction`: the target's answers; "" if it was not asked."""
    row, place = TRIGGERS[slot.behaviour], driven_place(slot, site, drive) if drive else None
    points, reasons = row.points + _oddness(slot, site), []
    if drive is not None:
        points += FAST * min(place.speed / max(site.speed_limit, 1.0), 1.0) if place else ABSENT
        reasons += [f"It drove {place.speed:.1f} m/s at s={place.s:.0f} m."] if place else []
        done = next((x for x in drive.infractions if x.kind in row.infractions), None)
        if done is not None:
            points += DONE
            when = "" if done.time_s is None else f" at {done.time_s:.1f} s"
            reasons.insert(0, f"On its drive of the standard route: {done.kind.replace('_', ' ')}{when}.")
    unsaid = bool(prediction) and not row.is_expected(prediction)
    if unsaid:
        points += UNSAID
        reasons.insert(0, f'prediction says "{short(prediction, QUOTE)}", and nothing of {row.expected[0]}.')
    return ThreatChoice(slot, place, points, tuple(reasons), unsaid)


def draw(found: Sequence[ThreatChoice], rng: Random) -> ThreatChoice:
    """Draw a behaviour among those near the best, then one of its places near that behaviour's best."""
    best: dict[AdversaryBehaviour, float] = {}
    for choice in found:
        best[choice.slot.behaviour] = max(choice.points, best.get(choice.slot.behaviour, -math.inf))
    top = max(best.values())
    near = sorted(b for b in best if best[b] >= top - NEAR_BEST)
    behaviour = rng.choices(near, [math.exp(STEEP * (best[b] - top)) for b in near])[0]
    return rng.choice([c for c in found if c.slot.behaviour is behaviour and c.points >= best[behaviour] - NEAR_TOP])


def spec_of(choice: ThreatChoice, request: ThreatRequest, plan: RetryPlan, rng: Random) -> ThreatSpec:
    """The complete spec: adversary and cover at random, or those that are repeated; the numbers as late as it goes."""
    site, slot = request.transcript.site, choice.slot
    covers = [cover for cover in TRIGGERS[slot.behaviour].covers if cover in slot.occluders]
    adversary, occluder = rng.choice(slot.adversaries), rng.choice(covers or slot.occluders)
    if plan.repeat and _is_at(plan.repeat, slot):
        adversary, occluder = plan.repeat.adversary, plan.repeat.occluder
    bracket = bracket_of([a for a in request.transcript.attempts if a.spec and a.spec.adversary is adversary], slot)
    values = numbers(slot, adversary, occluder, site, place=choice.place, bracket=bracket, milder=plan.milder)
    from_s = values["trigger"]["value"].low
    hidden = occluder is not Occluder.NONE
    weakness = TargetWeakness.PREDICTION if choice.unsaid else TargetWeakness.PLANNING
    why = " ".join(filter(None, [plan.why, *choice.reasons, f"It acts from {from_s:g} s before the place on."]))
    fields: dict[str, Any] = {
        "adversary": adversary,
        "behaviour": slot.behaviour,
        "place": {"side": slot.side, "lane": slot.lane, "ahead_m": values.pop("ahead_m")},
        "road": slot.road,
        "occluder": occluder,
        # Green if the adversary crosses against the rules; never red, where the ego would only wait.
        "ego_light": EgoLight.GREEN if lights(slot, site) == [EgoLight.CYCLE, EgoLight.GREEN] else EgoLight.CYCLE,
        "weakness": TargetWeakness.PERCEPTION if hidden else weakness,
        "why": short(harmless(why), 600),
        **values,
    }
    spec = complete(fields, site)
    if rng.random() >= CHANGED or plan.milder:
        return spec
    skies = [{"conditions": ThreatConditions.model_validate(sky)} for sky in SKIES]
    return complete({**dict(spec), **rng.choice([*skies, *picture_conditions(spec, site, rng)])}, site)


def retry_plan(request: ThreatRequest) -> RetryPlan:
    """Plan of the next attempt.

    A threat that ran but did not act, or that was not survived, is repeated once with other numbers; then another
    behaviour is used. A threat that does not run is not repeated. The first attempt of a later round follows what the
    target did in the last one.
    """
    attempts = [a for a in request.transcript.attempts if a.spec]
    survived = [a for a in attempts if a.survived]
    failed = [a for a in attempts if a.verdict and not a.verdict.passed and a.round == request.round]
    if not failed:
        return _after_round(survived[-1], attempts) if survived else RetryPlan()
    last, verdict = failed[-1].spec, failed[-1].verdict
    assert last and verdict
    repeat = verdict.runs and len([a for a in failed if a.spec and a.spec.behaviour is last.behaviour]) == 1
    tried = {a.spec.behaviour for a in [*failed, *survived] if a.spec} - ({last.behaviour} if repeat else set())
    milder = sum(bool(a.verdict and a.verdict.acts and not a.verdict.survivable) for a in failed)
    why = f"The last attempt did not pass the check: {short(verdict.reason, 120)}."
    return RetryPlan(frozenset(tried), last if repeat else None, why, milder)


def _after_round(last: ThreatAttempt, attempts: Sequence[ThreatAttempt]) -> RetryPlan:
    """After a scenario that the target survived."""
    spec, outcome = last.spec, last.outcome
    assert spec is not None and outcome is not None
    slot = ThreatSlot(spec.behaviour, spec.place.side, spec.place.lane, spec.road, ())
    bracket = bracket_of([a for a in attempts if a.spec and a.spec.adversary is spec.adversary], slot)
    others = frozenset(a.spec.behaviour for a in attempts if a.survived and a.spec)
    why = f"It survived {spec.behaviour.value}. {outcome_text(outcome)}"
    if TRIGGERS[spec.behaviour].later and len(bracket.too_early) <= REPEATS and _was_close(outcome):
        return RetryPlan(others - {spec.behaviour}, spec, why)
    return RetryPlan(others, None, why)


def _was_close(outcome: DriveSummary) -> bool:
    reaction, margins = outcome.reaction, outcome.margins
    late = reaction is not None and (reaction.seconds is None or reaction.seconds >= LATE_S)
    gap = margins.gap_m is not None and margins.gap_m <= CLOSE_M
    return late or gap or (margins.ttc_s is not None and margins.ttc_s <= CLOSE_TTC_S)


def bracket_of(attempts: Sequence[ThreatAttempt], slot: ThreatSlot) -> TriggerBracket:
    """Results of the attempts at the slot; triggers by distance tell nothing about times."""
    same = [(a, a.spec.trigger.value.low) for a in attempts if a.spec and _is_at(a.spec, slot)]
    same = [(a, low) for a, low in same if a.spec and a.spec.trigger.kind == "time"]
    return TriggerBracket(
        too_late=tuple(low for a, low in same if a.verdict and a.verdict.acts and not a.verdict.survivable),
        too_early=tuple(low for a, low in same if a.survived),
        idle=sum(bool(a.verdict and a.verdict.runs and not a.verdict.acts) for a, _ in same),
    )


def _is_at(spec: ThreatSpec, slot: ThreatSlot) -> bool:
    place = (spec.behaviour, spec.place.side, spec.place.lane, spec.road)
    return place == (slot.behaviour, slot.side, slot.lane, slot.road)


def _prediction(request: ThreatRequest) -> str:
    """The target's predictions at all moments; "" for a driver without words."""
    interview = request.transcript.interview
    if interview.source == "observed":
        return ""
    return " ".join(answer.text for answer in interview.answers if answer.stage == "prediction")


def _oddness(slot: ThreatSlot, site: ThreatSite) -> float:
    """Points for implausible places: a missing arm, a motorway to cross, too little room to accelerate."""
    side = "ahead" if slot.side is AdversarySide.OPPOSITE else slot.side.value
    # If there are arms on both sides, the ego drives straight on and the far arm is its exit.
    arms = {*site.arms, *({"ahead"} if {"left", "right"} <= set(site.arms) else ())}
    missing = slot.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS) and side not in arms
    motorway = slot.behaviour is AdversaryBehaviour.CROSS and site.speed_limit > MOTORWAY
    near = slot.road is RoadKind.OPEN and max(high for _, high in slot.rooms) < 25.0
    return ODD * (missing + motorway + near)
