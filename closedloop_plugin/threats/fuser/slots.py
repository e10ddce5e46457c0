"""What a route has room for: threats without adversary (behaviour, side, lane, kind of road); states of its light."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from pydantic import ValidationError

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

IN_JUNCTION = (5.0, 5.0)  # ahead_m of adversaries that cross within the junction, where it has no meaning


@dataclass(frozen=True)
class ThreatSlot:
    """A behaviour at a place. `rooms`: allowed intervals of `ahead_m`, m."""

    behaviour: AdversaryBehaviour
    side: AdversarySide
    lane: AdversaryLane
    road: RoadKind
    rooms: tuple[tuple[float, float], ...]

    @property
    def adversaries(self) -> list[Adversary]:
        return sorted(RULES[self.behaviour].adversaries)

    @property
    def occluders(self) -> list[Occluder]:
        return sorted(RULES[self.behaviour].occluders)


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
    room: tuple[float, float],
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
