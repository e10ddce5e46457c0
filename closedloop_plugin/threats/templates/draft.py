"""A program in the making: what a template gets, and all that it may write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import ParameterRange, RoadKind, ThreatSpec


@dataclass
class ProgramDraft:
    """Free parameters and lines, gathered by a template. Words come from the spec's enums, numbers through `free`."""

    spec: ThreatSpec
    site: ThreatSite
    params: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def free(self, name: str, values: ParameterRange, unit: str, what: str) -> str:
        """Declare `param name = Range(low, high)`; the expression that reads it."""
        if not name.isidentifier():
            raise ValueError(name)
        low, high = round(values.low, 3), round(values.high, 3)
        value = f"Range({low:g}, {high:g})" if high > low else f"{low:g}"
        self.params.append(f"param {name} = {value}".ljust(42) + f" # {unit}: {what}")
        return f"globalParameters.{name}"

    def add(self, *lines: str) -> None:
        self.lines.extend(lines)

    def where(self) -> str:
        """Declares `ahead`; the expression of the meeting place, metres along the ego's way."""
        ahead = self.free("ahead", self.spec.place.ahead_m, "m", f"from {self.origin[1]} to where it happens")
        return f"{self.origin[0]} + {ahead}"

    @property
    def origin(self) -> tuple[str, str]:
        """What `ahead_m` counts from: an expression, and its name."""
        if self.spec.road is RoadKind.JUNCTION:
            return "behind_junction()", "the junction's exit"
        return "stage.trigger_s", "the route's trigger point"

    def due(self) -> Sequence[str]:
        """Declares `due`; the arguments of a behaviour that say when to act (see actions.scenic, is_due)."""
        trigger = self.spec.trigger
        unit = "s" if trigger.kind == "time" else "m"
        what = "from the ego to that place when it acts"
        return self.free("due", trigger.value, unit, what), f'"{trigger.kind}"'
