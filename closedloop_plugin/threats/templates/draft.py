"""ProgramDraft: input of a template, and the parameters and lines that it adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import ParameterRange, RoadKind, ThreatSpec


@dataclass
class ProgramDraft:
    """Parameters and lines of a program. Words come from the spec's enums, numbers from `free`."""

    spec: ThreatSpec
    site: ThreatSite
    params: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def free(self, name: str, values: ParameterRange, unit: str, what: str) -> str:
        """Declare `param name = Range(low, high)`; return the expression that reads it."""
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
        ahead = self.free("ahead", self.spec.place.ahead_m, "m", f"from {self.origin[1]} to where it happens")
        return f"{self.origin[0]} + {ahead}"

    @property
    def origin(self) -> tuple[str, str]:
        """Origin of `ahead_m`: (expression, name)."""
        if self.spec.road is RoadKind.JUNCTION:
            return "behind_junction()", "the junction's exit"
        return "stage.trigger_s", "the route's trigger point"

    def due(self) -> Sequence[str]:
        """Declare `due`; return the two arguments of a behaviour's trigger (see is_due in actions.scenic)."""
        trigger = self.spec.trigger
        unit = "s" if trigger.kind == "time" else "m"
        what = "from the ego to that place when it acts"
        return self.free("due", trigger.value, unit, what), f'"{trigger.kind}"'
