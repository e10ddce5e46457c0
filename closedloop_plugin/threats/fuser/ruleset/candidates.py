"""Candidate threats with points for what the target did, and for the gaps in its answers, that they would exploit.

The texts of `why` are stored in the spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from closedloop_plugin.threats.fuser.ruleset.driven import CandidateReason, DrivenEvidence, slot_hits
from closedloop_plugin.threats.fuser.ruleset.keywords import AnswerKeywords, AnswerTopic, DrivingIntent
from closedloop_plugin.threats.fuser.ruleset.numbers import FAST
from closedloop_plugin.threats.fuser.slots import ThreatSlot
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    Adversary,
    AdversaryBehaviour,
    AdversarySide,
    Occluder,
    RoadKind,
    TargetWeakness,
)
from closedloop_plugin.threats.spec_parsing import short

# Points: topic not mentioned, topic denied, plan relies on it, cover not mentioned, adversary hard to see.
UNSAID, DENIED, RELIED, COVER, SMALL = 1.0, 1.4, 1.2, 0.4, 0.3
ABOUT = 0.5  # difference of points within which stages count as probed equally
AFTER_DRIVE = 0.3  # share of the points of what an answer leaves out, if the drive is known
RARE = 0.7  # deduction for rare adversaries: not mentioning an absent ambulance is hardly a gap

WHO: Mapping[Adversary, AnswerTopic] = {
    **dict.fromkeys((Adversary.CAR, Adversary.VAN, Adversary.TRUCK, Adversary.BUS), AnswerTopic.VEHICLES),
    **dict.fromkeys((Adversary.MOTORCYCLE, Adversary.BICYCLE), AnswerTopic.TWO_WHEELERS),
    **dict.fromkeys((Adversary.PEDESTRIAN, Adversary.CHILD), AnswerTopic.WALKERS),
    **dict.fromkeys((Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK), AnswerTopic.SERVICES),
    **dict.fromkeys((Adversary.DEBRIS, Adversary.CONES, Adversary.BARRIER), AnswerTopic.THINGS),
    Adversary.ANIMAL: AnswerTopic.ANIMALS,
}
# Topic that a prediction of the behaviour mentions.
FORESEEN: Mapping[AdversaryBehaviour, AnswerTopic] = {
    AdversaryBehaviour.CUT_IN: AnswerTopic.CUT_IN,
    AdversaryBehaviour.BRAKE_HARD: AnswerTopic.BRAKE,
    AdversaryBehaviour.SLOW_AHEAD: AnswerTopic.SLOW,
    AdversaryBehaviour.CROSS: AnswerTopic.CROSS,
    AdversaryBehaviour.RUN_LIGHT: AnswerTopic.JUNCTION,
    AdversaryBehaviour.TURN_ACROSS: AnswerTopic.TURN,
    AdversaryBehaviour.ONCOMING: AnswerTopic.ONCOMING,
    AdversaryBehaviour.OPEN_DOOR: AnswerTopic.DOOR,
    AdversaryBehaviour.BLOCK: AnswerTopic.STANDING,
    AdversaryBehaviour.TAILGATE: AnswerTopic.BEHIND,
    AdversaryBehaviour.HIDDEN_STOP: AnswerTopic.HIDDEN,
    AdversaryBehaviour.EMERGENCY_PASS: AnswerTopic.SERVICES,
}
# Intentions that the behaviour makes dangerous.
RELIES: Mapping[AdversaryBehaviour, tuple[DrivingIntent, ...]] = {
    AdversaryBehaviour.CUT_IN: (DrivingIntent.KEEP, DrivingIntent.ACCELERATE),
    AdversaryBehaviour.BRAKE_HARD: (DrivingIntent.KEEP, DrivingIntent.ACCELERATE),
    AdversaryBehaviour.SLOW_AHEAD: (DrivingIntent.ACCELERATE, DrivingIntent.OVERTAKE),
    AdversaryBehaviour.CROSS: (DrivingIntent.KEEP, DrivingIntent.ACCELERATE, DrivingIntent.RIGHT),
    AdversaryBehaviour.RUN_LIGHT: (
        DrivingIntent.KEEP,
        DrivingIntent.ACCELERATE,
        DrivingIntent.LEFT,
        DrivingIntent.RIGHT,
    ),
    AdversaryBehaviour.TURN_ACROSS: (DrivingIntent.KEEP, DrivingIntent.LEFT),
    AdversaryBehaviour.ONCOMING: (DrivingIntent.OVERTAKE, DrivingIntent.KEEP),
    AdversaryBehaviour.OPEN_DOOR: (DrivingIntent.KEEP, DrivingIntent.OVERTAKE),
    AdversaryBehaviour.BLOCK: (DrivingIntent.KEEP, DrivingIntent.ACCELERATE),
    AdversaryBehaviour.TAILGATE: (DrivingIntent.STOP, DrivingIntent.SLOW),
    AdversaryBehaviour.HIDDEN_STOP: (DrivingIntent.KEEP, DrivingIntent.ACCELERATE),
    AdversaryBehaviour.EMERGENCY_PASS: (DrivingIntent.STOP, DrivingIntent.SLOW, DrivingIntent.CHANGE),
}
# Points of a behaviour if the drive is known: how often the expert survives it and an imperfect driver does not. By two
# drivers in the embedded simulator: the expert with decisions 0.35 s late, and `late` on every fourth route of
# embedded220; docs/threats.md reports other routes.
LETHAL: Mapping[AdversaryBehaviour, float] = {
    AdversaryBehaviour.CUT_IN: 1.7,
    AdversaryBehaviour.CROSS: 1.6,
    AdversaryBehaviour.BLOCK: 1.0,
    AdversaryBehaviour.EMERGENCY_PASS: 0.9,
    AdversaryBehaviour.RUN_LIGHT: 0.8,
    AdversaryBehaviour.ONCOMING: 0.8,
    AdversaryBehaviour.OPEN_DOOR: 0.6,
    AdversaryBehaviour.HIDDEN_STOP: 0.2,
    AdversaryBehaviour.BRAKE_HARD: 0.2,
    AdversaryBehaviour.TURN_ACROSS: 0.0,
    AdversaryBehaviour.SLOW_AHEAD: -0.6,
    AdversaryBehaviour.TAILGATE: -0.8,
}
HARD_TO_SEE = frozenset({Adversary.CHILD, Adversary.BICYCLE, Adversary.MOTORCYCLE, Adversary.ANIMAL, Adversary.DEBRIS})
SELDOM = frozenset({Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK, Adversary.BARRIER})


@dataclass(frozen=True)
class ThreatCandidate:
    """A threat that the route has room for, with the gaps that it exploits."""

    slot: ThreatSlot
    adversary: Adversary
    occluder: Occluder
    hits: tuple[CandidateReason, ...]

    @cached_property
    def points(self) -> float:
        return sum(hit.points for hit in self.hits)

    @property
    def weaknesses(self) -> list[TargetWeakness]:
        """Stages that it probes: those with at most ABOUT points less than the best."""
        by_stage = {stage: sum(h.points for h in self.hits if h.stage is stage and h.why) for stage in TargetWeakness}
        top = max(by_stage.values())
        return [stage for stage in TargetWeakness if by_stage[stage] >= top - ABOUT]

    def why(self, weakness: TargetWeakness) -> str:
        """The largest gap in that stage's answer, and the largest in another's."""
        hits = sorted((h for h in self.hits if h.why), key=lambda h: -h.points)
        first = [h for h in hits if h.stage is weakness][:1]
        return short(" ".join(h.why for h in [*first, *[h for h in hits if h.stage is not weakness][:1]]), 600)


def candidates(
    slot: ThreatSlot,
    answers: Mapping[TargetWeakness, AnswerKeywords],
    site: ThreatSite,
    evidence: DrivenEvidence | None = None,
) -> Iterator[ThreatCandidate]:
    """Every adversary and cover of a slot, with points.

    With `evidence`, what the target did counts; of its answers, words that it left out count AFTER_DRIVE of their
    points.
    """
    common = [*_prediction_hits(slot, answers), *_planning_hits(slot, answers), *_place_hits(slot, site)]
    covers = [(occluder, tuple(_cover_hits(occluder, answers))) for occluder in slot.occluders]
    lethal = CandidateReason(TargetWeakness.PLANNING, LETHAL[slot.behaviour], "")
    driven = (*slot_hits(slot, site, evidence), lethal) if evidence is not None else ()
    for adversary in slot.adversaries:
        perception = tuple(_perception_hits(adversary, answers))
        for occluder, cover in covers:
            said = (*common, *perception, *cover)
            if evidence is None:
                yield ThreatCandidate(slot, adversary, occluder, said)
                continue
            yield ThreatCandidate(slot, adversary, occluder, (*driven, *map(_after_drive, said)))


def _after_drive(hit: CandidateReason) -> CandidateReason:
    """The hit of an answer of a target whose drive is known."""
    return replace(hit, points=hit.points * AFTER_DRIVE) if 0 < hit.points < DENIED else hit


def _perception_hits(
    adversary: Adversary, answers: Mapping[TargetWeakness, AnswerKeywords]
) -> Iterator[CandidateReason]:
    answer, topic = answers.get(TargetWeakness.PERCEPTION), WHO[adversary]
    if answer is None or topic in answer.mentioned:
        return
    yield _gap(
        TargetWeakness.PERCEPTION,
        answer,
        topic,
        SMALL if adversary in HARD_TO_SEE else -RARE if adversary in SELDOM else 0.0,
    )


def _cover_hits(occluder: Occluder, answers: Mapping[TargetWeakness, AnswerKeywords]) -> Iterator[CandidateReason]:
    answer = answers.get(TargetWeakness.PERCEPTION)
    if occluder is Occluder.NONE or answer is None:
        return
    topic = AnswerTopic.PARKED if occluder is Occluder.PARKED_CARS else AnswerTopic.HIDDEN
    if topic not in answer.mentioned:
        yield CandidateReason(TargetWeakness.PERCEPTION, COVER, _gap(TargetWeakness.PERCEPTION, answer, topic, 0.0).why)


def _prediction_hits(slot: ThreatSlot, answers: Mapping[TargetWeakness, AnswerKeywords]) -> Iterator[CandidateReason]:
    answer, topic = answers.get(TargetWeakness.PREDICTION), FORESEEN[slot.behaviour]
    if answer is not None and topic not in answer.mentioned:
        yield _gap(TargetWeakness.PREDICTION, answer, topic, 0.0)


def _planning_hits(slot: ThreatSlot, answers: Mapping[TargetWeakness, AnswerKeywords]) -> Iterator[CandidateReason]:
    answer = answers.get(TargetWeakness.PLANNING)
    intent = next((i for i in RELIES[slot.behaviour] if answer and i in answer.intended), None)
    if answer is not None and intent is not None:
        why = f'planning says "{answer.quote(intent)}": it means to {intent.value}.'
        yield CandidateReason(TargetWeakness.PLANNING, RELIED, why)


def _place_hits(slot: ThreatSlot, site: ThreatSite) -> Iterator[CandidateReason]:
    """Deductions for implausible places: a missing arm, a motorway to cross, too little room to accelerate."""
    side = "ahead" if slot.side is AdversarySide.OPPOSITE else slot.side.value
    # If there are arms on both sides, the ego drives straight on and the far arm is its exit.
    arms = {*site.arms, *({"ahead"} if {"left", "right"} <= set(site.arms) else ())}
    if slot.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS) and side not in arms:
        yield CandidateReason(TargetWeakness.PLANNING, -1.5, "")
    if slot.behaviour is AdversaryBehaviour.CROSS and site.speed_limit > FAST:
        yield CandidateReason(TargetWeakness.PLANNING, -1.5, "")  # nobody crosses a motorway in front of traffic
    if slot.road is RoadKind.OPEN and max(high for _, high in slot.rooms) < 25.0:
        yield CandidateReason(TargetWeakness.PLANNING, -1.0, "")


def _gap(stage: TargetWeakness, answer: AnswerKeywords, topic: AnswerTopic, more: float) -> CandidateReason:
    if topic in answer.denied:
        return CandidateReason(stage, DENIED + more, f'{stage.value} says "{answer.quote(topic)}".')
    if not answer.text:
        return CandidateReason(stage, UNSAID + more, f"{stage.value} says nothing at all.")
    return CandidateReason(
        stage, UNSAID + more, f'{stage.value} says "{answer.quote()}", and nothing of {topic.value}.'
    )
