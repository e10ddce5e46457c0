"""One table of triggers: which behaviour what the target did calls for, and the numbers with which it is dangerous.

Every threat acts as late as an attentive driver just survives. Its first trigger leaves a driver at the target's
measured speed v the time to brake:

    t = EXPERT_S + v_c^2 / (2 a v) + takes_s      v_c: speed at which it closes in, a: DECEL

Earlier results bracket it: triggers with which the expert failed the check are too late, those that the target survived
too early. The next one lies between them, else one STEP beyond.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from closedloop_plugin.threats.driven.summary import DriveSummary
from closedloop_plugin.threats.fuser.slots import ThreatSlot
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    ON_FOOT,
    RULES,
    SPEED,
    STAY,
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    AdversarySide,
    Occluder,
    ParameterRange,
)
from closedloop_plugin.threats.templates.crossing import waiting_offset

Pair = tuple[float, float]
EXPERT_S, DECEL = 0.35, 4.5  # s, m/s2: reaction and deceleration of an attentive driver
STEP, WIDTH = 0.4, 0.3  # s: between tries, and of the range of a trigger
LEAST, MOST = 0.5, 7.0  # s
SPAN = 6.0  # m: range of the distance around the place
MOTORWAY = 20.0  # m/s: a higher speed limit


@dataclass(frozen=True)
class BehaviourTrigger:
    """One behaviour: when the rules choose it, and its numbers.

    `points`: how often the expert survives it and an imperfect driver does not, by drives of `late` and of the expert
    with decisions 0.35 s late in the embedded simulator. `infractions`: those of the standard drive that call for it.
    `expected`: words of a prediction that expects it, and what it says nothing of otherwise. `takes_s`: what it takes
    before it is in the way. `speed`: of the speed limit. `later`: it is harder if it begins later. `covers`: those that
    hide the adversary until it acts.
    """

    points: float
    expected: tuple[str, str]
    infractions: tuple[str, ...] = ()
    takes_s: float = 0.0
    speed: Pair = (0.0, 0.0)
    stays_s: Pair = (0.0, 0.0)
    later: bool = True
    covers: tuple[Occluder, ...] = (Occluder.NONE,)

    def is_expected(self, prediction: str) -> bool:
        return re.search(rf"(?i)\b(?:{self.expected[1]})\b", prediction) is not None


_B = AdversaryBehaviour
_VEHICLES = (Occluder.VAN, Occluder.TRUCK, Occluder.BUS)
TRIGGERS: Mapping[AdversaryBehaviour, BehaviourTrigger] = {
    _B.CUT_IN: BehaviourTrigger(
        1.6, ("somebody moving into its lane", r"cut\w*[- ]in|merg\w+|chang\w+ lanes?|lane changes?|pull\w* out"),
        ("collisions_vehicle",), takes_s=1.0, speed=(0.28, 0.45),
    ),
    _B.BRAKE_HARD: BehaviourTrigger(
        0.2, ("somebody braking", r"brak\w+|decelerat\w+|stops? suddenly"),
        ("collisions_vehicle",), takes_s=0.3, stays_s=(3.0, 7.0),
    ),
    _B.SLOW_AHEAD: BehaviourTrigger(
        -0.6, ("somebody going slowly", r"slow\w*|crawl\w*"),
        takes_s=0.8, speed=(0.12, 0.3), stays_s=(5.0, 11.0), later=False,
    ),
    _B.CROSS: BehaviourTrigger(
        2.2, ("somebody crossing", r"cross(?:es|ing)?|steps? (?:out|into|onto)|runs? (?:out|into)|walks? into"),
        ("collisions_pedestrian",), covers=_VEHICLES,
    ),
    _B.RUN_LIGHT: BehaviourTrigger(
        0.6, ("crossing traffic", r"junctions?|intersections?|cross(?:ing)? traffic|side roads?|right of way"),
        ("collisions_vehicle", "red_light", "stop_infraction"), takes_s=1.0, speed=(0.45, 0.75),
    ),
    _B.TURN_ACROSS: BehaviourTrigger(
        0.0, ("somebody turning across its way", r"turn\w* (?:across|left|in front)|turning \w+"),
        ("stop_infraction",), takes_s=0.9, speed=(0.3, 0.55),
    ),
    _B.ONCOMING: BehaviourTrigger(
        0.8, ("oncoming traffic", r"oncoming|opposite (?:lane|direction|side)|head-on|opposing"),
        ("outside_route_lanes",), takes_s=1.3, speed=(0.35, 0.6),
    ),
    _B.OPEN_DOOR: BehaviourTrigger(
        0.6, ("doors that open", r"doors?"),
        ("collisions_layout", "vehicle_blocked"), stays_s=(4.0, 10.0),
    ),
    _B.BLOCK: BehaviourTrigger(
        0.8, ("somebody standing in its lane", r"stationary|standing|stopped|stalled|stands|block\w*"),
        ("collisions_layout", "vehicle_blocked", "scenario_timeouts"), takes_s=0.3, stays_s=(6.0, 14.0),
    ),
    _B.TAILGATE: BehaviourTrigger(
        -0.8, ("traffic from behind", r"behind|rear|mirrors?|tailgat\w+"), takes_s=1.0, later=False
    ),
    _B.HIDDEN_STOP: BehaviourTrigger(
        0.2, ("places that it cannot see into", r"occlu\w+|hidden|hid\w*|obscur\w+|blind spots?|out of sight"),
        ("collisions_vehicle",), takes_s=0.3, speed=(0.4, 0.6), stays_s=(5.0, 12.0), later=False, covers=_VEHICLES,
    ),
    _B.EMERGENCY_PASS: BehaviourTrigger(
        1.5, ("emergency vehicles", r"emergency|ambulances?|police|fire ?(?:trucks?|engines?)|sirens?"),
        ("yield_emergency_vehicle_infractions",), takes_s=1.0, speed=(0.95, 1.15), later=False,
    ),
}  # fmt: skip
# Speeds in m/s that do not depend on the road.
OWN_SPEED: Mapping[Adversary, Pair] = {
    Adversary.PEDESTRIAN: (1.2, 2.2),
    Adversary.CHILD: (1.7, 3.0),
    Adversary.ANIMAL: (2.0, 4.5),
    Adversary.BICYCLE: (2.5, 5.0),
}
FROM_STANDSTILL: Pair = (3.0, 5.0)  # m/s: cut-in from a parking place


@dataclass(frozen=True)
class DrivenPlace:
    """Where on a slot's road the target drives fastest: `ahead_m` as in ThreatPlace, s, and its speed there (m/s)."""

    ahead_m: float
    s: float
    speed: float


def driven_place(slot: ThreatSlot, site: ThreatSite, drive: DriveSummary) -> DrivenPlace | None:
    """None if the target never got to any place of the slot. Its rooms are looked at every 2 m."""
    origin, found = slot.origin(site), []
    for low, high in slot.rooms:
        for k in range(int((high - low) / 2.0 + 1e-6) + 1):
            ahead = low + 2.0 * k
            speed = drive.speed_at(origin + ahead)
            if speed is not None:
                found.append(DrivenPlace(round(ahead, 1), round(origin + ahead, 1), round(speed, 1)))
    return max(found, key=lambda p: (p.speed, -p.s)) if found else None


@dataclass(frozen=True)
class TriggerBracket:
    """Lower ends of the triggers (s) of one threat that were too late for the expert, and too early for the target.

    `idle`: number of attempts that never acted: the ego was past the place.
    """

    too_late: tuple[float, ...] = ()
    too_early: tuple[float, ...] = ()
    idle: int = 0

    def next(self, first: float) -> float:
        """The next trigger; `first` without earlier results."""
        if self.too_late and self.too_early:
            return (max(self.too_late) + min(self.too_early)) / 2
        if self.too_late:
            return max(self.too_late) + STEP
        return min(self.too_early) - STEP if self.too_early else first + 2 * STEP * self.idle


def numbers(
    slot: ThreatSlot,
    adversary: Adversary,
    occluder: Occluder,
    site: ThreatSite,
    *,
    place: DrivenPlace | None,
    bracket: TriggerBracket,
    milder: int,
) -> dict[str, Any]:
    """`ahead_m`, `trigger` and the other numbers that the behaviour needs, as arguments of ThreatSpec.

    `milder`: number of attempts that the expert did not survive.
    """
    row, needs = TRIGGERS[slot.behaviour], RULES[slot.behaviour].numbers
    found: dict[str, Any] = {"ahead_m": _around(slot, place)}
    if "stays_s" in needs:
        low, high = row.stays_s
        found["stays_s"] = _range(low, max(high - 1.5 * milder, low + 1.0), STAY)
    if slot.behaviour is AdversaryBehaviour.CROSS:
        return {**found, **_crossing(slot, adversary, occluder, site, bracket)}
    if "speed_mps" in needs:
        found["speed_mps"] = _speed(slot, adversary, site.speed_limit, milder)
    speed = max(place.speed if place else 0.6 * site.speed_limit, 2.0)
    ahead = found["speed_mps"].middle if slot.behaviour in (_B.CUT_IN, _B.SLOW_AHEAD) else 0.0
    closing = max(speed - ahead, 0.5 * speed)
    low = min(max(bracket.next(EXPERT_S + closing**2 / (2 * DECEL * speed) + row.takes_s), LEAST), MOST)
    return {**found, "trigger": {"kind": "time", "value": _range(low, low + WIDTH)}}


def _crossing(
    slot: ThreatSlot, adversary: Adversary, occluder: Occluder, site: ThreatSite, bracket: TriggerBracket
) -> dict[str, Any]:
    """A crossing that meets the ego: the later it starts, the faster it must be.

    From rest with a = 6 m/s2 to pace p over `way`: t = way / p + p / 12, so p = 6 (t - sqrt(t^2 - way / 3)).
    """
    lanes = site.right if slot.side is AdversarySide.RIGHT else site.left + site.oncoming
    way = site.lane_width * (0.5 + lanes) + waiting_offset(slot.lane, occluder)
    (slowest, usual), fastest = OWN_SPEED[adversary], ON_FOOT[adversary] * 0.95
    first, shortest, longest = (way / pace + pace / 12 for pace in (usual, fastest, slowest))
    seconds = min(max(bracket.next(first - WIDTH) + WIDTH, shortest), longest, MOST)
    pace = 6 * (seconds - math.sqrt(max(seconds**2 - way / 3, 0.0)))
    pace = min(max(pace, slowest), fastest)
    low = max(seconds - WIDTH, LEAST)
    return {
        "speed_mps": _range(0.95 * pace, min(1.05 * pace, ON_FOOT[adversary])),
        "trigger": {"kind": "time", "value": _range(low, seconds + 0.1)},
    }


def _speed(slot: ThreatSlot, adversary: Adversary, speed_limit: float, milder: int) -> ParameterRange:
    if slot.behaviour is _B.CUT_IN and slot.lane is AdversaryLane.ROADSIDE:
        low, high = FROM_STANDSTILL
    elif adversary in OWN_SPEED and slot.behaviour is not _B.HIDDEN_STOP:
        low, high = OWN_SPEED[adversary]
        high += 1.5 * (adversary is Adversary.BICYCLE and speed_limit > MOTORWAY)
    else:
        low, high = (share * speed_limit for share in TRIGGERS[slot.behaviour].speed)
    # A vehicle ahead is milder if it is faster.
    gentle = 0.85 ** (-milder if slot.behaviour in (_B.CUT_IN, _B.SLOW_AHEAD, _B.HIDDEN_STOP) else milder)
    return _range(low * gentle, high * gentle, SPEED)


def _around(slot: ThreatSlot, place: DrivenPlace | None) -> ParameterRange:
    """A range of `ahead_m` that begins at the place, within its room; without a place in the largest room."""
    low, high = max(slot.rooms, key=lambda room: (room[1] - room[0], room[1]))
    if place is not None:
        low, high = next((a, b) for a, b in slot.rooms if a - 0.1 <= place.ahead_m <= b + 0.1)
    if high - low < 0.2:  # within a junction, where it has no meaning
        return ParameterRange(low=low, high=low)
    # Shrunk by 0.05 m before rounding: site.fit compares with the unrounded room.
    start = max(min(place.ahead_m if place else low, high - SPAN), low) + 0.05
    return _range(start, min(start + SPAN, high - 0.05), digits=1)


def _range(low: float, high: float, limits: Pair = (-math.inf, math.inf), digits: int = 2) -> ParameterRange:
    low, high = (round(min(max(value, limits[0]), limits[1]), digits) for value in (low, high))
    if low == high and limits[1] - limits[0] < math.inf:
        low = max(limits[0], high - 1.0)
    return ParameterRange(low=low, high=high)
