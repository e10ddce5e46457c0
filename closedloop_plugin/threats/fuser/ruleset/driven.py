"""Evidence from the target's drives: its speed where a threat could act, infractions and outcomes.

Points are added to a candidate's; each hit has the measured figure as its reason. They weigh more than words that an
answer leaves out (candidates.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from closedloop_plugin.threats.driven.summary import DriveSummary
from closedloop_plugin.threats.fuser.slots import ThreatSlot
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    AdversaryBehaviour,
    AdversaryLane,
    RoadKind,
    TargetWeakness,
)
from closedloop_plugin.threats.transcript import InterviewMoment, ThreatAttempt, ThreatTranscript

# Points.
DONE = 1.5  # an infraction of this kind on the standard route
FAST = 1.2  # drives at the speed limit where the threat acts; less in proportion
ABSENT = -3.0  # never gets there
# Infraction on the standard route -> behaviours that provoke it.
PROVOKES: Mapping[str, frozenset[AdversaryBehaviour]] = {
    "collisions_pedestrian": frozenset({AdversaryBehaviour.CROSS}),
    "collisions_vehicle": frozenset(
        {AdversaryBehaviour.BRAKE_HARD, AdversaryBehaviour.CUT_IN, AdversaryBehaviour.HIDDEN_STOP,
         AdversaryBehaviour.RUN_LIGHT}
    ),
    "collisions_layout": frozenset({AdversaryBehaviour.BLOCK, AdversaryBehaviour.OPEN_DOOR}),
    "red_light": frozenset({AdversaryBehaviour.RUN_LIGHT}),
    "stop_infraction": frozenset({AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS}),
    "outside_route_lanes": frozenset({AdversaryBehaviour.ONCOMING}),
    "vehicle_blocked": frozenset({AdversaryBehaviour.BLOCK, AdversaryBehaviour.OPEN_DOOR}),
    "scenario_timeouts": frozenset({AdversaryBehaviour.BLOCK}),
    "yield_emergency_vehicle_infractions": frozenset({AdversaryBehaviour.EMERGENCY_PASS}),
}  # fmt: skip


@dataclass(frozen=True)
class CandidateReason:
    """A gap in an answer, or a fact of a drive. `points` may be negative; `why` is "" if it is no weakness."""

    stage: TargetWeakness
    points: float
    why: str


@dataclass(frozen=True)
class DrivenPlace:
    """Where on a slot's road the target drives fastest: `ahead_m` as in ThreatPlace, s, and its speed there (m/s)."""

    ahead_m: float
    s: float
    speed: float


@dataclass(frozen=True)
class DrivenEvidence:
    """What the target did. `survived`: its drives of earlier scenarios of this route, in order."""

    drive: DriveSummary
    survived: Sequence[ThreatAttempt] = ()

    def place(self, slot: ThreatSlot, site: ThreatSite) -> DrivenPlace | None:
        """The place of the slot where it drove fastest; None if it never got to any."""
        origin = origin_of(slot, site)
        found = []
        for low, high in slot.rooms:
            ahead = low
            while ahead <= high + 1e-6:
                speed = self.drive.speed_at(origin + ahead)
                if speed is not None:
                    found.append(DrivenPlace(round(ahead, 1), round(origin + ahead, 1), round(speed, 1)))
                ahead += 2.0
        return max(found, key=lambda p: (p.speed, -p.s)) if found else None


def evidence_of(transcript: ThreatTranscript) -> DrivenEvidence | None:
    """The evidence; None if the interview has no drive (a transcript of an earlier version)."""
    if transcript.interview.drive is None:
        return None
    return DrivenEvidence(transcript.interview.drive, [a for a in transcript.attempts if a.survived])


def origin_of(slot: ThreatSlot, site: ThreatSite) -> float:
    """s (m) from which the slot's `ahead_m` is measured; within a junction its begin, less the constant `ahead_m`."""
    if slot.road is RoadKind.OPEN or site.crossing is None:
        return site.trigger_s
    return site.crossing[0] - slot.rooms[0][0] if slot.lane is AdversaryLane.CROSSING_ROAD else site.crossing[1]


def slot_hits(slot: ThreatSlot, site: ThreatSite, evidence: DrivenEvidence) -> Iterator[CandidateReason]:
    """Reasons for and against every threat at a slot, each with its figure."""
    yield from _speed_hits(slot, site, evidence)
    for infraction in evidence.drive.infractions:
        if slot.behaviour in PROVOKES.get(infraction.kind, ()):
            place = "" if infraction.s is None else f", s={infraction.s:.0f} m"
            when = "" if infraction.time_s is None else f" at {infraction.time_s:.1f} s{place}"
            text = f"On its drive of the standard route: {infraction.kind.replace('_', ' ')}{when}."
            yield CandidateReason(TargetWeakness.PLANNING, DONE, text)
            return


def _speed_hits(slot: ThreatSlot, site: ThreatSite, evidence: DrivenEvidence) -> Iterator[CandidateReason]:
    place = evidence.place(slot, site)
    if place is None:
        yield CandidateReason(TargetWeakness.PLANNING, ABSENT, "")
        return
    share = min(place.speed / max(site.speed_limit, 1.0), 1.0)
    braked = _braked(evidence.drive, place.s)
    why = f"It drove {place.speed:.1f} m/s at s={place.s:.0f} m{braked}."
    yield CandidateReason(TargetWeakness.PLANNING, FAST * share, why)


def _braked(drive: DriveSummary, s: float) -> str:
    """When it first slowed down clearly after `s`, as a clause."""
    after = [(t, v) for t, at, v in drive.profile if at >= s]
    if not after:
        return ""
    begin, speed = after[0]
    slower = next((t for t, v in after if v < speed - 1.0), None)
    return " and did not slow down after it" if slower is None else f" and slowed down {slower - begin:.1f} s later"


def figures_at(moment: InterviewMoment) -> str:
    """Time, place and speed of a moment in words."""
    return f"{moment.time_s:.1f} s, {moment.s:.0f} m on its route, {moment.speed:.1f} m/s"
