"""Read a threat folder for the gallery: program, transcript and verdict of each scenario.

Nothing is executed. A file that cannot be read is reported on the card of its scenario; the others are still shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from closedloop_plugin.scenarios.suites.programs import index_of, programs_in, route_named
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatAttempt, ThreatTranscript
from closedloop_plugin.threats.verdict_files import read_verdicts
from lmms_eval_ad2.core.errors import Ad2Error, DataError

_LONGEST = 20_000_000  # bytes of a transcript
_PARAM = re.compile(r"^param[ \t]+(?P<name>\w+)[ \t]*=[ \t]*(?P<value>[^#\n]*)(?:#[ \t]*(?P<note>.*))?$", re.M)
_NUMBER = r"[ \t]*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)[ \t]*"
_RANGE = re.compile(rf"(?:Discrete)?Range\({_NUMBER},{_NUMBER}\)")
_DOC = re.compile(r"\A(?:[ \t]*#[^\n]*\n|\s)*(?P<quote>\"\"\"|''')(?P<text>.*?)(?P=quote)", re.S)
_NOT_FREE = ("route", "map", "carla_map", "model", "time_step")


class ScenarioCheckState(StrEnum):
    """Result of `ad2 threats check` for the current program."""

    PASSED = "passed"
    FAILED = "check failed"
    CHANGED = "changed since its check"
    UNCHECKED = "not checked"
    NOT_MADE = "not made"  # refused by the fuser, or its interview failed


@dataclass(frozen=True)
class ProgramParameter:
    """A line `param name = value  # note`; `low`, `high` if the value is a Range(low, high)."""

    name: str
    value: str
    note: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class GalleryScenario:
    """A scenario. `program`: its text, "" if there is none; `problems`: files that are unreadable or inconsistent."""

    name: str
    state: ScenarioCheckState
    reason: str = ""  # of the state
    left_out: str = ""  # why the suite does not drive it
    program: str = ""
    sha256: str = ""
    route: tuple[str, str] | None = None  # suite, id
    transcript: ThreatTranscript | None = None
    verdict: ScenarioVerdict | None = None
    judge: str = "expert"  # the driver of the check
    problems: tuple[str, ...] = ()

    @property
    def spec(self) -> ThreatSpec | None:
        last = self.transcript.last if self.transcript else None
        return last.spec if last else None

    @property
    def parameters(self) -> list[ProgramParameter]:
        return parameters(self.program)

    @property
    def docstring(self) -> str:
        """First paragraph of the program's docstring on one line, for programs without a spec."""
        found = _DOC.match(self.program)
        return " ".join(found["text"].split("\n\n")[0].split()) if found else ""


@dataclass(frozen=True)
class ThreatGallery:
    """All scenarios of a folder. `about`: facts of suite.json, flattened."""

    folder: Path
    name: str
    about: Mapping[str, Any] = field(default_factory=dict)
    scenarios: tuple[GalleryScenario, ...] = ()


def read(folder: Path) -> ThreatGallery:
    """Every scenario of the folder, including refused and left-out ones. Raises Ad2Error if there is none."""
    if not folder.is_dir():
        raise Ad2Error(f"{folder}: no such folder; expected what `ad2 threats generate --out` wrote, or *.scenic files")
    index = index_of(folder)
    programs = {file.stem: file for file in programs_in(folder)}
    transcripts = {file.stem: file for file in (folder / "transcripts").glob("*.json")}
    left_out = _reasons(folder, index, "left_out")
    failed = _reasons(folder, index, "failed")
    names = sorted({*programs, *transcripts, *left_out, *failed}, key=_order)
    if not names:
        raise Ad2Error(f"{folder}: no scenario programs there (*.scenic, or scenarios/*.scenic)")
    checked = read_verdicts(folder)
    scenarios = tuple(
        _scenario(
            name=n,
            program=programs.get(n),
            transcript=transcripts.get(n),
            checked=checked.get(n),
            left_out=left_out.get(n, ""),
            failed=failed.get(n, ""),
        )
        for n in names
    )
    asked = index.get("asked")
    about = {**(asked if isinstance(asked, dict) else {}), **index}
    return ThreatGallery(folder, str(index.get("name") or folder.absolute().name), about, scenarios)


def parameters(program: str) -> list[ProgramParameter]:
    """The program's parameters in order, without route and map."""
    found = []
    for line in _PARAM.finditer(program):
        value = line["value"].strip()
        ends = _RANGE.fullmatch(value)
        try:
            low, high = (float(ends[1]), float(ends[2])) if ends else (None, None)
        except ValueError:  # "1.2.3": Scenic will reject it
            low = high = None
        if line["name"] not in _NOT_FREE:
            found.append(ProgramParameter(line["name"], value, (line["note"] or "").strip(), low, high))
    return found


def _order(name: str) -> tuple[int, str]:
    return (int(name), name) if name.isdecimal() and len(name) < 12 else (10**12, name)


def _reasons(folder: Path, index: Mapping[str, Any], field_name: str) -> dict[str, str]:
    found = index.get(field_name) or {}
    if not isinstance(found, dict):
        raise DataError(folder / "suite.json", None, field_name, "an object of reasons by name", found)
    return {str(k): str(v) for k, v in found.items()}


def _scenario(
    name: str, program: Path | None, transcript: Path | None, checked: Mapping[str, Any] | None, left_out: str,
    failed: str,
) -> GalleryScenario:  # fmt: skip
    problems: list[str] = []
    kept = _transcript(transcript, problems) if transcript else None
    if program is None:
        return GalleryScenario(
            name=name,
            state=ScenarioCheckState.NOT_MADE,
            reason=failed or left_out or _refusal(kept),
            left_out=left_out,
            transcript=kept,
            problems=tuple(problems),
        )
    content = program.read_bytes()
    digest = sha256(content).hexdigest()
    last = kept.last if kept else None
    if last and last.program_sha256 and last.program_sha256 != digest:
        problems.append(
            "the program is not the one of the last attempt: it was changed by hand, or is being generated again"
        )
    state, verdict = _judged(digest, _entry(checked, problems), last)
    reason = verdict.reason if verdict and not verdict.passed else ""
    return GalleryScenario(
        name=name,
        state=state,
        reason=reason,
        left_out=left_out,
        program=content.decode("utf-8", errors="replace"),
        sha256=digest,
        route=_route(program, problems),
        transcript=kept,
        verdict=verdict,
        judge=_judge(checked, digest),
        problems=tuple(problems),
    )


def _judge(checked: Any, digest: str) -> str:
    """The judge of this version of the program, from check.json; `generate` always uses the expert."""
    current = isinstance(checked, dict) and checked.get("program_sha256") == digest
    return str(checked.get("judge") or "expert").removesuffix(" (privileged)") if current else "expert"


def _route(program: Path, problems: list[str]) -> tuple[str, str] | None:
    try:
        return route_named(program)
    except Ad2Error as exc:
        problems.append(f"its route cannot be read: {str(exc).replace(f'{program}: ', '')}")
        return None


def _judged(
    digest: str, checked: tuple[str, ScenarioVerdict | None], last: ThreatAttempt | None
) -> tuple[ScenarioCheckState, ScenarioVerdict | None]:
    """State and verdict of this version of the program, from check.json or its last attempt."""
    known = [checked, (last.program_sha256, last.verdict) if last else ("", None)]
    verdicts = [(of, verdict) for of, verdict in known if verdict is not None]
    for of, verdict in verdicts:
        if of in ("", digest):
            return (ScenarioCheckState.PASSED if verdict.passed else ScenarioCheckState.FAILED), verdict
    return (ScenarioCheckState.CHANGED if verdicts else ScenarioCheckState.UNCHECKED), None


def _refusal(kept: ThreatTranscript | None) -> str:
    if kept is None:
        return ""
    if kept.interview.error:
        return f"interview: {kept.interview.error}"
    return kept.last.refused if kept.last else "no attempt yet"


def _transcript(file: Path, problems: list[str]) -> ThreatTranscript | None:
    try:
        if file.stat().st_size > _LONGEST:
            raise Ad2Error(f"{file.name}: {file.stat().st_size} bytes; a transcript has {_LONGEST} at most")
        return ThreatTranscript.read(file)
    except (Ad2Error, OSError) as exc:
        problems.append(f"its transcript cannot be read: {str(exc).replace(str(file.parent), 'transcripts')}")
        return None


def _entry(checked: Any, problems: list[str]) -> tuple[str, ScenarioVerdict | None]:
    """(sha256 of the program that was checked, its verdict) of an entry of check.json."""
    if checked is None:
        return "", None
    try:
        fields = {k: v for k, v in dict(checked).items() if k in ScenarioVerdict.model_fields}
        return str(checked.get("program_sha256", "")), ScenarioVerdict.model_validate(fields)
    except (ValidationError, TypeError, ValueError, AttributeError) as exc:
        problems.append(f"its verdict in check.json cannot be read ({type(exc).__name__})")
        return "", None
