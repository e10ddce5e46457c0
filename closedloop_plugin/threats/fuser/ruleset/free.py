"""Slots of a route without the places of its standard scenario, as far as the target's drive shows them.

A threat is played on top of the standard scenario. Two bodies at one place cannot be drawn, and a second obstacle
beside the first leaves no way past. Where the ego joins or crosses a stream of vehicles, nothing else may make it stop
there or before, since it must choose its gap. A standstill in any vehicle's way ends in a collision, whoever drives the
ego.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from closedloop_plugin.threats.driven.summary import DriveSummary, ScenarioActorTrack
from closedloop_plugin.threats.fuser.ruleset.driven import origin_of
from closedloop_plugin.threats.fuser.slots import ThreatSlot, slots
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import AdversaryBehaviour, AdversaryLane, AdversarySide

Interval = tuple[float, float]
BEFORE_M, AFTER_M = 20.0, 12.0  # kept free before and after a body of the standard scenario that stands
IN_LANE_M = 1.5  # an actor that comes nearer to the ego's path drives in its lane
STREAM = 3  # so many vehicles that drive in the ego's lane are a stream
LEAST_M = 2.0  # shortest room
# Behaviours that make the ego stop in its lane; those that make it stop or wait before a stream.
STOPS = frozenset(
    {
        AdversaryBehaviour.BLOCK, AdversaryBehaviour.BRAKE_HARD, AdversaryBehaviour.HIDDEN_STOP,
        AdversaryBehaviour.SLOW_AHEAD, AdversaryBehaviour.OPEN_DOOR,
    }
)  # fmt: skip
WAITS = STOPS | {AdversaryBehaviour.CUT_IN, AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS}


def free_slots(site: ThreatSite, drive: DriveSummary | None) -> list[ThreatSlot]:
    """The slots of a site with rooms that the standard scenario leaves; all slots if it leaves none."""
    every = slots(site)
    if drive is None:
        return every
    found = [narrowed for slot in every if (narrowed := _narrowed(slot, site, drive.actors)) is not None]
    return found or every


def _narrowed(slot: ThreatSlot, site: ThreatSite, actors: Sequence[ScenarioActorTrack]) -> ThreatSlot | None:
    drives = [a for a in actors if a.moves and a.d <= IN_LANE_M]
    stream = max(a.high for a in drives) if len(drives) >= STREAM and slot.behaviour in WAITS else 0.0
    if slot.lane is AdversaryLane.CROSSING_ROAD:
        return None if stream and site.crossing and site.crossing[0] < stream else slot
    if slot.side is AdversarySide.BEHIND:
        return slot
    taken = [(0.0, stream), *((a.low - BEFORE_M, a.high + AFTER_M) for a in actors if not a.moves)]
    if slot.behaviour in STOPS:
        taken += [(a.low, a.high) for a in drives]
    origin = origin_of(slot, site)
    rooms = list(slot.rooms)
    for low, high in taken:
        rooms = [piece for room in rooms for piece in _without(room, (low - origin, high - origin))]
    return replace(slot, rooms=tuple(rooms)) if rooms else None


def _without(room: Interval, taken: Interval) -> list[Interval]:
    """The parts of a room outside an interval that are long enough."""
    parts = [(room[0], min(room[1], taken[0])), (max(room[0], taken[1]), room[1])]
    return [(a, b) for a, b in parts if b - a >= LEAST_M]
