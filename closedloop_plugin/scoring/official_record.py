"""A record of an official result file, from Bench2Drive or from this package.

    {"route_id": "RouteScenario_4937_rep0", "scenario_name": "ParkingCutIn_1", "status", "town_name", "save_name",
     "infractions": {name: [message]}, "scores": {"score_route", "score_penalty", "score_composed"}, "meta": {...}}

Our records add "ad2": {"origin": {backend, suite, profile, ...}, "version", "comfort", "junctions_passed",
"experimental", ...}. Missing keys are tolerated and listed in `gaps`; a value of a wrong type raises DataError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.core.state import EpisodeFault
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_bounded

DONE = ("Completed", "Perfect")
# Statuses of episodes without a valid drive: a crash, or a run that was interrupted.
CRASHED = ("Simulation crashed", "Agent couldn't be set up", "Agent crashed", "sensors were invalid", "Started")

REPLACED = "their programs replaced the standard scenarios, by whose types abilities are grouped"  # why no ability

_ROUTE_ID = re.compile(r"RouteScenario_(?:(.+)_rep([0-9]{1,9})|([0-9]{1,9}))")  # the second form: leaderboard 1
_NUMBERED = re.compile(r"(.+)_\d+")  # ParkingCutIn_1
SCORES = ("score_route", "score_penalty", "score_composed")


@dataclass(frozen=True)
class OfficialRecord:
    """The data of one episode that the scores need. Scores in percent, penalty as a factor; None if not in the file."""

    route_id: str
    repetition: int
    scenario: str  # type, from scenario_name without its number
    scenario_name: str
    town: str
    status: str
    infractions: Mapping[str, tuple[str, ...]]
    score_route: float | None
    score_penalty: float | None
    score_composed: float | None
    meta: Mapping[str, float] = field(default_factory=dict)  # route_length m, duration_game s, duration_system s
    save_name: str = ""
    gaps: tuple[str, ...] = ()  # missing keys: "status", "infractions", "scores.score_route" ...
    source: str = ""  # file and record number
    # Only in our records:
    origin: Mapping[str, Any] = field(default_factory=dict)  # backend, suite, profile, waiting, agent, interpreter
    version: str = ""  # versions of world and package
    comfort: Mapping[str, Any] = field(default_factory=dict)  # see MetricLog.comfort
    junctions_passed: int | None = None
    experimental: bool = False  # the map's topology is uncertain: excluded from headline means
    replaced: bool = False  # a program took the place of the standard scenario: tests no ability
    fault: str = ""  # what kept the episode from being driven (core.state.EpisodeFault): excluded from all means
    reason: str = ""  # of the fault
    not_played: Mapping[str, str] = field(default_factory=dict)  # reasons by scenario of its route that was left out

    @property
    def key(self) -> tuple[str, int]:
        return self.route_id, self.repetition

    @property
    def file(self) -> str:
        """The file that it was read from."""
        return self.source.rpartition(", record ")[0]

    @property
    def score(self) -> float:
        """score_composed; route x penalty if only these are known; otherwise 0."""
        if self.score_composed is not None:
            return max(self.score_composed, 0.0)
        if self.score_route is None or self.score_penalty is None:
            return 0.0
        return round(max(self.score_route * self.score_penalty, 0.0), 6)

    @property
    def success(self) -> bool:
        """Whether the route was completed without infractions other than minimum speed. False without "infractions"."""
        clean = all(not texts for name, texts in self.infractions.items() if name != "min_speed_infractions")
        return self.status in DONE and clean and "infractions" not in self.gaps

    @property
    def tests_ability(self) -> bool:
        """Whether the scenario of its route, by whose type abilities are grouped, was played."""
        return not self.replaced and not self.not_played

    @property
    def crashed(self) -> bool:
        return any(word in self.status for word in CRASHED)


def parse_record(raw: Any, file: object, row: int | str) -> OfficialRecord:
    """Parse one element of "records". Raises DataError with file, record and field."""
    if not isinstance(raw, dict):
        raise DataError(file, row, "record", "an object", raw)
    route_id, repetition = _route_id(raw.get("route_id"), file, row)
    gaps: list[str] = []

    def text(name: str) -> str:
        value = raw.get(name)
        if value is None:
            gaps.append(name)
            return ""
        if not isinstance(value, str):
            raise DataError(file, row, name, "a text", value)
        return value

    name = text("scenario_name")
    numbered = _NUMBERED.fullmatch(name)
    scores = _table(raw, "scores", file, row, gaps)
    score_route, score_penalty, score_composed = (_score(scores, key, file, row, gaps) for key in SCORES)
    return OfficialRecord(
        route_id=route_id,
        repetition=repetition,
        scenario=numbered.group(1) if numbered else name,
        scenario_name=name,
        town=text("town_name"),
        status=text("status"),
        infractions=_infractions(raw, file, row, gaps),
        score_route=score_route,
        score_penalty=score_penalty,
        score_composed=score_composed,
        meta={k: float(v) for k, v in _table(raw, "meta", file, row, gaps).items() if is_bounded(v)},
        save_name=text("save_name"),
        gaps=tuple(gaps),
        source=f"{file}, record {row}",
        **_ours(raw.get("ad2"), file, row),
    )


def numbered(route_id: str) -> bool:
    """Whether a valid route_id names its repetition; those of leaderboard 1 do not."""
    match = _ROUTE_ID.fullmatch(route_id)
    return match is not None and match.group(2) is not None


def _route_id(value: Any, file: object, row: int | str) -> tuple[str, int]:
    match = _ROUTE_ID.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise DataError(file, row, "route_id", "a text like RouteScenario_4937_rep0", value)
    return match.group(1) or match.group(3), int(match.group(2) or 0)


def _table(raw: Mapping[str, Any], name: str, file: object, row: int | str, gaps: list[str]) -> Mapping[str, Any]:
    value = raw.get(name)
    if value is None:
        gaps.append(name)
        return {}
    if not isinstance(value, dict):
        raise DataError(file, row, name, "an object", value)
    return value


def _score(scores: Mapping[str, Any], name: str, file: object, row: int | str, gaps: list[str]) -> float | None:
    value = scores.get(name)
    if value is None:
        gaps.append(f"scores.{name}")
        return None
    top = 1.0 if name == "score_penalty" else 100.0
    if not is_bounded(value) or not 0 <= value <= top + 1e-6:
        raise DataError(file, row, f"scores.{name}", f"a number from 0 to {top:g}", value)
    return float(value)


def _infractions(raw: Mapping[str, Any], file: object, row: int | str, gaps: list[str]) -> dict[str, tuple[str, ...]]:
    """All infraction lists; a missing one is empty (older files have fewer)."""
    found = _table(raw, "infractions", file, row, gaps)
    for name, texts in found.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError(file, row, f"infractions.{name}", "a list of messages", texts)
    return {**dict.fromkeys(INFRACTIONS, ()), **{name: tuple(texts) for name, texts in found.items()}}


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_comfort(value: Any) -> bool:
    return isinstance(value, dict) and all(share is None or is_bounded(share) for share in value.values())


# Field that only our records have -> its default, and what it may hold: in words, and as a test.
_OURS: Mapping[str, tuple[Any, str, Callable[[Any], bool]]] = {
    "origin": (None, "an object of texts", lambda value: _is_texts(value) and bool(value)),
    "comfort": ({}, "an object of numbers", _is_comfort),
    "junctions_passed": (None, "a number of junctions", lambda n: n is None or (isinstance(n, int) and n >= 0)),
    "experimental": (False, "true or false", lambda value: isinstance(value, bool)),
    "replaced": (False, "true or false", lambda value: isinstance(value, bool)),
    "fault": ("", f"one of {', '.join(EpisodeFault)}, or nothing", lambda value: value in ("", *EpisodeFault)),
    "not_played": ({}, "an object of texts", _is_texts),
}


def _ours(raw: Any, file: object, row: int | str) -> dict[str, Any]:
    """The fields that only our records have; {} for other records."""
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise DataError(file, row, "ad2", "an object", raw)
    found = {name: raw.get(name, default) for name, (default, _, _) in _OURS.items()}
    for name, (_, expected, fits) in _OURS.items():
        if not fits(found[name]):
            raise DataError(file, row, f"ad2.{name}", expected, found[name])
    plain = {name: str(raw.get(name, "")) for name in ("fault", "reason", "version")}
    return {**found, **plain}
