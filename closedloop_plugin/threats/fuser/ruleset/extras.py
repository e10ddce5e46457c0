"""Further actors and perception conditions of generated specs.

A further actor needs room on the route beside the first one. Conditions of the pictures are drawn more often where the
spec probes the perception. All of it fits the site, and is deterministic for the random generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pydantic import ValidationError

from closedloop_plugin.threats.fuser.ruleset.driven import origin_of
from closedloop_plugin.threats.fuser.ruleset.numbers import Pair, ThreatAdjustment, numbers
from closedloop_plugin.threats.fuser.slots import ThreatSlot, slots
from closedloop_plugin.threats.pairs import apart
from closedloop_plugin.threats.site import LOW_SUN, USUAL_SKY, ThreatSite, fit
from closedloop_plugin.threats.spec import (
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    ContradictorySign,
    Occluder,
    ParameterRange,
    TargetWeakness,
    ThreatActor,
    ThreatConditions,
    ThreatPerception,
    ThreatPlace,
    ThreatSpec,
)

LEAST_ROOM_M = 4.0  # room for the place of a further actor
SPAN_M = 8.0  # length of its range of `ahead_m`, where it must keep a distance
# Ranges of the perception conditions: clearly visible, and the scene can still be understood.
RANGES: Mapping[str, Pair] = {
    "worn_markings": (50, 95), "sun_glare": (50, 100), "lens_drops": (20, 50), "hidden_signs": (40, 75),
}  # fmt: skip
# Above the houses at the end of a street, and within a front camera's picture.
GLARE_SKY: Mapping[str, Pair] = {"sun_altitude_angle": (10, 17), "cloudiness": (0, 20)}
# Behaviours of further actors that the rules prefer, by the stage that the spec probes; the others have the weight 1.
PREFERRED: Mapping[TargetWeakness, tuple[AdversaryBehaviour, ...]] = {
    TargetWeakness.PERCEPTION: (AdversaryBehaviour.CROSS, AdversaryBehaviour.OPEN_DOOR),
    TargetWeakness.PREDICTION: (AdversaryBehaviour.CUT_IN, AdversaryBehaviour.CROSS),
    TargetWeakness.PLANNING: (AdversaryBehaviour.ONCOMING,),
}


@dataclass(frozen=True)
class ExtraOdds:
    """Probabilities of extras. `further`: of a further actor; `perception`: of a condition, by the stage probed."""

    further: float
    perception: Mapping[TargetWeakness, float]
    preferred: float = 1.0  # weight of PREFERRED behaviours


RULE_ODDS = ExtraOdds(
    further=0.25,  # about a quarter of all specs: few routes have no room
    perception={TargetWeakness.PERCEPTION: 0.5, TargetWeakness.PREDICTION: 0.2, TargetWeakness.PLANNING: 0.2},
    preferred=3.0,
)
UNIFORM_ODDS = ExtraOdds(further=0.35, perception=dict.fromkeys(TargetWeakness, 0.3))


def with_extras(
    spec: ThreatSpec,
    site: ThreatSite,
    rng: Random,
    adjustment: ThreatAdjustment = ThreatAdjustment(),
    odds: ExtraOdds = RULE_ODDS,
    available: Sequence[ThreatSlot] | None = None,
) -> ThreatSpec:
    """The spec with a further actor and conditions of the pictures, or with neither, as `odds` say.

    The arguments' spec must fit the site; the result does. After a failed check no actor is added. UNIFORM_ODDS draw
    every possible actor and condition with the same probability. `available`: slots for the actor, default all of the
    site.
    """
    wants_further, wants_condition = rng.random(), rng.random()
    if wants_further < odds.further and not (adjustment.milder or adjustment.sooner):
        found = _further_actor(spec, site, rng, adjustment, odds, slots(site) if available is None else available)
        spec = spec.model_copy(update={"further": (found,)}) if found else spec
    if wants_condition < odds.perception[spec.weakness]:
        choices = _conditions(spec, site, rng)
        if choices:
            spec = spec.model_copy(update=rng.choice(choices))
    problems = fit(spec, site)
    if problems:
        raise AssertionError(f"route {site.route}: {problems[0]}")
    return spec


def _further_actor(
    spec: ThreatSpec,
    site: ThreatSite,
    rng: Random,
    adjustment: ThreatAdjustment,
    odds: ExtraOdds,
    available: Sequence[ThreatSlot],
) -> ThreatActor | None:
    """Draw a behaviour, then a place and an adversary; None if the site has no room beside the first actor."""
    possible: dict[AdversaryBehaviour, list[ThreatSlot]] = {}
    for slot in available:
        for room in _rooms_beside(spec, slot, site):
            narrowed = replace(slot, rooms=(room,))
            if _goes_along(spec, _draw(narrowed, Adversary(slot.adversaries[0]), site, adjustment, Random(0)), site):
                possible.setdefault(slot.behaviour, []).append(narrowed)
    if not possible:
        return None
    behaviours = list(possible)
    preferred = PREFERRED[spec.weakness]
    weights = [odds.preferred if behaviour in preferred else 1.0 for behaviour in behaviours]
    chosen = rng.choice(possible[rng.choices(behaviours, weights)[0]])
    actor = _draw(chosen, rng.choice(chosen.adversaries), site, adjustment, rng)
    return actor if _goes_along(spec, actor, site) else None


def _rooms_beside(spec: ThreatSpec, slot: ThreatSlot, site: ThreatSite) -> Iterator[tuple[float, float]]:
    """Intervals of `ahead_m` of a slot that keep the distance to the first actor, or, without one, share its place."""
    need = apart(spec.behaviour, slot.behaviour)
    if need is None:
        return
    if slot.lane is AdversaryLane.CROSSING_ROAD:
        yield slot.rooms[0]
        return
    origin = origin_of(slot, site)
    low, high = (s - origin for s in site.stretch(spec))
    shared = need == 0 and slot.road is spec.road and spec.place.lane is not AdversaryLane.CROSSING_ROAD
    for a, b in slot.rooms:
        pieces = [(max(a, low), min(b, high)) if shared else (a, b)]
        if need:
            pieces = [(max(a, low - need - SPAN_M), min(b, low - need))]
            pieces += [(max(a, high + need), min(b, high + need + SPAN_M))]
        yield from (piece for piece in pieces if piece[1] - piece[0] >= LEAST_ROOM_M)


def _draw(
    slot: ThreatSlot, adversary: Adversary, site: ThreatSite, adjustment: ThreatAdjustment, rng: Random
) -> ThreatActor:
    occluder = slot.occluders[0] if Occluder.NONE not in slot.occluders else Occluder.NONE
    values = numbers(slot, adversary, occluder, site, adjustment, rng)
    place = ThreatPlace(side=slot.side, lane=slot.lane, ahead_m=values.pop("ahead_m"))
    return ThreatActor.model_validate(
        {"adversary": adversary, "behaviour": slot.behaviour, "place": place, "road": slot.road, "occluder": occluder,
         **values}
    )  # fmt: skip


def _goes_along(spec: ThreatSpec, actor: ThreatActor, site: ThreatSite) -> bool:
    """Whether the spec with this further actor passes both checks (ThreatSpec and site.fit)."""
    try:
        both = ThreatSpec.model_validate({**dict(spec), "further": (actor,)})
    except ValidationError:
        return False
    return not fit(both, site)


def _conditions(spec: ThreatSpec, site: ThreatSite, rng: Random) -> Sequence[dict[str, Any]]:
    """Changes of the spec by one condition of the pictures each, all that the site can show."""
    found: list[dict[str, Any]] = [
        {"perception": ThreatPerception.model_validate({name: values})} for name, values in RANGES.items()
    ]
    found[list(RANGES).index("sun_glare")]["conditions"] = _low_sun(spec.conditions, site)
    signs = [
        {"perception": ThreatPerception(contradictory_sign=sign)}
        for sign in ContradictorySign
        if sign is not ContradictorySign.NONE
    ]
    possible = [change for change in found if not fit(spec.model_copy(update=change), site)]
    plates = [change for change in signs if not fit(spec.model_copy(update=change), site)]
    return possible + ([rng.choice(plates)] if plates else [])


def _low_sun(conditions: ThreatConditions, site: ThreatSite) -> ThreatConditions:
    """The conditions with a low sun and few clouds, unless the spec or the route has rain or fog."""
    sky = {name: ParameterRange(low=low, high=high) for name, (low, high) in GLARE_SKY.items()}
    clear = all(
        site.weather.get(name, USUAL_SKY[name]) <= LOW_SUN[name][1] for name in ("precipitation", "fog_density")
    )
    return conditions.model_copy(update=sky) if clear else conditions
