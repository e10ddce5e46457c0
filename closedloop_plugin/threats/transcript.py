"""Record of how a route's scenario was generated: questions, answers, specs, refusals, verdicts. JSON both ways."""

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
    """Answer of one stage. `question`: the prompt, or what was observed; `error`: why there is no answer."""

    stage: Stage
    question: str
    text: str = ""
    error: str | None = None
    seconds: float = 0.0


class InterviewRecord(_StrictModel):
    """`source`: "said" (a model's own answers) or "observed" (our description of a driver without language)."""

    agent: dict[str, Any]
    source: Literal["said", "observed"]
    frames: list[str] = []  # picture files, relative to the suite's folder
    time_s: list[float] = []
    answers: list[StageAnswer] = []

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
    others: int = 0  # other draws driven after it, without those that could not be scored
    others_survived: int = 0
    others_failed: int = 0  # other draws that could not be scored: the world failed
    others_needed: int = 0  # of the other draws, for the scenario to pass
    reason: str = ""


class ThreatAttempt(_StrictModel):
    """One scenario generated for the route; the last one counts."""

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
    """Interview and attempts of one route."""

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
        """Read and validate a transcript. Raises DataError with file and field."""
        try:
            return cls.model_validate_json(file.read_bytes())
        except ValidationError as exc:
            first = exc.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "file"
            hint = "Remove the file; `ad2 threats generate` creates it again."
            raise DataError(file, None, field, first["msg"], first.get("input"), hint) from exc
