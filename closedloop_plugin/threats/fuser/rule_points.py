"""What speaks for a threat: a table of what endangers whom, and the gaps in three answers that it would find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from closedloop_plugin.threats.fuser.rule_words import Heard, Intent, Topic
from closedloop_plugin.threats.fuser.slots import Slot
from closedloop_plugin.threats.reading import short
from closedloop_plugin.threats.site import Site
from closedloop_plugin.threats.spec import Adversary, Behaviour, Occluder, RoadKind, Side, Weakness

UNSAID, DENIED, RELIED, COVER, SMALL = 1.0, 1.4, 1.2, 0.4, 0.3
ABOUT = 0.5  # points by which stages may differ that a threat probes alike
RARE = 0.7  # nobody mentions an ambulance where there is none: that is hardly a gap

WHO: Mapping[Adversary, Topic] = {
    **dict.fromkeys((Adversary.CAR, Adversary.VAN, Adversary.TRUCK, Adversary.BUS), Topic.VEHICLES),
    **dict.fromkeys((Adversary.MOTORCYCLE, Adversary.BICYCLE), Topic.TWO_WHEELERS),
    **dict.fromkeys((Adversary.PEDESTRIAN, Adversary.CHILD), Topic.WALKERS),
    **dict.fromkeys((Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK), Topic.SERVICES),
    **dict.fromkeys((Adversary.DEBRIS, Adversary.CONES, Adversary.BARRIER), Topic.THINGS),
    Adversary.ANIMAL: Topic.ANIMALS,
}
# Who foresees it speaks of this.
FORESEEN: Mapping[Behaviour, Topic] = {
    Behaviour.CUT_IN: Topic.CUT_IN,
    Behaviour.BRAKE_HARD: Topic.BRAKE,
    Behaviour.SLOW_AHEAD: Topic.SLOW,
    Behaviour.CROSS: Topic.CROSS,
    Behaviour.RUN_LIGHT: Topic.JUNCTION,
    Behaviour.TURN_ACROSS: Topic.TURN,
    Behaviour.ONCOMING: Topic.ONCOMING,
    Behaviour.OPEN_DOOR: Topic.DOOR,
    Behaviour.BLOCK: Topic.STANDING,
    Behaviour.TAILGATE: Topic.BEHIND,
    Behaviour.HIDDEN_STOP: Topic.HIDDEN,
    Behaviour.EMERGENCY_PASS: Topic.SERVICES,
}
# Which plans it makes dangerous.
RELIES: Mapping[Behaviour, tuple[Intent, ...]] = {
    Behaviour.CUT_IN: (Intent.KEEP, Intent.ACCELERATE),
    Behaviour.BRAKE_HARD: (Intent.KEEP, Intent.ACCELERATE),
    Behaviour.SLOW_AHEAD: (Intent.ACCELERATE, Intent.OVERTAKE),
    Behaviour.CROSS: (Intent.KEEP, Intent.ACCELERATE, Intent.RIGHT),
    Behaviour.RUN_LIGHT: (Intent.KEEP, Intent.ACCELERATE, Intent.LEFT, Intent.RIGHT),
    Behaviour.TURN_ACROSS: (Intent.KEEP, Intent.LEFT),
    Behaviour.ONCOMING: (Intent.OVERTAKE, Intent.KEEP),
    Behaviour.OPEN_DOOR: (Intent.KEEP, Intent.OVERTAKE),
    Behaviour.BLOCK: (Intent.KEEP, Intent.ACCELERATE),
    Behaviour.TAILGATE: (Intent.STOP, Intent.SLOW),
    Behaviour.HIDDEN_STOP: (Intent.KEEP, Intent.ACCELERATE),
    Behaviour.EMERGENCY_PASS: (Intent.STOP, Intent.SLOW, Intent.CHANGE),
}
HARD_TO_SEE = frozenset({Adversary.CHILD, Adversary.BICYCLE, Adversary.MOTORCYCLE, Adversary.ANIMAL, Adversary.DEBRIS})
SELDOM = frozenset({Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK, Adversary.BARRIER})


@dataclass(frozen=True)
class Hit:
    """One thing that a threat finds in an answer."""

    stage: Weakness
    points: float
    why: str


@dataclass(frozen=True)
class Candidate:
    slot: Slot
    adversary: Adversary
    occluder: Occluder
    hits: tuple[Hit, ...]

    @cached_property
    def points(self) -> float:
        return sum(hit.points for hit in self.hits)

    @property
    def weaknesses(self) -> list[Weakness]:
        """The stages that it probes: those with a gap and about the most points."""
        by_stage = {stage: sum(h.points for h in self.hits if h.stage is stage and h.why) for stage in Weakness}
        top = max(by_stage.values())
        return [stage for stage in Weakness if by_stage[stage] >= top - ABOUT]

    def why(self, weakness: Weakness) -> str:
        """The gap in that stage's answer, and the widest one in another's."""
        hits = sorted((h for h in self.hits if h.why), key=lambda h: -h.points)
        first = [h for h in hits if h.stage is weakness][:1]
        return short(" ".join(h.why for h in [*first, *[h for h in hits if h.stage is not weakness][:1]]), 600)


def candidates(slot: Slot, answers: Mapping[Weakness, Heard], site: Site) -> Iterator[Candidate]:
    """Every adversary and cover of a slot, with its points."""
    common = [*_prediction_hits(slot, answers), *_planning_hits(slot, answers), *_place_hits(slot, site)]
    covers = [(occluder, tuple(_cover_hits(occluder, answers))) for occluder in slot.occluders]
    for adversary in slot.adversaries:
        whom = tuple(_perception_hits(adversary, answers))
        for occluder, cover in covers:
            yield Candidate(slot, adversary, occluder, (*common, *whom, *cover))


def _perception_hits(adversary: Adversary, answers: Mapping[Weakness, Heard]) -> Iterator[Hit]:
    answer, topic = answers.get(Weakness.PERCEPTION), WHO[adversary]
    if answer is None or topic in answer.said:
        return
    yield _gap(
        Weakness.PERCEPTION, answer, topic, SMALL if adversary in HARD_TO_SEE else -RARE if adversary in SELDOM else 0.0
    )


def _cover_hits(occluder: Occluder, answers: Mapping[Weakness, Heard]) -> Iterator[Hit]:
    answer = answers.get(Weakness.PERCEPTION)
    if occluder is Occluder.NONE or answer is None:
        return
    topic = Topic.PARKED if occluder is Occluder.PARKED_CARS else Topic.HIDDEN
    if topic not in answer.said:
        yield Hit(Weakness.PERCEPTION, COVER, _gap(Weakness.PERCEPTION, answer, topic, 0.0).why)


def _prediction_hits(slot: Slot, answers: Mapping[Weakness, Heard]) -> Iterator[Hit]:
    answer, topic = answers.get(Weakness.PREDICTION), FORESEEN[slot.behaviour]
    if answer is not None and topic not in answer.said:
        yield _gap(Weakness.PREDICTION, answer, topic, 0.0)


def _planning_hits(slot: Slot, answers: Mapping[Weakness, Heard]) -> Iterator[Hit]:
    answer = answers.get(Weakness.PLANNING)
    meant = next((i for i in RELIES[slot.behaviour] if answer and i in answer.meant), None)
    if answer is not None and meant is not None:
        why = f'planning says "{answer.quote(meant)}": it means to {meant.value}.'
        yield Hit(Weakness.PLANNING, RELIED, why)


def _place_hits(slot: Slot, site: Site) -> Iterator[Hit]:
    """No weakness, only sense: a cross road that is there, room for the ego to get going."""
    side = "ahead" if slot.side is Side.OPPOSITE else slot.side.value
    # Where arms lead to both sides the ego goes straight on, and the far arm is its own exit.
    there = {*site.arms, *({"ahead"} if {"left", "right"} <= set(site.arms) else ())}
    if slot.behaviour in (Behaviour.RUN_LIGHT, Behaviour.TURN_ACROSS) and side not in there:
        yield Hit(Weakness.PLANNING, -1.5, "")
    if slot.road is RoadKind.OPEN and max(high for _, high in slot.rooms) < 25.0:
        yield Hit(Weakness.PLANNING, -1.0, "")


def _gap(stage: Weakness, answer: Heard, topic: Topic, more: float) -> Hit:
    if topic in answer.denied:
        return Hit(stage, DENIED + more, f'{stage.value} says "{answer.quote(topic)}".')
    if not answer.text:
        return Hit(stage, UNSAID + more, f"{stage.value} says nothing at all.")
    return Hit(stage, UNSAID + more, f'{stage.value} says "{answer.quote()}", and nothing of {topic.value}.')
