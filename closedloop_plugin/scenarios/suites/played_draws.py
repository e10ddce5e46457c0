"""Played draws: for each checked program of a folder, the draw that its check saw survived, from FOLDER/check.json.

A draw is the seed of its scene: the same program, route and seed give the same values, actors and traffic. Without one
(never checked, edited since, failed) a program is played with the seed of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.storage.untrusted_json import load


def json_object(file: Path, expected: str, hint: str = "") -> dict[str, Any]:
    """The JSON object in a file, {} without the file. Raises DataError for other content."""
    if not file.is_file():
        return {}
    try:
        found = load(file)
    except ValueError as exc:
        raise DataError(file, None, "file", "JSON", str(exc), hint) from exc
    if not isinstance(found, dict):
        raise DataError(file, None, "file", expected, found)
    return found


VERDICTS = "check.json"
EXPECTED = "an object of verdicts by scenario"
HINT = "Remove it; ad2 threats check writes it again"


@dataclass(frozen=True)
class PlayedDraw:
    """`seed`: of the scene; `drawn`: values of the free parameters; `alone`: without the standard scenario.

    `world`, `profile`, `version` (of this package): of the check; a run with others plays the same draw, but that was
    not checked.
    """

    seed: int
    drawn: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = True
    world: str = ""
    profile: str = ""
    version: str = ""


def read_verdicts(folder: Path) -> dict[str, dict[str, Any]]:
    """check.json by scenario; {} if there is none. Raises DataError if it is malformed."""
    file = folder / VERDICTS
    found = json_object(file, EXPECTED, HINT)
    if not all(isinstance(v, dict) for v in found.values()):
        raise DataError(file, None, "file", EXPECTED, found)
    return found


def played_draws(folder: Path, shas: Mapping[str, str]) -> dict[str, PlayedDraw]:
    """The played draws of these programs (name -> sha256 of its file). Raises DataError for a malformed check.json."""
    verdicts = read_verdicts(folder)
    return {
        name: _draw(folder / VERDICTS, name, verdict)
        for name, verdict in verdicts.items()
        if verdict.get("passed") is True
        and verdict.get("draw_seed") is not None
        and shas.get(name) == verdict.get("program_sha256")
    }


def _draw(file: Path, name: str, verdict: Mapping[str, Any]) -> PlayedDraw:
    seed, drawn = verdict["draw_seed"], verdict.get("drawn", {})
    if not is_whole(seed, low=0, high=2**31 - 1):
        raise DataError(file, None, f"{name}.draw_seed", "a whole number from 0 to 2147483647", seed, HINT)
    if not isinstance(drawn, dict):
        raise DataError(file, None, f"{name}.drawn", "an object of values by parameter", drawn, HINT)
    facts = {key: str(verdict.get(key, "")) for key in ("world", "profile", "version")}
    return PlayedDraw(seed, drawn, verdict.get("alone") is not False, **facts)
