"""Numbers of rule-based threats whose target was driven: as late as an attentive driver just survives.

The trigger is a time. Its first value leaves a driver at the target's measured speed v the time to brake:

    t = EXPERT_S + v_c^2 / (2 a v)      v_c: speed at which it closes in, a: DECEL

Earlier results bracket it: triggers with which the expert failed the check are too late, those that the target survived
too early. The next one lies between them, else one STEP beyond.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from closedloop_plugin.threats.fuser.ruleset.driven import DrivenPlace
from closedloop_plugin.threats.fuser.ruleset.numbers import OWN_SPEED, way_across
from closedloop_plugin.threats.fuser.slots import ThreatSlot
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    ON_FOOT,
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    Occluder,
    ParameterRange,
    RoadKind,
    ThreatSpec,
)
from closedloop_plugin.threats.transcript import ThreatAttempt

EXPERT_S, DECEL = 0.35, 4.5  # s, m/s2: reaction and deceleration of an attentive driver
STEP, WIDTH = 0.4, 0.3  # s: between tries, and of the range of a trigger
CLOSE = 0.15  # s: a bracket narrower than this is exhausted
LEAST, MOST = 0.5, 7.0  # s
SPAN = 6.0  # m: range of the distance around the place
# Seconds added to t: what the behaviour itself takes before it is in the way.
TAKES: Mapping[AdversaryBehaviour, float] = {
    AdversaryBehaviour.CUT_IN: 1.0,
    AdversaryBehaviour.BRAKE_HARD: 0.3,
    AdversaryBehaviour.SLOW_AHEAD: 0.8,
    AdversaryBehaviour.RUN_LIGHT: 1.0,
    AdversaryBehaviour.TURN_ACROSS: 0.9,
    AdversaryBehaviour.ONCOMING: 1.3,
    AdversaryBehaviour.OPEN_DOOR: 0.0,
    AdversaryBehaviour.BLOCK: 0.3,
    AdversaryBehaviour.TAILGATE: 1.0,
    AdversaryBehaviour.HIDDEN_STOP: 0.3,
    AdversaryBehaviour.EMERGENCY_PASS: 1.0,
}


@dataclass(frozen=True)
class TriggerBracket:
    """Lower ends of the triggers (s) of one threat that were too late for the expert, and too early for the target."""

    too_late: tuple[float, ...] = ()
    too_early: tuple[float, ...] = ()

    @property
    def exhausted(self) -> bool:
        return bool(self.too_late and self.too_early) and min(self.too_early) - max(self.too_late) < CLOSE

    def next(self, first: float) -> float:
        """The next trigger; `first` without earlier results."""
        if self.too_late and self.too_early:
            return (max(self.too_late) + min(self.too_early)) / 2
        if self.too_late:
            return max(self.too_late) + STEP
        return min(self.too_early) - STEP if self.too_early else first


def bracket_of(attempts: Sequence[ThreatAttempt], slot: ThreatSlot, adversary: Adversary) -> TriggerBracket:
    """Results of the attempts with the same place and adversary; triggers by distance tell nothing about times."""
    same = [a for a in attempts if a.spec and is_at(a.spec, slot, adversary) and a.spec.trigger.kind == "time"]
    too_late = [a for a in same if a.verdict and a.verdict.acts and not a.verdict.survivable]
    return TriggerBracket(_lows(too_late), _lows([a for a in same if a.survived]))


def _lows(attempts: Sequence[ThreatAttempt]) -> tuple[float, ...]:
    return tuple(a.spec.trigger.value.low for a in attempts if a.spec)


def is_at(spec: ThreatSpec, slot: ThreatSlot, adversary: Adversary) -> bool:
    return (spec.behaviour, spec.place.side, spec.place.lane, spec.road, spec.adversary) == (
        slot.behaviour, slot.side, slot.lane, slot.road, adversary,
    )  # fmt: skip


def late_numbers(
    values: dict[str, Any],
    slot: ThreatSlot,
    adversary: Adversary,
    occluder: Occluder,
    site: ThreatSite,
    *,
    place: DrivenPlace | None,
    bracket: TriggerBracket,
) -> tuple[dict[str, Any], float]:
    """(the values of `numbers.numbers` with a late trigger at the place where the target was fastest, its low end)."""
    speed = max(place.speed if place else 0.6 * site.speed_limit, 2.0)
    found = {**values, "ahead_m": _around(values["ahead_m"], slot, place)}
    if slot.behaviour is AdversaryBehaviour.CROSS:
        return _crossing(found, slot, adversary, occluder, site, bracket)
    closing = max(speed - _own_speed(slot.behaviour, found), 0.5 * speed)
    first = EXPERT_S + closing**2 / (2 * DECEL * speed) + TAKES[slot.behaviour]
    low = min(max(bracket.next(first), LEAST), MOST)
    return {**found, "trigger": _time(low, low + WIDTH)}, round(low, 2)


def _own_speed(behaviour: AdversaryBehaviour, values: Mapping[str, Any]) -> float:
    """Speed of what is in the way along the ego's path, m/s."""
    ahead = behaviour in (AdversaryBehaviour.CUT_IN, AdversaryBehaviour.SLOW_AHEAD)
    given = values.get("speed_mps")
    return given.middle if ahead and given is not None else 0.0


def _crossing(
    values: dict[str, Any],
    slot: ThreatSlot,
    adversary: Adversary,
    occluder: Occluder,
    site: ThreatSite,
    bracket: TriggerBracket,
) -> tuple[dict[str, Any], float]:
    """A crossing that meets the ego: the later it starts, the faster it must be.

    From rest with a = 6 m/s2 to pace p over `way`: t = way / p + p / 12, so p = 6 (t - sqrt(t^2 - way / 3)).
    """
    way = way_across(slot, occluder, site)
    usual, fastest = OWN_SPEED[adversary], ON_FOOT[adversary] * 0.95
    first_pace = usual[1]
    first = way / first_pace + first_pace / 12
    shortest = way / fastest + fastest / 12
    longest = way / usual[0] + usual[0] / 12
    seconds = min(max(bracket.next(first - WIDTH) + WIDTH, shortest), longest, MOST)
    pace = 6 * (seconds - math.sqrt(max(seconds**2 - way / 3, 0.0)))
    pace = min(max(pace, usual[0]), fastest)
    low = max(seconds - WIDTH, LEAST)
    found = {**values, "speed_mps": _range(0.95 * pace, min(1.05 * pace, ON_FOOT[adversary]))}
    return {**found, "trigger": _time(low, seconds + 0.1)}, round(low, 2)


def _around(ahead: ParameterRange, slot: ThreatSlot, place: DrivenPlace | None) -> ParameterRange:
    """A range that begins at the place, within its room; unchanged where the distance has no meaning."""
    if place is None or (slot.road is RoadKind.JUNCTION and slot.lane is AdversaryLane.CROSSING_ROAD):
        return ahead
    room = next(((a, b) for a, b in slot.rooms if a - 0.1 <= place.ahead_m <= b + 0.1), None)
    if room is None:
        return ahead
    low = max(min(place.ahead_m, room[1] - SPAN), room[0]) + 0.05
    return _range(low, min(low + SPAN, room[1] - 0.05), 1)


def _time(low: float, high: float) -> dict[str, Any]:
    return {"kind": "time", "value": _range(low, high)}


def _range(low: float, high: float, digits: int = 2) -> ParameterRange:
    low, high = round(low, digits), round(high, digits)
    return ParameterRange(low=min(low, high), high=max(low, high))
