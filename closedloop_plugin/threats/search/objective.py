"""Robustness of an episode: one number, smaller is nearer to failing, below 0 it failed.

    failed       in [-1, -0.05]: minus what the Driving Score lacks of 100 %; a collision is -0.5 or worse
    not failed   in (0, 1], by the objective:
        ttc       least time to collision; 1 at 4 s and more
        gap       least distance to anybody: how far it was from the infraction; 1 at 5 m and more
        progress  the route's share that was driven, in time: 1 at 5 m/s on average and more (of a program that ended
                  itself before the route's end: the time alone)
        all       the mean of the three

The mean, where a robustness of several demands usually is their least: a term that is small in every run, because the
road leads past parked cars, would hide what the others have to tell.

Failed is what the official rules call so (EpisodeRecord.success); min_speed_infractions alone are no failure. A program
that ended itself before the car was through, and nothing had happened, is none either. An episode that could not be
driven (rejected scene, dead world, silent agent) has no robustness: None, counted, never a success or a failure.
"""

from __future__ import annotations

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.episode import PROGRAM_ENDED, unharmed
from closedloop_plugin.runner.run import FAILED
from lmms_eval_ad2.errors import Ad2Error

OBJECTIVES = ("all", "ttc", "gap", "progress")
TTC_S, GAP_M, PACE = 4.0, 5.0, 5.0  # s, m, m/s: from there on nothing was near
LEAST = 0.01  # of a term: above 0, which is the border
COLLISIONS = ("collisions_layout", "collisions_pedestrian", "collisions_vehicle")


def scored(record: EpisodeRecord) -> bool:
    """Whether the episode says anything of the driver."""
    return record.end not in FAILED


def failed(record: EpisodeRecord) -> bool:
    """Whether the driver failed; only of an episode that is scored."""
    return not unharmed(record)


def robustness(record: EpisodeRecord, objective: str = "all") -> float | None:
    """In [-1, 1]; None: the episode could not be scored."""
    if objective not in OBJECTIVES:
        raise Ad2Error(f"--objective {objective}: expected one of {', '.join(OBJECTIVES)}")
    if not scored(record):
        return None
    if failed(record):
        ended = record.status == PROGRAM_ENDED  # no car is to blame for the way that was left then
        lacks = 1.0 - (record.score_penalty if ended else record.score_composed / 100.0)
        hit = any(record.infractions[name] for name in COLLISIONS)
        return -min(max(lacks, 0.5 if hit else 0.05), 1.0)
    terms = {"ttc": _ttc(record), "gap": _gap(record), "progress": _progress(record)}
    return terms[objective] if objective != "all" else sum(terms.values()) / len(terms)


def _ttc(record: EpisodeRecord) -> float:
    return _term(record.margins.get("min_ttc_s"), TTC_S)


def _gap(record: EpisodeRecord) -> float:
    return _term(record.margins.get("min_gap_m"), GAP_M)


def _progress(record: EpisodeRecord) -> float:
    share = record.score_route / 100.0
    if record.game_s <= 0.0:
        return 1.0
    pace = _term(share * record.route_length_m / record.game_s, PACE)
    return pace if record.status == PROGRAM_ENDED else min(share, pace)


def _term(value: float | None, enough: float) -> float:
    """In [LEAST, 1]; None: there was nobody, or never a course that meets."""
    return 1.0 if value is None else min(max(value / enough, LEAST), 1.0)
