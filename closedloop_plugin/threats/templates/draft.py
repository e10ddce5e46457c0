"""ProgramDraft: input of a template, and the parameters and lines that it adds; lines of objects that hide an adversary
at the edge of the road until late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from closedloop_plugin.scenarios.looks import body_size, cover_size
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    Adversary,
    AdversaryBehaviour,
    Occluder,
    ParameterRange,
    RoadKind,
    ThreatActor,
    ThreatSpec,
)


@dataclass
class ProgramDraft:
    """Parameters and lines of one actor of a program. Words come from the spec's enums, numbers from `free`.

    `number`: of the actor within the spec, from 1; the names of further actors' parameters and variables end in it.
    """

    spec: ThreatSpec
    site: ThreatSite
    number: int = 1
    params: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def actor(self) -> ThreatActor:
        """The actor that the lines are for."""
        return self.spec.actors[self.number - 1]

    @property
    def alone(self) -> bool:
        return not self.spec.further

    def has(self, behaviour: AdversaryBehaviour) -> bool:
        """Whether one of the spec's actors has this behaviour."""
        return any(actor.behaviour is behaviour for actor in self.spec.actors)

    def name(self, word: str) -> str:
        """The word as a name that no other actor's lines use."""
        return word if self.number == 1 else f"{word}_{self.number}"

    @property
    def acts_as(self) -> str:
        """Specifier of the event that the actor records besides "act"; none if the program has only one actor."""
        return "" if self.alone else f', with acts_as "act {self.number}"'

    def free(self, name: str, values: ParameterRange, unit: str, what: str) -> str:
        """Declare `param name = Range(low, high)`; return the expression that reads it."""
        name = self.name(name)
        if not name.isidentifier():
            raise ValueError(name)
        low, high = round(values.low, 3), round(values.high, 3)
        value = f"Range({low:g}, {high:g})" if high > low else f"{low:g}"
        self.params.append(f"param {name} = {value}".ljust(42) + f" # {unit}: {what}")
        return f"globalParameters.{name}"

    def add(self, *lines: str) -> None:
        self.lines.extend(lines)

    def where(self) -> str:
        """Declare `ahead`; return the expression of the meeting place, in metres along the ego's route."""
        ahead = self.free("ahead", self.actor.place.ahead_m, "m", f"from {self.origin[1]} to where it happens")
        return f"{self.origin[0]} + {ahead}"

    @property
    def origin(self) -> tuple[str, str]:
        """Origin of `ahead_m`: (expression, name)."""
        if self.actor.road is RoadKind.JUNCTION:
            return "behind_junction()", "the junction's exit"
        return "stage.trigger_s", "the route's trigger point"

    def due(self) -> Sequence[str]:
        """Declare `due`; return the two arguments of a behaviour's trigger (see is_due in actions.scenic)."""
        trigger = self.actor.trigger
        unit = "s" if trigger.kind == "time" else "m"
        what = "from the ego to that place when it acts"
        return self.free("due", trigger.value, unit, what), f'"{trigger.kind}"'


SERVICES = frozenset({Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK})
PROPS = {Occluder.CONTAINER: "static.prop.container", Occluder.ADVERTISEMENT: "static.prop.advertisement"}
ROW = ((-17.5, "car"), (-10.5, "car"), (-3.4, "van"), (4.2, "car"))  # parked cars: metres from the adversary, kind
FREE_M = 1.0  # between the end of an occluder and the adversary in front of it


def given(values: Any) -> ParameterRange:
    """A number that the behaviour requires; spec.clashes rejects specs without it."""
    assert isinstance(values, ParameterRange)
    return values


def breadth(cover: Occluder) -> float:
    """Width of an occluder in metres; 0 for none."""
    if cover is Occluder.NONE:
        return 0.0
    return body_size("van" if cover is Occluder.PARKED_CARS else cover.value)[1]


def at_edge(draft: ProgramDraft, side: str) -> None:
    """Add the spec's occluder at that edge of the road, so that it hides an adversary at `where`."""
    cover = draft.actor.occluder
    if cover is Occluder.NONE:
        return
    if cover is not Occluder.PARKED_CARS:
        _one(draft, f'parked("{side}", "{cover.value}")')
        return
    row = [(gap, kind) for gap, kind in ROW if gap == -3.4 or not in_junction(draft, gap, body_size(kind)[0])]
    items = ", ".join(f'({gap:g}, "{kind}")' for gap, kind in row)
    at = f"{draft.name('where')} + gap"
    draft.add(
        "",
        f"for gap, kind in ({items}{',' * (len(row) == 1)}):",
        f'    new Wheeled at place({at}, parked("{side}", kind)), facing turned({at}, 0), with kind kind',
    )


def beside(draft: ProgramDraft) -> None:
    """Add the spec's occluder to the right of the ego's lane."""
    if draft.actor.occluder is not Occluder.NONE:
        _one(draft, f'alongside("{draft.actor.occluder.value}")')


def _one(draft: ProgramDraft, d: str) -> None:
    cover = draft.actor.occluder
    long, wide = body_size(cover.value)
    at = draft.name("cover")
    draft.add("", f"{at} = {draft.name('where')} - {FREE_M + long / 2:g}")
    if cover not in PROPS:
        draft.add(f'new Wheeled at place({at}, {d}), facing turned({at}, 0), with kind "{cover.value}"')
        return
    high = cover_size(cover.value)[2]
    draft.add(
        f"new Thing at place({at}, {d}), facing turned({at}, 0), with fixed True, \\",
        f'    with blueprint "{PROPS[cover]}", with length {long:g}, with width {wide:g}, with height {high:g}',
    )


def in_junction(draft: ProgramDraft, gap: float, long: float) -> bool:
    """Whether a body of length `long`, `gap` metres from the meeting place, could be within 1 m of the junction."""
    site, ahead = draft.site, given(draft.actor.place.ahead_m)
    if site.crossing is None:
        return False
    start, end = site.crossing
    origin = end if draft.actor.road is RoadKind.JUNCTION else site.trigger_s
    return origin + ahead.high + gap + long / 2 > start - 1.0 and origin + ahead.low + gap - long / 2 < end + 1.0
