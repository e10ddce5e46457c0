"""ProgramDraft: input of a template, and the parameters and lines that it adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import AdversaryBehaviour, ParameterRange, RoadKind, ThreatActor, ThreatSpec


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
