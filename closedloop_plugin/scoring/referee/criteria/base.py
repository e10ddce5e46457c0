"""Finding: one infraction as the referee's rules report it. A rule is an object with tick(truth, progress)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from closedloop_plugin.core.frames import to_carla
from closedloop_plugin.core.state import Actor, GroundTruth
from closedloop_plugin.scoring.referee.progress import RouteProgress


@dataclass(frozen=True)
class InfractionEvent:
    """`kind`: a name of record.INFRACTIONS. (x, y): where to draw it, map frame. `text`: the official message."""

    kind: str
    time_s: float
    x: float
    y: float
    text: str

    def place(self) -> dict[str, Any]:
        """For EpisodeRecord.places."""
        return {**asdict(self), "time_s": round(self.time_s, 3), "x": round(self.x, 2), "y": round(self.y, 2)}


class RefereeCriterion(Protocol):
    """Looks at every tick once, in order; returns what it found in this one."""

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> Sequence[InfractionEvent]: ...


def at(ego: Actor) -> str:
    """The ego's place as the official messages give it: CARLA's axes, metres. Our worlds are flat: z is 0."""
    x, y, _ = to_carla(ego.x, ego.y)
    return f"(x={round(x, 3) + 0.0}, y={round(y, 3) + 0.0}, z=0.0)"  # + 0.0: no "-0.0"
