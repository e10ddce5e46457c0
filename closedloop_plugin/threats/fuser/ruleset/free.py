"""Slots of a route without the places of its standard scenario, as far as the target's drive shows them.

A threat is played on top of the standard scenario. Two bodies at one place cannot be drawn, and a second obstacle
beside the first leaves no way past. Where the ego joins a stream of vehicles, nothing before it may make the ego stop,
since it cannot join from standstill; a standstill within any vehicle's way ends in a collision, however well the ego
drives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from closedloop_plugin.threats.driven.summary import DriveSummary, ScenarioActorTrack
from closedloop_plugin.threats.fuser.slots import ThreatSlot, slots
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import AdversaryBehaviour, AdversaryLane, AdversarySide, RoadKind

Interval = tuple[float, float]
BEFORE_M, AFTER_M = 20.0, 12.0  # kept free before and after a body of the standard scenario that stands
IN_LANE_M = 1.5  # an actor that comes nearer to the ego's path drives in its lane
STREAM = 3  # so many vehicles that drive in the ego's lane are a stream
LEAST_M = 2.0  # shortest room
STOPS = frozenset(
    {
        AdversaryBehaviour.BLOCK, AdversaryBehaviour.BRAKE_HARD, AdversaryBehaviour.HIDDEN_STOP,
        AdversaryBehaviour.SLOW_AHEAD, AdversaryBehaviour.OPEN_DOOR,
    }
)  # fmt: skip


def free_slots(site: ThreatSite, drive: DriveSummary | None) -> list[ThreatSlot]:
    """The slots of a site with rooms that the standard scenario leaves; all slots if it leaves none."""
    every = slots(site)
    if drive is None:
        return every
    found = [narrowed for slot in every if (narrowed := _narrowed(slot, site, drive.actors)) is not None]
    return found or every


def _narrowed(slot: ThreatSlot, site: ThreatSite, actors: Sequence[ScenarioActorTrack]) -> ThreatSlot | None:
    if slot.lane is AdversaryLane.CROSSING_ROAD or slot.side is AdversarySide.BEHIND:
        return slot
    origin = site.trigger_s if slot.road is RoadKind.OPEN or site.crossing is None else site.crossing[1]
    rooms = list(slot.rooms)
    for low, high in _taken(slot.behaviour, actors):
        rooms = [piece for room in rooms for piece in _without(room, (low - origin, high - origin))]
    return replace(slot, rooms=tuple(rooms)) if rooms else None


def _taken(behaviour: AdversaryBehaviour, actors: Sequence[ScenarioActorTrack]) -> Iterator[Interval]:
    """Intervals of s (m) where this behaviour and an actor of the standard scenario exclude each other."""
    yield from ((a.low - BEFORE_M, a.high + AFTER_M) for a in actors if not a.moves)
    drive = [a for a in actors if a.moves and a.d <= IN_LANE_M]
    if behaviour not in STOPS or not drive:
        return
    if len(drive) >= STREAM:
        yield 0.0, max(a.high for a in drive)
    else:
        yield from ((a.low, a.high) for a in drive)


def _without(room: Interval, taken: Interval) -> list[Interval]:
    """The parts of a room outside an interval that are long enough."""
    parts = [(room[0], min(room[1], taken[0])), (max(room[0], taken[1]), room[1])]
    return [(a, b) for a, b in parts if b - a >= LEAST_M]
