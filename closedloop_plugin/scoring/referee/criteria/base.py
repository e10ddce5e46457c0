"""Interface of the referee's criteria: an object with tick(truth, progress) that returns InfractionEvents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from closedloop_plugin.core.frames import to_carla
from closedloop_plugin.core.state import Actor, GroundTruth
from closedloop_plugin.scoring.referee.progress import RouteProgress


@dataclass(frozen=True)
class InfractionEvent:
    """An infraction. `kind`: a name of record.INFRACTIONS; (x, y): map frame, m; `text`: the official message;
    `actor`: id of the other body, "" if there is none."""

    kind: str
    time_s: float
    x: float
    y: float
    text: str
    actor: str = ""

    def place(self) -> dict[str, Any]:
        """The entry of EpisodeRecord.places."""
        found = {**asdict(self), "time_s": round(self.time_s, 3), "x": round(self.x, 2), "y": round(self.y, 2)}
        return found if self.actor else {key: value for key, value in found.items() if key != "actor"}


class RefereeCriterion(Protocol):
    """Processes every tick once, in order; returns the infractions of that tick."""

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> Sequence[InfractionEvent]: ...


def at(ego: Actor) -> str:
    """The ego's position in the format of the official messages: CARLA's axes, m; z is 0 in our flat worlds."""
    x, y, _ = to_carla(ego.x, ego.y)
    return f"(x={round(x, 3) + 0.0}, y={round(y, 3) + 0.0}, z=0.0)"  # + 0.0: no "-0.0"
