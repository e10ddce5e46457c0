"""The vocabulary of the questions in both languages: few short words, so that a small model can learn them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from closedloop_plugin.core.state import PEDESTRIANS, VEHICLES, ActorKind, RouteCommand
from lmms_eval_ad2.core.records import BilingualText

EXACT_PIXELS = 48  # of an actor, to recognise its kind within its group; about 7 x 7
BIKES = frozenset({ActorKind.MOTORCYCLE, ActorKind.BICYCLE})
CARS = VEHICLES - BIKES


@dataclass(frozen=True)
class ThingWord:
    """A word for actors. `counter`: the Chinese measure word. pixels: needed to tell its kinds from `rivals`.

    rivals: other kinds of its group. confused_with: kinds of other groups that may be called so, too (a bicycle may be
    a vehicle, its rider a person).
    """

    en: str
    plural: str
    zh: str
    counter: str
    kinds: frozenset[ActorKind]
    rivals: frozenset[ActorKind] = frozenset()
    confused_with: frozenset[ActorKind] = frozenset()
    pixels: int = 0

    @property
    def a(self) -> str:
        """With its indefinite article."""
        return f"{'an' if self.en[0] in 'aeiou' else 'a'} {self.en}"

    @property
    def forms(self) -> dict[str, str]:
        """All that the texts of questions may contain."""
        return {"en": self.en, "a": self.a, "plural": self.plural, "zh": self.zh, "counter": self.counter}

    @property
    def sentence(self) -> BilingualText:
        """The word alone as an answer."""
        return text(f"{self.a[0].upper()}{self.a[1:]}.", f"{self.zh}。")


OBSTACLES = frozenset({ActorKind.CONE, ActorKind.BARRIER, ActorKind.WARNING_SIGN, ActorKind.DEBRIS, ActorKind.BLOCKER})
VEHICLE = ThingWord("vehicle", "vehicles", "车", "辆", CARS, confused_with=BIKES)
BIKE = ThingWord("bike", "bikes", "两轮车", "辆", BIKES)
PERSON = ThingWord("person", "people", "行人", "个", PEDESTRIANS, confused_with=BIKES)
ANIMAL = ThingWord("animal", "animals", "动物", "只", frozenset({ActorKind.ANIMAL}))
OBSTACLE = ThingWord("obstacle", "obstacles", "障碍物", "个", OBSTACLES)
GROUPS = (VEHICLE, BIKE, PERSON, ANIMAL, OBSTACLE)


def _exact(en: str, plural: str, zh: str, counter: str, kinds: set[ActorKind], group: ThingWord) -> ThingWord:
    own = frozenset(kinds)
    return ThingWord(en, plural, zh, counter, own, rivals=group.kinds - own, pixels=EXACT_PIXELS)


EXACT = (
    _exact("car", "cars", "轿车", "辆", {ActorKind.CAR, ActorKind.POLICE}, VEHICLE),
    _exact("van", "vans", "面包车", "辆", {ActorKind.VAN, ActorKind.AMBULANCE}, VEHICLE),
    _exact("truck", "trucks", "卡车", "辆", {ActorKind.TRUCK, ActorKind.FIRETRUCK}, VEHICLE),
    _exact("bus", "buses", "公交车", "辆", {ActorKind.BUS}, VEHICLE),
    _exact("motorcycle", "motorcycles", "摩托车", "辆", {ActorKind.MOTORCYCLE}, BIKE),
    _exact("bicycle", "bicycles", "自行车", "辆", {ActorKind.BICYCLE}, BIKE),
    _exact("cone", "cones", "锥桶", "个", {ActorKind.CONE}, OBSTACLE),
    _exact("barrier", "barriers", "护栏", "个", {ActorKind.BARRIER}, OBSTACLE),
    _exact("warning sign", "warning signs", "警示牌", "个", {ActorKind.WARNING_SIGN}, OBSTACLE),
)
THINGS = (*GROUPS, *EXACT)


def group_of(kind: ActorKind) -> ThingWord:
    return next(word for word in GROUPS if kind in word.kinds)


# The most exact word of each kind; the group's for kinds without one of their own.
THING_OF: Mapping[ActorKind, ThingWord] = {
    kind: next((word for word in EXACT if kind in word.kinds), group_of(kind)) for kind in ActorKind
}
COMMANDS: Mapping[RouteCommand, str] = {
    RouteCommand.FOLLOW: "沿车道行驶", RouteCommand.LEFT: "左转", RouteCommand.RIGHT: "右转",
    RouteCommand.STRAIGHT: "直行", RouteCommand.CHANGE_LEFT: "向左变道", RouteCommand.CHANGE_RIGHT: "向右变道",
}  # fmt: skip


def text(en: str, zh: str) -> BilingualText:
    return BilingualText(en=en, zh=zh)
