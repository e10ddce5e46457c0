"""Parameter ranges of rule-based threats: dangerous for an inattentive driver, survivable for an attentive one.

Later attempts are milder or act earlier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from closedloop_plugin.threats.fuser.slots import IN_JUNCTION, ThreatSlot
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    RULES,
    SPEED,
    STAY,
    TRIGGER,
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    AdversarySide,
    Occluder,
    ParameterRange,
    RoadKind,
    ThreatConditions,
)
from closedloop_plugin.threats.templates.crossing import waiting_offset

Pair = tuple[float, float]
FAST = 20.0  # m/s: a higher speed limit counts as a highway
APART = 0.35  # s: largest time difference of adversary and ego at the meeting place
LONGEST_S = 4.5  # s: longest time of a crossing
BY_DISTANCE = 0.25  # share of triggers by distance, on routes without a junction
SPAN = 18.0  # m: length of the range of `ahead_m`, if there is room

# Seconds from the ego to the meeting place when the adversary acts; crossing adversaries: see _meeting.
DUE: Mapping[AdversaryBehaviour, Pair] = {
    AdversaryBehaviour.CUT_IN: (1.4, 2.6),
    AdversaryBehaviour.BRAKE_HARD: (1.5, 3.5),
    AdversaryBehaviour.SLOW_AHEAD: (2.0, 4.5),
    AdversaryBehaviour.RUN_LIGHT: (1.6, 3.6),
    AdversaryBehaviour.TURN_ACROSS: (1.8, 3.8),
    AdversaryBehaviour.ONCOMING: (2.5, 5.0),
    AdversaryBehaviour.OPEN_DOOR: (1.2, 2.8),
    AdversaryBehaviour.BLOCK: (2.0, 4.5),
    AdversaryBehaviour.TAILGATE: (2.0, 4.0),
    AdversaryBehaviour.HIDDEN_STOP: (1.6, 3.2),
    AdversaryBehaviour.EMERGENCY_PASS: (2.0, 4.5),
}
STAYS: Mapping[AdversaryBehaviour, Pair] = {
    AdversaryBehaviour.BRAKE_HARD: (3.0, 7.0),
    AdversaryBehaviour.SLOW_AHEAD: (5.0, 11.0),
    AdversaryBehaviour.OPEN_DOOR: (4.0, 10.0),
    AdversaryBehaviour.BLOCK: (6.0, 14.0),
    AdversaryBehaviour.HIDDEN_STOP: (5.0, 12.0),
}
# Speeds in m/s that do not depend on the road; those of SHARE are relative to the speed limit.
OWN_SPEED: Mapping[Adversary, Pair] = {
    Adversary.PEDESTRIAN: (1.2, 2.2),
    Adversary.CHILD: (1.7, 3.0),
    Adversary.ANIMAL: (2.0, 4.5),
    Adversary.BICYCLE: (2.5, 5.0),
}
SHARE: Mapping[AdversaryBehaviour, Pair] = {
    AdversaryBehaviour.CUT_IN: (0.28, 0.45),
    AdversaryBehaviour.SLOW_AHEAD: (0.12, 0.3),
    AdversaryBehaviour.RUN_LIGHT: (0.45, 0.75),
    AdversaryBehaviour.TURN_ACROSS: (0.3, 0.55),
    AdversaryBehaviour.ONCOMING: (0.35, 0.6),
    AdversaryBehaviour.HIDDEN_STOP: (0.4, 0.6),
    AdversaryBehaviour.EMERGENCY_PASS: (0.95, 1.15),
}
FROM_STANDSTILL: Pair = (3.0, 5.0)  # m/s: cut-in from a parking place
SKIES: Mapping[str, Mapping[str, Pair]] = {
    "fog": {"fog_density": (25, 55), "cloudiness": (60, 90)},
    "rain": {
        "precipitation": (40, 80), "precipitation_deposits": (30, 70), "wetness": (40, 80), "cloudiness": (70, 100),
    },
    "night": {"sun_altitude_angle": (-30, -8)},
    "low sun": {"sun_altitude_angle": (2, 10), "cloudiness": (0, 20)},
}  # fmt: skip


@dataclass(frozen=True)
class ThreatAdjustment:
    """Adjustment after failed attempts: `milder`, number not survived; `sooner`, number that never acted."""

    milder: int = 0
    sooner: int = 0


def numbers(
    slot: ThreatSlot,
    adversary: Adversary,
    occluder: Occluder,
    site: ThreatSite,
    adjustment: ThreatAdjustment,
    rng: Random,
) -> dict[str, Any]:
    """`ahead_m`, `trigger` and the other numbers that the behaviour needs, as arguments of ThreatSpec."""
    expected = 0.6 * site.speed_limit  # m/s, of a careful ego
    found: dict[str, Any] = {"ahead_m": _ahead(slot, expected, adjustment, rng)}
    due = DUE.get(slot.behaviour, (0.0, 0.0))
    needs = RULES[slot.behaviour].numbers
    if "speed_mps" in needs:
        found["speed_mps"] = _speed(slot, adversary, site.speed_limit, adjustment)
        if slot.behaviour is AdversaryBehaviour.CROSS:
            found["speed_mps"], due = _meeting(found["speed_mps"], way_across(slot, occluder, site), rng)
    # By distance only if the ego's speed is predictable: not at junctions, nor for crossings, which need exact timing.
    by_distance = (
        rng.random() < BY_DISTANCE and site.crossing is None and slot.behaviour is not AdversaryBehaviour.CROSS
    )
    found["trigger"] = _trigger(due, expected if by_distance else None, adjustment)
    if "stays_s" in needs:
        low, high = STAYS[slot.behaviour]
        found["stays_s"] = _interval(low, high - 1.5 * adjustment.milder, *STAY)
    return found


def sky(rng: Random) -> ThreatConditions:
    """One moderate change of weather or light."""
    chosen = SKIES[rng.choice(sorted(SKIES))]
    return ThreatConditions(**{name: ParameterRange(low=low, high=high) for name, (low, high) in chosen.items()})


def _ahead(slot: ThreatSlot, expected: float, adjustment: ThreatAdjustment, rng: Random) -> ParameterRange:
    """Range of `ahead_m` within a room, far enough that the ego has accelerated to its `expected` speed (m/s)."""
    if slot.road is RoadKind.JUNCTION and slot.lane is AdversaryLane.CROSSING_ROAD:
        return ParameterRange(low=IN_JUNCTION[0], high=IN_JUNCTION[1])
    low, high = max(slot.rooms, key=lambda room: (min(room[1] - room[0], SPAN), room[1]))
    wanted = 0.0 if slot.road is RoadKind.JUNCTION else min(2.2 * expected, 45.0) * (0.7 if adjustment.sooner else 1.0)
    start = max(low, min(wanted, high - SPAN))
    start += rng.uniform(0.0, max(0.0, min(12.0, high - SPAN - start)))
    # Shrunk by 0.05 m before rounding: site.fit compares with the unrounded room.
    return _interval(start + 0.05, min(start + SPAN, high) - 0.05, low, high, 1)


def way_across(slot: ThreatSlot, occluder: Occluder, site: ThreatSite) -> float:
    """Distance in metres from the crossing adversary's start to the middle of the ego's lane."""
    between = site.right if slot.side is AdversarySide.RIGHT else site.left + site.oncoming
    return site.lane_width * (0.5 + between) + waiting_offset(slot.lane, occluder)


def _meeting(usual: ParameterRange, way: float, rng: Random) -> tuple[ParameterRange, Pair]:
    """(speed, trigger time) of an adversary that crosses `way` metres at a usual speed.

    Both are later drawn independently, and every pair should lead to a near miss: each range may shift the arrival by
    at most about APART seconds.
    """
    # Time to the meeting place at speed v after accelerating from rest at a = 6 m/s2: t = way / v + v / (2 a).
    fast_enough = min(max(usual.low, way / LONGEST_S), usual.high)
    pace = rng.uniform(fast_enough, usual.high)
    seconds = way / pace + pace / 12
    share = min(APART / seconds, 0.2)
    low, high = max(pace * (1 - share), usual.low), min(pace * (1 + share), usual.high)
    return _interval(low, high, *SPEED), (seconds - APART, seconds + APART)


def _trigger(due: Pair, expected: float | None, adjustment: ThreatAdjustment) -> dict[str, Any]:
    """Trigger by time; with an `expected` speed (m/s) by distance, equivalent for an ego at that speed."""
    low, high = due
    shift = 0.8 * adjustment.milder + 0.8 * adjustment.sooner
    low, high = min(low + shift, 6.5), min(high + shift, TRIGGER["time"][1])
    if expected is not None:
        return {"kind": "distance", "value": _interval(low * expected, high * expected, *TRIGGER["distance"], 1)}
    return {"kind": "time", "value": _interval(low, high, *TRIGGER["time"])}


def _speed(slot: ThreatSlot, adversary: Adversary, speed_limit: float, adjustment: ThreatAdjustment) -> ParameterRange:
    gentle = 0.85**adjustment.milder
    if slot.behaviour is AdversaryBehaviour.CUT_IN and slot.lane is AdversaryLane.ROADSIDE:
        low, high = FROM_STANDSTILL
    elif adversary in OWN_SPEED and slot.behaviour is not AdversaryBehaviour.HIDDEN_STOP:
        low, high = OWN_SPEED[adversary]
        if adversary is Adversary.BICYCLE and speed_limit > FAST:
            high += 1.5
    else:
        low, high = (share * speed_limit for share in SHARE[slot.behaviour])
    if slot.behaviour in (AdversaryBehaviour.CUT_IN, AdversaryBehaviour.SLOW_AHEAD, AdversaryBehaviour.HIDDEN_STOP):
        gentle = 1 / gentle  # a vehicle ahead is milder if it is faster
    return _interval(low * gentle, high * gentle, *SPEED)


def _interval(low: float, high: float, least: float, most: float, digits: int = 2) -> ParameterRange:
    """The range clipped to [least, most], with low < high if there is room."""
    low, high = min(max(low, least), most), min(max(high, least), most)
    if high < low:
        low = high = (low + high) / 2
    if high - low < 1e-6 and most - least > 1.0:
        low = max(least, high - 1.0)
    return ParameterRange(low=round(low, digits), high=round(high, digits))
