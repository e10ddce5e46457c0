"""Robustness rho of an episode: smaller is closer to failure, negative is a failure.

    failed       in [-1, -0.05]: -(1 - Driving Score / 100), or -(1 - penalty) if the program ended itself; at most -0.5
                 with a collision. A tenth of that if the standard scenario plays under the program and no body of the
                 program is involved (scoring/failure_cause.py): the driver may fail so whatever the program does, and
                 a search shall prefer what the program causes
    not failed   in (0, 1], by objective, each term clipped to [0.01, 1]:
        ttc       smallest time to collision / 4 s
        gap       smallest distance to another actor / 5 m
        progress  min(share of the route driven, mean speed along the route / 5 m/s); only the latter if the program
                  ended itself
        all       mean of the three

The mean rather than the minimum, which is usual for conjunctions: a term that is small in every run, for example on a
road past parked cars, would hide the others.

Failure is defined by the official rules (EpisodeRecord.unharmed); min_speed_infractions alone are no failure, nor is a
program that ended itself before the end of the route without an infraction. An episode that could not be driven
(rejected scene, failed world, silent agent) has no robustness: None, which is counted, but not as success or failure.
"""

from __future__ import annotations

from statistics import fmean

from closedloop_plugin.core.record import PROGRAM_ENDED, EpisodeRecord
from closedloop_plugin.core.state import FAILED
from closedloop_plugin.scoring.failure_cause import cause_of

TTC_S, GAP_M, PACE = 4.0, 5.0, 5.0  # s, m, m/s: values at which a term reaches 1
OTHERWISE = 0.1  # factor of a failure on top of a standard scenario, in which no body of the program is involved
LEAST = 0.01  # lower limit of a term: positive, because 0 is the border of failure
COLLISIONS = ("collisions_layout", "collisions_pedestrian", "collisions_vehicle")


def scored(record: EpisodeRecord) -> bool:
    """Whether the episode is a valid drive."""
    return record.end not in FAILED


def failed(record: EpisodeRecord) -> bool:
    """Whether the driver failed; defined for scored episodes only."""
    return not record.unharmed


def robustness(record: EpisodeRecord, objective: str = "all") -> float | None:
    """Robustness in [-1, 1]; None if the episode could not be scored."""
    if not scored(record):
        return None
    ended = record.status == PROGRAM_ENDED  # the remaining route is then not the driver's fault
    if failed(record):
        lost = 1.0 - (record.score_penalty if ended else record.score_composed / 100.0)
        hit = any(record.infractions[name] for name in COLLISIONS)
        cause = cause_of(record)
        factor = OTHERWISE if record.world.get("standard") == "kept" and cause and not cause.by_threat else 1.0
        return -min(max(lost, 0.5 if hit else 0.05), 1.0) * factor
    share, progress = record.score_route / 100.0, 1.0
    if record.game_s > 0.0:
        pace = _term(share * record.route_length_m / record.game_s, PACE)
        progress = pace if ended else min(share, pace)
    ttc, gap = _term(record.margins.get("min_ttc_s"), TTC_S), _term(record.margins.get("min_gap_m"), GAP_M)
    return {"all": fmean((ttc, gap, progress)), "ttc": ttc, "gap": gap, "progress": progress}[objective]


def closeness(ttc_s: float | None, gap_m: float | None) -> float:
    """Mean of the terms ttc and gap, in (0, 1]."""
    return fmean((_term(ttc_s, TTC_S), _term(gap_m, GAP_M)))


def _term(value: float | None, enough: float) -> float:
    """value / enough, clipped to [LEAST, 1]; 1 for None (no other actor, or no collision course)."""
    return 1.0 if value is None else min(max(value / enough, LEAST), 1.0)
