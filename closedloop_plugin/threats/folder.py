"""Layout and write order of the folder of `ad2 threats generate`.

    suite.json               identity of the run (compared at every start) and results; read by suites/programs.py
    lock                     held by the writing process
    target/                  the target's drives: run folders, see driven/target.py
    frames/                  the images shown to the target, see driven/recorder.py
    transcripts/<route>.json ThreatTranscript: the record of a route; replaced after the interview, each attempt, its
                             verdict and the target's drive of it
    scenarios/<route>.scenic the newest attempt's program, at the end that of the attempt that counts; written before
                             the transcript with its sha256

A process killed between the last two leaves a program without its attempt, which is then repeated from the same seed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.routes import valid_route_id
from closedloop_plugin.scenarios.suites.programs import INDEX, index_of
from closedloop_plugin.threats.interview import images_of
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.threats.transcript import InterviewMoment, ThreatAttempt, ThreatTranscript
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json, file_sha256, remove_leftovers
from lmms_eval_ad2.storage.identity import continued, refuse_differences

_SUITE = re.compile(r"[^\"'\s:\\]{1,200}")


def valid_names(suite: str, route: str) -> bool:
    """Whether programs can refer to suite and route, and files can be named by the route; see suites/programs.py."""
    return bool(_SUITE.fullmatch(suite) and suite.isprintable() and valid_route_id(route))


@dataclass(frozen=True)
class ThreatFolder:
    """A threat suite on disk."""

    path: Path

    def program_file(self, route: str) -> Path:
        return self.path / "scenarios" / f"{route}.scenic"

    def transcript_file(self, route: str) -> Path:
        return self.path / "transcripts" / f"{route}.json"

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Compare with an earlier start and mark the folder as unfinished. Raises Ad2Error with every difference.

        The caller holds the folder's lock.
        """
        remove_leftovers(self.path, *(self.path / name for name in ("frames", "transcripts", "scenarios")))
        stored = index_of(self.path)
        if stored and self.transcripts_begun():
            refuse_differences(self.path, stored.get("asked", {}), identity, "threats made")
            identity = continued(self.path, stored.get("asked", {}), identity)
        elif not stored and any((self.path / "scenarios").glob("*.scenic")):
            raise Ad2Error(f"{self.path}: holds scenarios that were not generated here; choose another --out")
        self.write_index({**stored, "asked": identity, "finished": False})

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
        """Write the attempt's program, then the transcript with it. A refused attempt removes the program."""
        file = self.program_file(transcript.route)
        if attempt.spec is None:
            file.unlink(missing_ok=True)
        else:
            text = program(attempt.spec, transcript.site)
            with atomic_write(file) as handle:
                handle.write(text)
            attempt = attempt.model_copy(update={"program_sha256": hashlib.sha256(text.encode()).hexdigest()})
        extended = transcript.model_copy(update={"attempts": [*_kept_attempts(transcript), attempt]})
        self.keep(extended)
        return extended

    def place(self, transcript: ThreatTranscript, attempt: ThreatAttempt | None) -> None:
        """Write the attempt's program, unless the file is the user's: one that no attempt of the route wrote."""
        file = self.program_file(transcript.route)
        if attempt is None or attempt.spec is None:
            return
        stored = self.program_sha(transcript.route)
        if stored == attempt.program_sha256 or (
            stored and stored not in {a.program_sha256 for a in transcript.attempts}
        ):
            return
        with atomic_write(file) as handle:
            handle.write(program(attempt.spec, transcript.site))

    def program_sha(self, route: str) -> str:
        """sha256 of the program file; "" if there is none."""
        file = self.program_file(route)
        return file_sha256(file) if file.is_file() else ""

    def images(self, transcript: ThreatTranscript) -> tuple[np.ndarray, ...]:
        """The last frame of each moment, by camera; see interview.images_of."""
        names = [name for m in transcript.interview.moments for name in last_frames(m)]
        return images_of(self.path, names)


def last_frames(moment: InterviewMoment) -> list[str]:
    """The names of the moment's last frame, one per camera."""
    cameras = len(moment.frames) // max(len(moment.frame_s), 1)
    return moment.frames[-cameras:] if cameras else []


def _kept_attempts(transcript: ThreatTranscript) -> list[ThreatAttempt]:
    """Attempts without those that a failure of the endpoint ended, which are repeated."""
    return [a for a in transcript.attempts if not failed_technically(a)]


def failed_technically(attempt: ThreatAttempt) -> bool:
    """Whether there is no spec because the model did not reply (rather than because of its reply)."""
    return attempt.spec is None and bool(attempt.exchanges) and attempt.exchanges[-1].error is not None
