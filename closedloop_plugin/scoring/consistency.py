"""Records whose scores contradict each other: they are scored as the file says, and named.

    score_composed != max(score_route x score_penalty, 0)
    score_penalty  != product (or, leaderboard-2.1: 1 / (1 + sum)) of the listed infractions, under the profile

Only differences above the rounding of the file count: its figures have d decimals (the most that a record of the file
shows, at least 3), percentages in lane and speed messages 2. A record without a drive, whose three scores are the
format's initial 0, is not checked; with listed infractions it is named as unchecked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.scoring.driving import composed, lane_percents, penalty_of, percents
from closedloop_plugin.scoring.official_record import SCORES, OfficialRecord
from lmms_eval_ad2.report.table import few

FEWEST_DECIMALS, MOST_DECIMALS = 3, 6  # of scores; the official script writes 6
MOST_NAMED = 10  # inconsistent scores or routes in a note
_MESSAGE_SHARE = 0.005 / 100  # rounding of a percentage with two decimals, as a share


@dataclass(frozen=True)
class InconsistentScore:
    """One contradiction. `field`: score_composed or score_penalty; `basis`: what `expected` was computed from."""

    route: str
    repetition: int
    field: str
    found: float
    expected: float
    basis: str

    def __str__(self) -> str:
        label = f"route {self.route}" + (f" rep {self.repetition}" if self.repetition else "")
        return f"{label}: {self.field} is {self.found:.6g}, {self.basis} is {self.expected:.6g}"


@dataclass(frozen=True)
class ConsistencyCheck:
    """Result of `check`. `unchecked`: reason -> routes of which a part could not be checked."""

    inconsistent: tuple[InconsistentScore, ...]
    unchecked: Mapping[str, tuple[str, ...]]

    @property
    def routes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(found.route for found in self.inconsistent))

    def notes(self) -> list[str]:
        """What was found, one sentence each; empty if all was checked and agrees."""
        lines = []
        if self.inconsistent:
            named = "; ".join(map(str, self.inconsistent[:MOST_NAMED]))
            left = len(self.inconsistent) - MOST_NAMED
            more = f"; and {left} more, see --json" if left > 0 else ""
            text = f"{len(self.routes)} route(s) with inconsistent scores, counted as the file says: {named}{more}"
            lines.append(text)
        for reason, routes in self.unchecked.items():
            named = few(routes, MOST_NAMED)
            lines.append(f"{len(routes)} record(s) {reason}: their scores are not checked: {named}")
        return lines


def check(records: Sequence[OfficialRecord], profile: Profile) -> ConsistencyCheck:
    """Check every record; the profile's factors are those of the penalty."""
    by_file = defaultdict(list)
    for record in records:
        by_file[record.file].append(record)
    decimals = {file: {name: _decimals(of_file, name) for name in SCORES} for file, of_file in by_file.items()}
    found: list[InconsistentScore] = []
    unchecked: dict[str, list[str]] = {}
    for record in records:
        if all(getattr(record, name) == 0.0 for name in SCORES):  # no drive
            if any(record.infractions.values()):
                unchecked.setdefault("with infractions but three scores of 0", []).append(record.route_id)
            continue
        slack = {name: 0.5 * 10.0**-n for name, n in decimals[record.file].items()}
        for contradiction in (_composed(record, slack), _penalty(record, slack, profile)):
            if isinstance(contradiction, InconsistentScore):
                found.append(contradiction)
            elif contradiction:
                unchecked.setdefault(contradiction, []).append(record.route_id)
    return ConsistencyCheck(tuple(found), {reason: tuple(routes) for reason, routes in unchecked.items()})


def _decimals(records: Sequence[OfficialRecord], name: str) -> int:
    values = [value for record in records if (value := getattr(record, name)) is not None]
    most = max((len(f"{value:.{MOST_DECIMALS}f}".rstrip("0").partition(".")[2]) for value in values), default=0)
    return max(most, FEWEST_DECIMALS)


def _composed(record: OfficialRecord, slack: Mapping[str, float]) -> InconsistentScore | str:
    """The contradiction, the reason for which there is no check, or ""."""
    route, penalty, score = record.score_route, record.score_penalty, record.score_composed
    if route is None or penalty is None or score is None:
        return f"without {', '.join(name for name in SCORES if getattr(record, name) is None)}"
    expected = composed(route, penalty)
    rounding = slack["score_composed"] + route * slack["score_penalty"] + penalty * slack["score_route"]
    if abs(expected - score) <= rounding + 1e-9:
        return ""
    basis = f"score_route x score_penalty = {route:.6g} x {penalty:.6g}"
    return InconsistentScore(record.route_id, record.repetition, "score_composed", score, expected, basis)


def _penalty(record: OfficialRecord, slack: Mapping[str, float], profile: Profile) -> InconsistentScore | str:
    """Like `_composed`, for score_penalty."""
    if record.score_penalty is None:
        return ""  # `_composed` reports it
    if "infractions" in record.gaps:
        return "without infractions"
    lanes, speeds = record.infractions["outside_route_lanes"], record.infractions["min_speed_infractions"]
    if len(lane_percents(lanes)) < len(lanes):
        return "with a lane message without a percentage"
    if _speed_costs(profile) and len(percents(speeds)) < len(speeds):
        return "with a speed message without a percentage"
    expected = penalty_of(record.infractions, profile.penalties)
    counted = len(lanes) + (len(speeds) if _speed_costs(profile) else 0)
    if abs(expected - record.score_penalty) <= slack["score_penalty"] + counted * _MESSAGE_SHARE + 1e-9:
        return ""
    basis = f"the penalty of its infractions ({_listed(record, profile)}) under profile {profile.name}"
    return InconsistentScore(record.route_id, record.repetition, "score_penalty", record.score_penalty, expected, basis)


def _speed_costs(profile: Profile) -> bool:
    """Whether a minimum speed infraction costs anything."""
    p = profile.penalties
    return p.min_speed_infractions != (0.0 if p.rule == "additive" else 1.0)


def _listed(record: OfficialRecord, profile: Profile) -> str:
    """ "collisions_vehicle x 2, outside_route_lanes 3.37 %": the infractions that can cost something."""
    free = {"route_dev", "vehicle_blocked", "route_timeout", "outside_route_lanes"}
    if not _speed_costs(profile):
        free.add("min_speed_infractions")
    named = [f"{name} x {len(texts)}" for name, texts in record.infractions.items() if texts and name not in free]
    lanes = lane_percents(record.infractions["outside_route_lanes"])
    named += [f"outside_route_lanes {percent:g} %" for percent in lanes]
    return ", ".join(named) or "none"
