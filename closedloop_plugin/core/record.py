"""EpisodeRecord: one line of episodes.jsonl, with everything that scoring needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from closedloop_plugin.core.state import FAULT_OF, EpisodeFault
from lmms_eval_ad2.storage.local_weights import model_label
from lmms_eval_ad2.storage.untrusted_json import parse

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# Infraction lists of an official record, in its order.
INFRACTIONS = (
    "collisions_layout",
    "collisions_pedestrian",
    "collisions_vehicle",
    "red_light",
    "stop_infraction",
    "outside_route_lanes",
    "min_speed_infractions",
    "yield_emergency_vehicle_infractions",
    "scenario_timeouts",
    "route_dev",
    "vehicle_blocked",
    "route_timeout",
)

PROGRAM = "program"  # scenario type in the record of a user's program
# Status if a user's program ended itself before the route was completed: neither a success nor a failure of the car.
PROGRAM_ENDED = "Ended by its program"


@dataclass(frozen=True)
class EpisodeRecord:
    """One finished or failed episode. Infraction messages contain their measured values, as in the official files."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"strict": True, "extra": "forbid", "allow_inf_nan": False}

    suite: str  # "embedded220", "bench2drive220", a file's stem, or a user's program
    route_id: str
    repetition: int
    seed: int
    scenario: str  # type
    scenario_name: str
    town: str
    end: str  # EndReason
    status: str  # official text
    infractions: dict[str, list[str]]
    score_route: float  # percent
    score_penalty: float
    score_composed: float
    route_length_m: float
    game_s: float
    system_s: float
    ticks: int
    agent: dict[str, Any]
    interpreter: dict[str, Any] | None
    profile: str
    world: dict[str, Any]  # backend, version, waiting; changed and decision_hz where they differ from the profile
    map: dict[str, Any]  # source, sha256, pieces [[from, to, kind]], invented, experimental
    weather: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # decisions, unparsed (also by reason), agent_errors, retries
    events: list[tuple[float, str]] = field(default_factory=list)  # of the scenario: (time in s, name)
    places: list[dict[str, Any]] = field(default_factory=list)  # of infractions: kind, time_s, x, y, text, actor
    drawn: dict[str, Any] = field(default_factory=dict)  # values of its program's free parameters
    margins: dict[str, Any] = field(default_factory=dict)  # distances to failure, see scoring.margins
    # Of each decision in words, simulated s: request, arrival, begin and end of the application of its control.
    decisions: list[list[float | None]] = field(default_factory=list)
    comfort: dict[str, Any] = field(default_factory=dict)  # official and corrected share, segments
    junctions_passed: int | None = None
    reason: str = ""  # of a failure
    fault: str = ""  # EpisodeFault: what is to blame if the episode was not driven; see `blamed`
    version: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.suite, self.route_id, self.repetition

    @property
    def blamed(self) -> str:
        """The fault that kept the episode from being driven; "" if it was driven. By its end in older records."""
        return self.fault or FAULT_OF.get(self.end, "")

    @property
    def retryable(self) -> bool:
        """True if another try can help: a corrected program is another suite, and a run of its own."""
        return self.blamed not in ("", EpisodeFault.PROGRAM)

    @property
    def failure(self) -> str:
        """The blame for an episode that was not driven, in one line."""
        return f"route {self.route_id} repetition {self.repetition}: fault of the {self.blamed}: {self.reason}"

    @property
    def clean(self) -> bool:
        """No infraction except min_speed_infractions."""
        return all(not v for k, v in self.infractions.items() if k != "min_speed_infractions")

    @property
    def success(self) -> bool:
        """Completed without infractions except min_speed_infractions (Bench2Drive's rule)."""
        return self.status in ("Completed", "Perfect") and self.clean

    @property
    def unharmed(self) -> bool:
        """A success, or no infraction until its program ended itself, which it may do before the end of the route."""
        return self.success or (self.status == PROGRAM_ENDED and self.clean)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, line: str) -> EpisodeRecord:
        """The record of a line. Raises ValueError with the first field that is missing, unknown or of another type."""
        from pydantic import ValidationError

        try:
            _checker().validate_json(line)
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            found = "" if first["type"] in ("missing", "json_invalid") else f", found {first['input']!r:.60}"
            raise ValueError(f"{f'field {where!r}: ' if where else ''}{first['msg']}{found}") from exc
        return cls(**parse(line, finite=False))


@cache
def _checker() -> TypeAdapter[EpisodeRecord]:
    from pydantic import TypeAdapter

    return TypeAdapter(EpisodeRecord)


def driver_name(agent: Mapping[str, Any]) -> str:
    """The name of a driver in tables and pictures, such as "expert", or "lmms:llava_hf tiny-driver" with a checkpoint.

    agent: EpisodeRecord.agent. Of a checkpoint that is a folder or a repository of a hub, the last part of its name.
    """
    name, checkpoint = str(agent.get("name", "")), model_label("", str(agent.get("model_args") or ""))
    return f"{name} {checkpoint}" if checkpoint and checkpoint not in name else name
