"""Record of how a route's scenario was generated: questions, answers, specs, refusals, verdicts. JSON both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from closedloop_plugin.threats.driven.summary import DriverReply, DriveSummary, read_model
from closedloop_plugin.threats.robustness import closeness
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import ThreatSpec
from lmms_eval_ad2.storage.files import atomic_write

STAGES = ("perception", "prediction", "planning")
Stage = Literal["perception", "prediction", "planning"]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StageAnswer(_StrictModel):
    """Answer of one stage. `question`: the prompt, or why none was asked; `error`: why there is no answer."""

    stage: Stage
    question: str
    text: str = ""
    error: str | None = None
    seconds: float = 0.0


class InterviewMoment(_StrictModel):
    """A moment of the target's drive, and its answers about it. Speeds in m/s.

    `frames`: image files relative to the suite's folder, by frame (the earliest first), then by camera; `frame_s`: the
    times. `target`: the next route point, m forward and to the left. `replies`: what the target itself had said until
    then. The `reactions` of versions that probed drivers without words are not read.
    """

    time_s: float = 0.0
    s: float = 0.0  # m along the route
    speed: float = 0.0
    speed_limit: float = 0.0
    command: str = ""
    target: tuple[float, float] = (0.0, 0.0)
    frames: list[str] = []
    frame_s: list[float] = []
    replies: list[DriverReply] = []
    answers: list[StageAnswer] = []

    @model_validator(mode="before")
    @classmethod
    def _without_reactions(cls, value: Any) -> Any:
        return {k: v for k, v in value.items() if k != "reactions"} if isinstance(value, dict) else value


class InterviewRecord(_StrictModel):
    """`source`: "said" (a model's own answers) or "observed" (of a driver without language only the drive is known).

    `drive`: the episode on which the moments lie. Transcripts of versions without a drive are read as one moment at
    standstill.
    """

    agent: dict[str, Any]
    source: Literal["said", "observed"]
    moments: list[InterviewMoment] = []
    drive: DriveSummary | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_standstill(cls, value: Any) -> Any:
        """Convert the fields of a transcript whose interview was held before the drive."""
        if not isinstance(value, dict) or "answers" not in value:
            return value
        rest = {k: v for k, v in value.items() if k not in ("frames", "time_s", "answers")}
        times = value.get("time_s") or []
        moment = {"time_s": times[-1] if times else 0.0, "frames": value.get("frames") or [], "frame_s": times}
        return {**rest, "moments": [{**moment, "answers": value["answers"]}]}

    @property
    def answers(self) -> list[StageAnswer]:
        """The answers of all moments, in order."""
        return [answer for moment in self.moments for answer in moment.answers]

    @property
    def frames(self) -> list[str]:
        return [name for moment in self.moments for name in moment.frames]

    @property
    def complete(self) -> bool:
        """Whether every moment has its answers, without an error."""
        return bool(self.moments) and all(len(m.answers) == len(STAGES) for m in self.moments) and not self.error

    @property
    def error(self) -> str | None:
        return next((f"{a.stage}: {a.error}" for a in self.answers if a.error), None)


class FuserExchange(_StrictModel):
    """One call of the fuser's model, or one run of the rules."""

    purpose: Literal["fuse", "construct", "repair"]
    prompt: str = ""
    reply: str = ""
    error: str | None = None
    problems: list[str] = []  # validation problems of the reply
    seconds: float = 0.0


class ScenarioVerdict(_StrictModel):
    """Result of `ad2 threats check`. `passed` if all conditions hold; `reason`: the first one that does not."""

    passed: bool
    compiles: bool = False
    runs: bool = False
    acts: bool = False
    survivable: bool = False
    tries: int = 0
    survived: int = 0
    draw_seed: int | None = None  # of the played draw: the first one that the expert survived
    drawn: dict[str, Any] = {}  # its parameters
    seen_before_act_s: float | None = None  # in it: since when the camera shows the hidden actor; None: not measured
    others: int = 0  # other draws driven after it, without those that could not be scored
    others_survived: int = 0
    others_failed: int = 0  # other draws that could not be scored: the world failed
    others_needed: int = 0  # of the other draws, for the scenario to pass
    reason: str = ""


class ThreatAttempt(_StrictModel):
    """One scenario generated for the route. `number`: of the attempt within its round, from 0.

    `round`: from 1; the later ones follow scenarios that the target survived. `outcome`: the target's drive of this
    program with the values that the check accepted, if it could be scored.
    """

    number: int
    seed: int
    fuser: dict[str, Any]
    round: int = 1
    description: str = ""
    exchanges: list[FuserExchange] = []
    spec: ThreatSpec | None = None
    refused: str = ""  # why there is no spec
    program_sha256: str = ""
    verdict: ScenarioVerdict | None = None
    outcome: DriveSummary | None = None

    @property
    def passed(self) -> bool:
        return self.spec is not None and self.verdict is not None and self.verdict.passed

    @property
    def survived(self) -> bool:
        """Whether the target drove it, and the threat did not make it fail. It may have failed by the standard scenario
        or by itself, as it does without the threat."""
        return self.outcome is not None and not self.outcome.by_threat


class ThreatTranscript(_StrictModel):
    """Interview and attempts of one route."""

    route: str
    site: ThreatSite
    interview: InterviewRecord
    attempts: list[ThreatAttempt] = []
    version: str = ""

    @property
    def newest(self) -> ThreatAttempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def last(self) -> ThreatAttempt | None:
        """The attempt that counts: the one that made the target fail, else that which came closest, else the newest."""
        if failed := self.failed_attempt:
            return failed
        survived = [a for a in self.attempts if a.survived]
        return min(survived, key=_distance) if survived else self.newest

    @property
    def failed_attempt(self) -> ThreatAttempt | None:
        """The attempt that made the target fail, if any."""
        return next((a for a in self.attempts if a.outcome is not None and a.outcome.by_threat), None)

    @property
    def rounds(self) -> list[ThreatAttempt]:
        """The last attempt of each round."""
        return list({a.round: a for a in self.attempts}.values())

    def of_round(self, number: int) -> ThreatAttempt | None:
        return next((a for a in self.rounds if a.round == number), None)

    def write(self, file: Path) -> None:
        with atomic_write(file) as handle:
            handle.write(self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> ThreatTranscript:
        """Read and validate a transcript. Raises DataError with file and field."""
        return read_model(cls, file, "Remove the file; `ad2 threats generate` creates it again.")


def _distance(attempt: ThreatAttempt) -> float:
    """Of a survived attempt: how far the target was from failing by it, in (0, 1].

    The robustness of a drive that failed otherwise is about that failure: the margins to the threat's own actors take
    its place.
    """
    outcome = attempt.outcome
    assert outcome is not None
    if not outcome.failed:
        return outcome.robustness
    return closeness(outcome.margins.ttc_s, outcome.margins.gap_m)
