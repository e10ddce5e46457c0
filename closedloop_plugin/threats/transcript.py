"""What is kept of each route's making: questions, answers, specs, refusals, programs, verdicts. JSON both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import ThreatSpec
from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.storage.files import atomic_write

STAGES = ("perception", "prediction", "planning")
Stage = Literal["perception", "prediction", "planning"]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StageAnswer(_StrictModel):
    """One stage's. `question` is the text as asked (of a witness: what was looked at); `error`: why there is none."""

    stage: Stage
    question: str
    text: str = ""
    error: str | None = None
    seconds: float = 0.0


class InterviewRecord(_StrictModel):
    """`source`: said (a model's own words) or observed (words of ours about a driver that has none)."""

    agent: dict[str, Any]
    source: Literal["said", "observed"]
    frames: list[str] = []  # picture files, relative to the suite's folder
    time_s: list[float] = []
    answers: list[StageAnswer] = []

    @property
    def error(self) -> str | None:
        return next((f"{a.stage}: {a.error}" for a in self.answers if a.error), None)


class FuserExchange(_StrictModel):
    """One call of the fuser, or one try of the rules."""

    purpose: Literal["fuse", "construct", "repair"]
    prompt: str = ""
    reply: str = ""
    error: str | None = None
    problems: list[str] = []  # with the reply: what the validation said
    seconds: float = 0.0


class ScenarioVerdict(_StrictModel):
    """Of `ad2 threats check`. `passed` only if all of it holds; `reason` names the first thing that does not."""

    passed: bool
    compiles: bool = False
    runs: bool = False
    acts: bool = False
    survivable: bool = False
    tries: int = 0
    survived: int = 0
    drawn: dict[str, Any] = {}  # parameters with which the expert survived
    reason: str = ""


class ThreatAttempt(_StrictModel):
    """One scenario made for the route; the last one counts."""

    number: int
    seed: int
    fuser: dict[str, Any]
    description: str = ""
    exchanges: list[FuserExchange] = []
    spec: ThreatSpec | None = None
    refused: str = ""  # why there is no spec
    program_sha256: str = ""
    verdict: ScenarioVerdict | None = None


class ThreatTranscript(_StrictModel):
    route: str
    site: ThreatSite
    interview: InterviewRecord
    attempts: list[ThreatAttempt] = []
    version: str = ""

    @property
    def last(self) -> ThreatAttempt | None:
        return self.attempts[-1] if self.attempts else None

    def write(self, file: Path) -> None:
        with atomic_write(file) as handle:
            handle.write(self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> ThreatTranscript:
        """DataError names file, field and what was expected."""
        try:
            return cls.model_validate_json(file.read_bytes())
        except ValidationError as exc:
            first = exc.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "file"
            hint = "Remove the file, and `ad2 threats generate` makes it anew."
            raise DataError(file, None, field, first["msg"], first.get("input"), hint) from exc
