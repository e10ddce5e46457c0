"""What speaks for a threat: a table of what endangers whom, and the gaps in three answers that it would find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from closedloop_plugin.threats.fuser.ruleset.keywords import AnswerKeywords, AnswerTopic, DrivingIntent
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

UNSAID, DENIED, RELIED, COVER, SMALL = 1.0, 1.4, 1.2, 0.4, 0.3
ABOUT = 0.5  # points by which stages may differ that a threat probes alike
RARE = 0.7  # nobody mentions an ambulance where there is none: that is hardly a gap

WHO: Mapping[Adversary, AnswerTopic] = {
    **dict.fromkeys((Adversary.CAR, Adversary.VAN, Adversary.TRUCK, Adversary.BUS), AnswerTopic.VEHICLES),
    **dict.fromkeys((Adversary.MOTORCYCLE, Adversary.BICYCLE), AnswerTopic.TWO_WHEELERS),
    **dict.fromkeys((Adversary.PEDESTRIAN, Adversary.CHILD), AnswerTopic.WALKERS),
    **dict.fromkeys((Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK), AnswerTopic.SERVICES),
    **dict.fromkeys((Adversary.DEBRIS, Adversary.CONES, Adversary.BARRIER), AnswerTopic.THINGS),
    Adversary.ANIMAL: AnswerTopic.ANIMALS,
}
# Who foresees it speaks of this.
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
# Which plans it makes dangerous.
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
HARD_TO_SEE = frozenset({Adversary.CHILD, Adversary.BICYCLE, Adversary.MOTORCYCLE, Adversary.ANIMAL, Adversary.DEBRIS})
SELDOM = frozenset({Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK, Adversary.BARRIER})


@dataclass(frozen=True)
class CandidateReason:
    """One thing that a threat finds in an answer."""

    stage: TargetWeakness
    points: float
    why: str


@dataclass(frozen=True)
class ThreatCandidate:
    slot: ThreatSlot
    adversary: Adversary
    occluder: Occluder
    hits: tuple[CandidateReason, ...]

    @cached_property
    def points(self) -> float:
        return sum(hit.points for hit in self.hits)

    @property
    def weaknesses(self) -> list[TargetWeakness]:
        """The stages that it probes: those with a gap and about the most points."""
        by_stage = {stage: sum(h.points for h in self.hits if h.stage is stage and h.why) for stage in TargetWeakness}
        top = max(by_stage.values())
        return [stage for stage in TargetWeakness if by_stage[stage] >= top - ABOUT]

    def why(self, weakness: TargetWeakness) -> str:
        """The gap in that stage's answer, and the widest one in another's."""
        hits = sorted((h for h in self.hits if h.why), key=lambda h: -h.points)
        first = [h for h in hits if h.stage is weakness][:1]
        return short(" ".join(h.why for h in [*first, *[h for h in hits if h.stage is not weakness][:1]]), 600)


def candidates(
    slot: ThreatSlot, answers: Mapping[TargetWeakness, AnswerKeywords], site: ThreatSite
) -> Iterator[ThreatCandidate]:
    """Every adversary and cover of a slot, with its points."""
    common = [*_prediction_hits(slot, answers), *_planning_hits(slot, answers), *_place_hits(slot, site)]
    covers = [(occluder, tuple(_cover_hits(occluder, answers))) for occluder in slot.occluders]
    for adversary in slot.adversaries:
        whom = tuple(_perception_hits(adversary, answers))
        for occluder, cover in covers:
            yield ThreatCandidate(slot, adversary, occluder, (*common, *whom, *cover))


def _perception_hits(
    adversary: Adversary, answers: Mapping[TargetWeakness, AnswerKeywords]
) -> Iterator[CandidateReason]:
    answer, topic = answers.get(TargetWeakness.PERCEPTION), WHO[adversary]
    if answer is None or topic in answer.said:
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
    if topic not in answer.said:
        yield CandidateReason(TargetWeakness.PERCEPTION, COVER, _gap(TargetWeakness.PERCEPTION, answer, topic, 0.0).why)


def _prediction_hits(slot: ThreatSlot, answers: Mapping[TargetWeakness, AnswerKeywords]) -> Iterator[CandidateReason]:
    answer, topic = answers.get(TargetWeakness.PREDICTION), FORESEEN[slot.behaviour]
    if answer is not None and topic not in answer.said:
        yield _gap(TargetWeakness.PREDICTION, answer, topic, 0.0)


def _planning_hits(slot: ThreatSlot, answers: Mapping[TargetWeakness, AnswerKeywords]) -> Iterator[CandidateReason]:
    answer = answers.get(TargetWeakness.PLANNING)
    meant = next((i for i in RELIES[slot.behaviour] if answer and i in answer.meant), None)
    if answer is not None and meant is not None:
        why = f'planning says "{answer.quote(meant)}": it means to {meant.value}.'
        yield CandidateReason(TargetWeakness.PLANNING, RELIED, why)


def _place_hits(slot: ThreatSlot, site: ThreatSite) -> Iterator[CandidateReason]:
    """No weakness, only sense: a cross road that is there, room for the ego to get going."""
    side = "ahead" if slot.side is AdversarySide.OPPOSITE else slot.side.value
    # Where arms lead to both sides the ego goes straight on, and the far arm is its own exit.
    there = {*site.arms, *({"ahead"} if {"left", "right"} <= set(site.arms) else ())}
    if slot.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS) and side not in there:
        yield CandidateReason(TargetWeakness.PLANNING, -1.5, "")
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
