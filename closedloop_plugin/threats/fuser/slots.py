"""Which threats a route has room for, before anything is said about who: behaviour, side, lane and kind of road."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from pydantic import ValidationError

from closedloop_plugin.threats.site import Site, fit
from closedloop_plugin.threats.spec import (
    RULES,
    Adversary,
    Behaviour,
    Interval,
    Lane,
    Occluder,
    Place,
    RoadKind,
    Side,
    ThreatSpec,
    Trigger,
    Weakness,
)

IN_JUNCTION = (5.0, 5.0)  # ahead_m of who crosses within the junction: it has no meaning there


@dataclass(frozen=True)
class Slot:
    """One place of one behaviour. `rooms`: where its `ahead_m` may lie, metres."""

    behaviour: Behaviour
    side: Side
    lane: Lane
    road: RoadKind
    rooms: tuple[tuple[float, float], ...]

    @property
    def adversaries(self) -> list[Adversary]:
        return sorted(RULES[self.behaviour].adversaries)

    @property
    def occluders(self) -> list[Occluder]:
        return sorted(RULES[self.behaviour].occluders)


def slots(site: Site) -> list[Slot]:
    """All that `site.fit` lets through, in a fixed order."""
    found = []
    for behaviour, rule in RULES.items():
        for side, lane, road in itertools.product(sorted(rule.sides), sorted(rule.lanes), sorted(rule.roads)):
            rooms = [IN_JUNCTION] if lane is Lane.CROSSING_ROAD else site.rooms(behaviour, lane, road)
            slot = Slot(
                behaviour, side, lane, road, tuple(r for r in rooms if _fits(behaviour, side, lane, road, r, site))
            )
            if slot.rooms:
                found.append(slot)
    return found


def _fits(behaviour: Behaviour, side: Side, lane: Lane, road: RoadKind, room: tuple[float, float], site: Site) -> bool:
    """Asked of the two checks themselves, with a spec that has nothing else in it."""
    rule = RULES[behaviour]
    low, high = room
    some = Interval(low=5.0, high=5.0)
    try:
        spec = ThreatSpec(
            adversary=min(rule.adversaries),
            behaviour=behaviour,
            place=Place(side=side, lane=lane, ahead_m=Interval(low=low, high=min(high, 80.0))),
            trigger=Trigger(value=Interval(low=2.0, high=2.0)),
            road=road,
            occluder=min(rule.occluders),
            weakness=Weakness.PLANNING,
            description="-",
            speed_mps=some if "speed_mps" in rule.numbers else None,
            stays_s=some if "stays_s" in rule.numbers else None,
        )
    except ValidationError:
        return False
    return not fit(spec, site)
