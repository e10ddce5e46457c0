"""The folder that `ad2 threats generate` fills, and in which order.

    suite.json               what was asked (compared at every start), and what came of it; read by program_suites
    lock                     held by the one process that writes
    frames/<route>_<k>.jpg   what the target saw
    transcripts/<route>.json Transcript: the truth about a route; written whole after the interview and each attempt
    scenarios/<route>.scenic the last attempt's program; written before the transcript that names its sha256

A process killed in between leaves a program without its attempt: it is made again, from the same seed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from closedloop_plugin.suites.programs import INDEX, index_of
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.threats.transcript import ThreatAttempt, ThreatTranscript
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json
from lmms_eval_ad2.storage.identity import refuse_differences

_SUITE, _ROUTE = re.compile(r"[^\"'\s:\\]{1,200}"), re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,79}")


def speakable(suite: str, route: str) -> bool:
    """Whether a program can name them, and files be named by the route; see program_suites."""
    return bool(_SUITE.fullmatch(suite) and suite.isprintable() and _ROUTE.fullmatch(route))


@dataclass(frozen=True)
class ThreatFolder:
    """One threat suite on disk."""

    path: Path

    def program_file(self, route: str) -> Path:
        return self.path / "scenarios" / f"{route}.scenic"

    def transcript_file(self, route: str) -> Path:
        return self.path / "transcripts" / f"{route}.json"

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Compare with what stands there, and mark the folder as under way. Ad2Error names each difference."""
        there = index_of(self.path)
        if there and self.transcripts_begun():
            refuse_differences(self.path, there.get("asked", {}), asked, "threats made")
        elif not there and any((self.path / "scenarios").glob("*.scenic")):
            raise Ad2Error(f"{self.path}: holds scenarios that were not generated here; choose another --out")
        self.write_index({**there, "asked": asked, "finished": False})

    def transcripts_begun(self) -> bool:
        return any((self.path / "transcripts").glob("*.json"))

    def write_index(self, index: Mapping[str, Any]) -> None:
        atomic_write_json(self.path / INDEX, index)

    def transcript(self, route: str) -> ThreatTranscript | None:
        file = self.transcript_file(route)
        return ThreatTranscript.read(file) if file.is_file() else None

    def keep(self, transcript: ThreatTranscript) -> None:
        transcript.write(self.transcript_file(transcript.route))

    def add(self, transcript: ThreatTranscript, attempt: ThreatAttempt) -> ThreatTranscript:
        """Write the attempt's program, then the transcript with it. A refused attempt leaves no program behind."""
        file = self.program_file(transcript.route)
        if attempt.spec is None:
            file.unlink(missing_ok=True)
        else:
            text = program(attempt.spec, transcript.site)
            with atomic_write(file) as handle:
                handle.write(text)
            attempt = attempt.model_copy(update={"program_sha256": hashlib.sha256(text.encode()).hexdigest()})
        grown = transcript.model_copy(update={"attempts": [*_lasting(transcript), attempt]})
        self.keep(grown)
        return grown

    def restore(self, transcript: ThreatTranscript) -> None:
        """Write the last attempt's program again where it is gone; one that was edited stays as it is."""
        last, file = transcript.last, self.program_file(transcript.route)
        if last is not None and last.spec is not None and not file.is_file():
            with atomic_write(file) as handle:
                handle.write(program(last.spec, transcript.site))

    def program_sha(self, route: str) -> str:
        """Of the program as it stands there; "" where there is none."""
        file = self.program_file(route)
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""

    def images(self, transcript: ThreatTranscript) -> tuple[np.ndarray, ...]:
        """The interview's frames, (H, W, 3) uint8 RGB; () where they are gone."""
        files = [self.path / name for name in transcript.interview.frames]
        inside = [f for f in files if f.resolve().is_relative_to(self.path.resolve())]
        return tuple(np.asarray(Image.open(f).convert("RGB")) for f in inside if f.is_file())


def _lasting(transcript: ThreatTranscript) -> list[ThreatAttempt]:
    """Attempts that say something of the route. One that an endpoint's failure ended does not: it is made again."""
    return [a for a in transcript.attempts if not failed_technically(a)]


def failed_technically(attempt: ThreatAttempt) -> bool:
    """No spec because a model gave no reply at all (not because of what it said)."""
    return attempt.spec is None and bool(attempt.exchanges) and attempt.exchanges[-1].error is not None
