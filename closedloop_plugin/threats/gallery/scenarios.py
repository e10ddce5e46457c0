"""Read a threat folder for the gallery: program, transcript and verdict of each scenario.

Nothing is executed. A file that cannot be read is reported on the card of its scenario; the others are still shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from closedloop_plugin.scenarios.suites.programs import index_of, programs_in, route_named
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatTranscript
from closedloop_plugin.threats.verdicts import read_verdicts
from lmms_eval_ad2.core.errors import Ad2Error, DataError

LONGEST = 20_000_000  # bytes of a transcript
_PARAM = re.compile(r"^param[ \t]+(\w+)[ \t]*=[ \t]*([^#\n]*)(?:#[ \t]*(.*))?$", re.M)
_NOT_FREE = ("route", "map", "carla_map", "model", "time_step")


class ScenarioCheckState(StrEnum):
    """Result of `ad2 threats check` for the current program."""

    PASSED = "passed"
    FAILED = "check failed"
    CHANGED = "changed since its check"
    UNCHECKED = "not checked"
    NOT_MADE = "not made"  # refused by the fuser, or its interview failed


@dataclass(kw_only=True)
class GalleryScenario:
    """A scenario. `program`: its text, "" if there is none; `problems`: files that are unreadable or inconsistent."""

    name: str
    state: ScenarioCheckState = ScenarioCheckState.NOT_MADE
    reason: str = ""  # of the state
    left_out: str = ""  # why the suite does not drive it
    program: str = ""
    route: tuple[str, str] | None = None  # suite, id
    transcript: ThreatTranscript | None = None
    verdict: ScenarioVerdict | None = None
    problems: list[str]

    @property
    def parameters(self) -> list[tuple[str, str, str]]:
        """(name, value, note) of the program's lines `param name = value  # note`, without route and map."""
        found = (tuple(part.strip() for part in line) for line in _PARAM.findall(self.program))
        return [(name, value, note) for name, value, note in found if name not in _NOT_FREE]


def read(folder: Path) -> tuple[dict[str, Any], list[GalleryScenario]]:
    """(suite.json, flattened; every scenario of the folder, including refused and left-out ones).

    Raises Ad2Error if there is none.
    """
    if not folder.is_dir():
        raise Ad2Error(f"{folder}: no such folder; expected what `ad2 threats generate --out` wrote, or *.scenic files")
    index = index_of(folder)
    programs = {file.stem: file for file in programs_in(folder)}
    transcripts = {file.stem: file for file in (folder / "transcripts").glob("*.json")}
    left_out, failed = index.get("left_out") or {}, index.get("failed") or {}
    if not isinstance(failed, dict):
        raise DataError(folder / "suite.json", None, "failed", "an object of reasons by name", failed)
    names = sorted({*programs, *transcripts, *left_out, *failed}, key=lambda n: (len(n), n) if n.isdigit() else (99, n))
    if not names:
        raise Ad2Error(f"{folder}: no scenario programs there (*.scenic, or scenarios/*.scenic)")
    checked, asked = read_verdicts(folder), index.get("asked")
    scenarios = []
    for name in names:
        scenario = GalleryScenario(name=name, left_out=str(left_out.get(name, "")), problems=[])
        if name in transcripts:
            scenario.transcript = _transcript(transcripts[name], scenario.problems)
        if name in programs:
            _judge(scenario, programs[name], checked.get(name))
        else:
            scenario.reason = str(failed.get(name, "")) or scenario.left_out or _refusal(scenario.transcript)
        scenarios.append(scenario)
    name = str(index.get("name") or folder.absolute().name)
    return {**(asked if isinstance(asked, dict) else {}), **index, "name": name}, scenarios


def _judge(scenario: GalleryScenario, file: Path, checked: Mapping[str, Any] | None) -> None:
    """Read a scenario's program, and its state from check.json or its last attempt, if those are of this version."""
    content = file.read_bytes()
    digest, last = sha256(content).hexdigest(), scenario.transcript.last if scenario.transcript else None
    scenario.program = content.decode("utf-8", errors="replace")
    if last and last.program_sha256 not in ("", digest):
        scenario.problems.append(
            "the program is not the one of the last attempt: it was changed by hand, or is being generated again"
        )
    try:
        scenario.route = route_named(file)
    except Ad2Error as exc:
        scenario.problems.append(f"its route cannot be read: {str(exc).replace(f'{file}: ', '')}")
    known: list[tuple[str, ScenarioVerdict]] = []
    if checked is not None:
        try:
            fields = {k: v for k, v in checked.items() if k in ScenarioVerdict.model_fields}
            known.append((str(checked.get("program_sha256", "")), ScenarioVerdict.model_validate(fields)))
        except ValidationError:
            scenario.problems.append("its verdict in check.json cannot be read")
    if last and last.verdict:
        known.append((last.program_sha256, last.verdict))
    scenario.verdict = next((verdict for of, verdict in known if of in ("", digest)), None)
    if scenario.verdict:
        passed = scenario.verdict.passed
        scenario.state = ScenarioCheckState.PASSED if passed else ScenarioCheckState.FAILED
        scenario.reason = "" if passed else scenario.verdict.reason
    else:
        scenario.state = ScenarioCheckState.CHANGED if known else ScenarioCheckState.UNCHECKED


def _refusal(kept: ThreatTranscript | None) -> str:
    if kept is None:
        return ""
    if kept.interview.error:
        return f"interview: {kept.interview.error}"
    return kept.last.refused if kept.last else "no attempt yet"


def _transcript(file: Path, problems: list[str]) -> ThreatTranscript | None:
    try:
        if file.stat().st_size > LONGEST:
            raise Ad2Error(f"{file.name}: {file.stat().st_size} bytes; a transcript has {LONGEST} at most")
        return ThreatTranscript.read(file)
    except (Ad2Error, OSError) as exc:
        problems.append(f"its transcript cannot be read: {str(exc).replace(str(file.parent), 'transcripts')}")
        return None
