"""What a route has room for: threats without adversary (behaviour, side, lane, kind of road); states of its light.

Without the places of the standard scenario, as far as the target's drive shows them: a threat is played on top of it.
Two bodies at one place cannot be drawn, and a second obstacle beside the first leaves no way past. Where the ego joins
or crosses a stream of vehicles, nothing else may make it stop there or before, since it must choose its gap. A
standstill in any vehicle's way ends in a collision, whoever drives the ego.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from closedloop_plugin.threats.driven.summary import DriveSummary, ScenarioActorTrack
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import (
    RULES,
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    AdversarySide,
    EgoLight,
    Occluder,
    ParameterRange,
    RoadKind,
    TargetWeakness,
    ThreatPlace,
    ThreatSpec,
    ThreatTrigger,
)

Interval = tuple[float, float]
IN_JUNCTION = (5.0, 5.0)  # ahead_m of adversaries that cross within the junction, where it has no meaning
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


@dataclass(frozen=True)
class ThreatSlot:
    """A behaviour at a place. `rooms`: allowed intervals of `ahead_m`, m."""

    behaviour: AdversaryBehaviour
    side: AdversarySide
    lane: AdversaryLane
    road: RoadKind
    rooms: tuple[Interval, ...]

    @property
    def adversaries(self) -> list[Adversary]:
        return sorted(RULES[self.behaviour].adversaries)

    @property
    def occluders(self) -> list[Occluder]:
        return sorted(RULES[self.behaviour].occluders)

    def origin(self, site: ThreatSite) -> float:
        """s (m) from which `ahead_m` is measured; within a junction its begin, less the constant `ahead_m`."""
        if self.road is RoadKind.OPEN or site.crossing is None:
            return site.trigger_s
        return site.crossing[0] - self.rooms[0][0] if self.lane is AdversaryLane.CROSSING_ROAD else site.crossing[1]


def slots(site: ThreatSite) -> list[ThreatSlot]:
    """All slots that `site.fit` accepts, in a fixed order."""
    found = []
    for behaviour, rule in RULES.items():
        for side, lane, road in itertools.product(sorted(rule.sides), sorted(rule.lanes), sorted(rule.roads)):
            rooms = [IN_JUNCTION] if lane is AdversaryLane.CROSSING_ROAD else site.rooms(behaviour, lane, road)
            slot = ThreatSlot(
                behaviour, side, lane, road, tuple(r for r in rooms if _fits(behaviour, side, lane, road, r, site))
            )
            if slot.rooms:
                found.append(slot)
    return found


def free_slots(site: ThreatSite, drive: DriveSummary | None) -> list[ThreatSlot]:
    """The slots of a site with rooms that the standard scenario leaves; all slots if it leaves none."""
    every = slots(site)
    if drive is None:
        return every
    found = [narrowed for slot in every if (narrowed := _narrowed(slot, site, drive.actors)) is not None]
    return found or every


def lights(slot: ThreatSlot, site: ThreatSite) -> list[EgoLight]:
    """States of the ego's light that fit: at red nothing that crosses endangers a car that waits."""
    if slot.road is not RoadKind.JUNCTION or site.control != "signal":
        return [EgoLight.CYCLE]
    crossing = slot.behaviour in (AdversaryBehaviour.RUN_LIGHT, AdversaryBehaviour.TURN_ACROSS)
    return [EgoLight.CYCLE, EgoLight.GREEN, *(() if crossing else (EgoLight.RED,))]


def _fits(
    behaviour: AdversaryBehaviour,
    side: AdversarySide,
    lane: AdversaryLane,
    road: RoadKind,
    room: Interval,
    site: ThreatSite,
) -> bool:
    """Whether a minimal spec at this place passes both checks (ThreatSpec and site.fit)."""
    rule = RULES[behaviour]
    low, high = room
    some = ParameterRange(low=5.0, high=5.0)
    try:
        spec = ThreatSpec(
            adversary=min(rule.adversaries),
            behaviour=behaviour,
            place=ThreatPlace(side=side, lane=lane, ahead_m=ParameterRange(low=low, high=high)),
            trigger=ThreatTrigger(value=ParameterRange(low=2.0, high=2.0)),
            road=road,
            occluder=min(rule.occluders),
            weakness=TargetWeakness.PLANNING,
            description="-",
            speed_mps=some if "speed_mps" in rule.numbers else None,
            stays_s=some if "stays_s" in rule.numbers else None,
        )
    except ValidationError:
        return False
    return not fit(spec, site)


def _narrowed(slot: ThreatSlot, site: ThreatSite, actors: Sequence[ScenarioActorTrack]) -> ThreatSlot | None:
    """The slot with the rooms that actors of the standard scenario leave."""
    drives = [a for a in actors if a.moves and a.d <= IN_LANE_M]
    stream = max(a.high for a in drives) if len(drives) >= STREAM and slot.behaviour in WAITS else 0.0
    if slot.lane is AdversaryLane.CROSSING_ROAD:
        return None if stream and site.crossing and site.crossing[0] < stream else slot
    if slot.side is AdversarySide.BEHIND:
        return slot
    taken = [(0.0, stream), *((a.low - BEFORE_M, a.high + AFTER_M) for a in actors if not a.moves)]
    if slot.behaviour in STOPS:
        taken += [(a.low, a.high) for a in drives]
    origin = slot.origin(site)
    rooms = list(slot.rooms)
    for low, high in taken:
        rooms = [piece for room in rooms for piece in _without(room, (low - origin, high - origin))]
    return replace(slot, rooms=tuple(rooms)) if rooms else None


def _without(room: Interval, taken: Interval) -> list[Interval]:
    """The parts of a room outside an interval that are long enough."""
    parts = [(room[0], min(room[1], taken[0])), (max(room[0], taken[1]), room[1])]
    return [(a, b) for a, b in parts if b - a >= LEAST_M]
