"""DriveSummary: what the target did in one episode, small enough for transcripts and prompts. JSON both ways.

Metres along the route (s), seconds, m/s. Texts of models are cut, and untrusted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from closedloop_plugin.scoring.failure_cause import FailureCause
from lmms_eval_ad2.core.errors import DataError

ModelT = TypeVar("ModelT", bound=BaseModel)
MAX_POINTS = 80  # of the speed profile
MAX_STOPS, MAX_PLACES, MAX_REPLIES, MAX_ACTORS = 8, 8, 24, 24
REPLY_LENGTH = 300  # characters of each text of a reply


def read_model(model: type[ModelT], file: Path, hint: str) -> ModelT:
    """Read and validate a JSON file. Raises DataError with file and field."""
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as exc:
        first = exc.errors()[0]
        field = ".".join(map(str, first["loc"])) or "file"
        raise DataError(file, None, field, first["msg"], first.get("input"), hint) from exc


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DriverReply(_StrictModel):
    """A reply of the target in words, at the time when its control began to apply. `texts`: by question."""

    time_s: float
    s: float
    speed: float
    texts: dict[str, str]
    control: tuple[float, float, float]  # steer, throttle, brake


class DriveStop(_StrictModel):
    """A standstill: where, from when, how long."""

    s: float
    time_s: float
    seconds: float


class DriveInfraction(_StrictModel):
    """An infraction with time and place; `s`: None if it has no place."""

    kind: str
    text: str
    time_s: float | None = None
    s: float | None = None


class ScenarioActorTrack(_StrictModel):
    """Where an actor of the driven scenario was along the route, by its centre; only while it was beside or on it.

    `low`, `high`: smallest and largest s, m. `d`: smallest distance to the ego's path, m. `moves`: it was seen moving.
    """

    kind: str
    low: float
    high: float
    d: float
    moves: bool


class DriveReaction(_StrictModel):
    """What the target did when a scenario acted. `seconds`: from the act to its first brake or lifted throttle; None:
    none before a contact. `gap_m`: to the nearest actor of the scenario."""

    act_s: float  # time of the act
    s: float
    speed: float
    gap_m: float | None = None  # at the act
    seconds: float | None = None
    reaction_gap_m: float | None = None
    brake_s: float | None = None  # from the act to a brake of at least a third


class ScenarioMargins(_StrictModel):
    """Smallest distance (m) and time to collision (s) to an actor of the driven scenario; None: none was near."""

    gap_m: float | None = None
    nearest: str | None = None  # kind
    ttc_s: float | None = None


class DriveSummary(_StrictModel):
    """One episode of the target.

    `failed`: not EpisodeRecord.unharmed; `cause`: of the failure, with the standard drive for comparison (None for
    transcripts of 0.11 and before). `robustness`: see robustness.py, below 0 if it failed. `profile`: [time, s,
    speed], at most MAX_POINTS. `replies`: at most MAX_REPLIES, evenly spread.
    """

    run: str = ""  # the run folder, relative to the suite's folder
    status: str
    failed: bool
    score: float  # Driving Score of the episode, percent
    robustness: float
    cause: FailureCause | None = None
    game_s: float
    driven_m: float
    route_m: float
    trigger_s: float  # s of the route's trigger point
    infractions: list[DriveInfraction] = []
    profile: list[tuple[float, float, float]] = []
    stops: list[DriveStop] = []
    min_gap_m: float | None = None
    gap_time_s: float | None = None
    gap_s: float | None = None  # where on the route
    nearest: str | None = None
    min_ttc_s: float | None = None
    ttc_time_s: float | None = None
    scenario_margins: ScenarioMargins | None = None  # of the program, if one was driven
    hardest_brake: float = 0.0  # m/s2
    reaction: DriveReaction | None = None  # of an episode whose scenario acts
    actors: list[ScenarioActorTrack] = []  # of the standard scenario, or of the program if one was driven
    replies: list[DriverReply] = []

    @property
    def by_threat(self) -> bool:
        """Whether the driven threat made the target fail; without a known cause, whether it failed."""
        return self.failed if self.cause is None else self.cause.by_threat

    @property
    def margins(self) -> ScenarioMargins:
        """Margins to the driven scenario; to all actors, if those are not known."""
        return self.scenario_margins or ScenarioMargins(
            gap_m=self.min_gap_m, nearest=self.nearest, ttc_s=self.min_ttc_s
        )

    @property
    def moved(self) -> bool:
        return self.driven_m >= 2.0

    @property
    def top_speed(self) -> float:
        return max((v for _, _, v in self.profile), default=0.0)

    def speed_at(self, s: float) -> float | None:
        """Speed (m/s) when it passed `s`; None if it did not get there."""
        before: tuple[float, float] | None = None
        for _, at, v in self.profile:
            if at >= s:
                if before is None or at - before[0] < 1e-6:
                    return v
                share = (s - before[0]) / (at - before[0])
                return before[1] + share * (v - before[1])
            before = (at, v)
        return None
