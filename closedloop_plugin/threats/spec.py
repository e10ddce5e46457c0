"""ThreatSpec: a threat in a closed vocabulary with bounded numbers, the only input of generated programs.

Words are enums and numbers have limits. The free texts `description` and `why` are for readers and never written into a
program. Two checks: this model (vocabulary, and which words go together) and `site.fit` (room on the route).

Enum values and validation messages enter prompts: their wording is part of the measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from closedloop_plugin.threats.words import (
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    AdversarySide,
    ContradictorySign,
    EgoLight,
    Occluder,
    RoadKind,
    TargetWeakness,
    apart,
    companions,
)

# Limits of the numbers, (least, most).
Limits = tuple[float, float]
AHEAD: Limits = (5.0, 80.0)  # m
STAY: Limits = (1.0, 25.0)  # s
SPEED: Limits = (0.3, 18.0)  # m/s
TRIGGER: Mapping[str, Limits] = {"time": (0.5, 8.0), "distance": (4.0, 60.0)}  # s, m
PERCENT: Limits = (0.0, 100.0)
COVERED: Limits = (0.0, 80.0)  # percent
SUN: Limits = (-60.0, 90.0)  # degrees above the horizon


class _ClosedModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_enum_values=False, allow_inf_nan=False)


class ParameterRange(_ClosedModel):
    """[low, high]: a free parameter, sampled by Scenic, varied by a search. A single number is both ends."""

    low: float = Field(strict=True)  # strict: no strings or booleans
    high: float = Field(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("expected [low, high], two numbers")
        if isinstance(value, int | float):
            return {"low": value, "high": value}
        if isinstance(value, list | tuple):
            if len(value) != 2:
                raise ValueError("expected [low, high], two numbers")
            return {"low": value[0], "high": value[1]}
        return value

    @model_validator(mode="after")
    def _ordered(self) -> ParameterRange:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError("expected finite numbers")
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        return self

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def _within(limits: Limits, unit: str) -> Callable[[ParameterRange], ParameterRange]:
    """Validator: both ends are within the limits."""
    least, most = limits

    def check(value: ParameterRange) -> ParameterRange:
        if value.low < least or value.high > most:
            found = f"[{value.low:g}, {value.high:g}]"
            raise ValueError(f"expected numbers from {least:g} to {most:g} {unit}, found {found}")
        return value

    return check


def _pair(limits: Limits, unit: str) -> Any:
    """Field of a range, with the limits in its description."""
    return Field(description=f"[low, high] in {unit}, {limits[0]:g} to {limits[1]:g}")


Distance = Annotated[ParameterRange, AfterValidator(_within(AHEAD, "m")), _pair(AHEAD, "m")]
Stay = Annotated[ParameterRange, AfterValidator(_within(STAY, "s")), _pair(STAY, "s")]
Speed = Annotated[ParameterRange, AfterValidator(_within(SPEED, "m/s")), _pair(SPEED, "m/s")]
Percent = Annotated[ParameterRange, AfterValidator(_within(PERCENT, "percent")), _pair(PERCENT, "percent")]
Covered = Annotated[ParameterRange, AfterValidator(_within(COVERED, "percent")), _pair(COVERED, "percent")]
_DEGREES = "degrees above the horizon"
Sun = Annotated[ParameterRange, AfterValidator(_within(SUN, _DEGREES)), _pair(SUN, _DEGREES)]


class ThreatPlace(_ClosedModel):
    """Where the adversary acts. `ahead_m`: distance of the meeting place along the ego's route, m.

    Measured from the route's trigger point, or from the junction's exit if `road` is a junction; without meaning for
    adversaries that cross within the junction.
    """

    side: AdversarySide
    lane: AdversaryLane
    ahead_m: Distance


class ThreatTrigger(_ClosedModel):
    """When the adversary acts: time (s, at the ego's current speed) or distance (m) of the ego to the meeting place."""

    kind: Literal["time", "distance"] = "time"
    value: ParameterRange

    @model_validator(mode="after")
    def _bounded(self) -> ThreatTrigger:
        (least, most), unit = TRIGGER[self.kind], "s" if self.kind == "time" else "m"
        if self.value.low < least or self.value.high > most:
            raise ValueError(f"a trigger by {self.kind}: expected numbers from {least:g} to {most:g} {unit}")
        return self


class ThreatConditions(_ClosedModel):
    """Weather and light in CARLA's parameters; None: as on the route."""

    cloudiness: Percent | None = None
    precipitation: Percent | None = None
    precipitation_deposits: Percent | None = None
    wetness: Percent | None = None
    wind_intensity: Percent | None = None
    fog_density: Percent | None = None
    sun_altitude_angle: Sun | None = None


class ThreatPerception(_ClosedModel):
    """Conditions that change only what the cameras show, see core/perception.py; None: absent."""

    worn_markings: Percent | None = None
    sun_glare: Percent | None = None  # the sun ahead of the ego; the weather must let it shine
    lens_drops: Covered | None = None
    hidden_signs: Covered | None = None
    contradictory_sign: ContradictorySign = ContradictorySign.NONE

    @property
    def numbers(self) -> dict[str, ParameterRange]:
        """Name -> range of the conditions that are present and have a number."""
        found = {name: getattr(self, name) for name in ("worn_markings", "sun_glare", "lens_drops", "hidden_signs")}
        return {name: values for name, values in found.items() if values is not None}


_VEHICLES = frozenset({Adversary.CAR, Adversary.VAN, Adversary.TRUCK, Adversary.BUS, Adversary.MOTORCYCLE})
_SERVICES = frozenset({Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK})
_BIKE = frozenset({Adversary.BICYCLE})
_FEET = frozenset({Adversary.PEDESTRIAN, Adversary.CHILD, Adversary.ANIMAL})
_THINGS = frozenset({Adversary.DEBRIS, Adversary.CONES, Adversary.BARRIER})
_AT_EDGE = frozenset({AdversaryLane.NEXT_LEFT, AdversaryLane.NEXT_RIGHT, AdversaryLane.ROADSIDE})
_COVERS = frozenset(Occluder)
_NO_COVER = frozenset({Occluder.NONE})


@dataclass(frozen=True)
class BehaviourRule:
    """Words that a behaviour allows, and numbers that it requires."""

    adversaries: frozenset[Adversary]
    sides: frozenset[AdversarySide]
    lanes: frozenset[AdversaryLane]
    roads: frozenset[RoadKind]
    occluders: frozenset[Occluder] = _NO_COVER
    numbers: tuple[str, ...] = ()  # required ones of "speed_mps", "stays_s"; the others must be absent


_OPEN, _JUNCTION = frozenset({RoadKind.OPEN}), frozenset({RoadKind.JUNCTION})
_ANY_ROAD = _OPEN | _JUNCTION
_LR = frozenset({AdversarySide.LEFT, AdversarySide.RIGHT})
_AHEAD, _BEHIND = frozenset({AdversarySide.AHEAD}), frozenset({AdversarySide.BEHIND})
_OPPOSITE = frozenset({AdversarySide.OPPOSITE})
_OWN, _ONCOMING = frozenset({AdversaryLane.OWN}), frozenset({AdversaryLane.ONCOMING})
_ROADSIDE, _ARM = frozenset({AdversaryLane.ROADSIDE}), frozenset({AdversaryLane.CROSSING_ROAD})
_MOVING_COVERS = frozenset({Occluder.VAN, Occluder.TRUCK, Occluder.BUS})
_B = AdversaryBehaviour
RULES: Mapping[AdversaryBehaviour, BehaviourRule] = {
    _B.CUT_IN: BehaviourRule(_VEHICLES | _SERVICES | _BIKE, _LR, _AT_EDGE, _OPEN, numbers=("speed_mps",)),
    _B.BRAKE_HARD: BehaviourRule(_VEHICLES | _SERVICES, _AHEAD, _OWN, _ANY_ROAD, numbers=("stays_s",)),
    _B.SLOW_AHEAD: BehaviourRule(_VEHICLES | _BIKE, _AHEAD, _OWN, _ANY_ROAD, numbers=("speed_mps", "stays_s")),
    _B.CROSS: BehaviourRule(
        _FEET | _BIKE, _LR, _ROADSIDE | {AdversaryLane.PAVEMENT}, _ANY_ROAD, _COVERS, numbers=("speed_mps",)
    ),
    _B.RUN_LIGHT: BehaviourRule(
        _VEHICLES | _SERVICES | _BIKE, _LR | _OPPOSITE, _ARM, _JUNCTION, numbers=("speed_mps",)
    ),
    _B.TURN_ACROSS: BehaviourRule(
        _VEHICLES | _SERVICES, _OPPOSITE, _ARM | _ONCOMING, _JUNCTION, numbers=("speed_mps",)
    ),
    _B.ONCOMING: BehaviourRule(_VEHICLES, _OPPOSITE | _AHEAD, _ONCOMING | _OWN, _OPEN, numbers=("speed_mps",)),
    _B.OPEN_DOOR: BehaviourRule(
        frozenset({Adversary.CAR, Adversary.VAN, Adversary.TRUCK}), frozenset({AdversarySide.RIGHT}), _ROADSIDE, _OPEN,
        numbers=("stays_s",),
    ),
    _B.BLOCK: BehaviourRule(
        _VEHICLES | _SERVICES | _THINGS | {Adversary.ANIMAL}, _AHEAD, _OWN, _ANY_ROAD,
        _COVERS - {Occluder.PARKED_CARS}, numbers=("stays_s",),
    ),
    _B.TAILGATE: BehaviourRule(_VEHICLES, _BEHIND, _OWN, _ANY_ROAD),
    _B.HIDDEN_STOP: BehaviourRule(
        _VEHICLES | _SERVICES | _THINGS, _AHEAD, _OWN, _OPEN, _MOVING_COVERS, numbers=("speed_mps", "stays_s")
    ),
    _B.EMERGENCY_PASS: BehaviourRule(_SERVICES, _BEHIND, _OWN, _ANY_ROAD, numbers=("speed_mps",)),
}  # fmt: skip

# Maximum speed of crossing adversaries, m/s.
ON_FOOT = {Adversary.PEDESTRIAN: 4.0, Adversary.CHILD: 4.0, Adversary.ANIMAL: 12.0, Adversary.BICYCLE: 9.0}


MOST_FURTHER = 2  # actors besides the first


class ThreatActor(_ClosedModel):
    """One adversary and its action.

    `speed_mps`: speed of the adversary while it acts (hidden_stop: of the covering vehicle); templates clip it to the
    range in which the behaviour is a threat at the road's speed limit. `stays_s`: how long the adversary stays
    stationary, keeps its door open, or drives slowly.
    """

    adversary: Adversary
    behaviour: AdversaryBehaviour
    place: ThreatPlace
    trigger: ThreatTrigger
    road: RoadKind
    speed_mps: Speed | None = None
    stays_s: Stay | None = None
    occluder: Occluder = Occluder.NONE


class ThreatSpec(ThreatActor):
    """One threat: its first adversary, up to MOST_FURTHER further ones, and the conditions.

    `further`: act in the same scenario, each with its own place and trigger; words.py says which go together.
    """

    ego_light: EgoLight = EgoLight.CYCLE
    conditions: ThreatConditions = ThreatConditions()
    perception: ThreatPerception = ThreatPerception()
    further: tuple[ThreatActor, ...] = Field(default=(), max_length=MOST_FURTHER)
    weakness: TargetWeakness
    description: str = Field(min_length=1, max_length=600)
    why: str = Field(default="", max_length=600)

    @property
    def actors(self) -> tuple[ThreatActor, ...]:
        """The first adversary (the spec itself) and the further ones."""
        return (self, *self.further)

    @model_validator(mode="after")
    def _goes_together(self) -> ThreatSpec:
        problems = clashes(self)
        if problems:
            raise ValueError("; ".join(problems))
        return self


def clashes(spec: ThreatSpec) -> list[str]:
    """Words that do not go together, one sentence each with the allowed values."""
    found = _actor_clashes(spec)
    if spec.ego_light is not EgoLight.CYCLE and spec.road is not RoadKind.JUNCTION:
        found.append("ego_light: only a junction has a light; leave it at cycle")
    for k, other in enumerate(spec.further):
        found += [f"further.{k}.{problem}" for problem in (*_actor_clashes(other), *_pair_clashes(spec, k))]
    return found


def _actor_clashes(actor: ThreatActor) -> list[str]:
    rule, name = RULES[actor.behaviour], actor.behaviour.value
    choices: tuple[tuple[str, Any, frozenset[Any]], ...] = (
        ("adversary", actor.adversary, rule.adversaries),
        ("place.side", actor.place.side, rule.sides),
        ("place.lane", actor.place.lane, rule.lanes),
        ("road", actor.road, rule.roads),
        ("occluder", actor.occluder, rule.occluders),
    )
    found = [
        f"{field}: {value.value} does not go with behaviour {name}; expected one of {', '.join(sorted(allowed))}"
        for field, value, allowed in choices
        if value not in allowed
    ]
    for number in ("speed_mps", "stays_s"):
        given = getattr(actor, number) is not None
        if given != (number in rule.numbers):
            found.append(f"{number}: behaviour {name} {'has no use for it' if given else 'needs it'}")
    fastest = ON_FOOT.get(actor.adversary) if actor.behaviour is AdversaryBehaviour.CROSS else None
    if fastest is not None and actor.speed_mps is not None and actor.speed_mps.high > fastest:
        found.append(f"speed_mps: a crossing {actor.adversary.value} is no faster than {fastest:g} m/s")
    if actor.place.lane in (AdversaryLane.NEXT_LEFT, AdversaryLane.NEXT_RIGHT):
        side = AdversarySide.LEFT if actor.place.lane is AdversaryLane.NEXT_LEFT else AdversarySide.RIGHT
        if actor.place.side is not side:
            found.append(f"place.side: lane {actor.place.lane.value} is on the {side.value}")
    return found


def _pair_clashes(spec: ThreatSpec, k: int) -> list[str]:
    """Problems of the further actor k with the actors before it."""
    other, found = spec.further[k], []
    for actor in spec.actors[: k + 1]:
        if apart(actor.behaviour, other.behaviour) is None:
            words = ", ".join(companions(actor.behaviour)) or "none: leave further empty"
            found.append(
                f"behaviour: {other.behaviour.value} does not act together with {actor.behaviour.value}; "
                f"expected one of {words}"
            )
    both = spec.actors[: k + 2]
    if any(a.behaviour is AdversaryBehaviour.ONCOMING and a.place.lane is AdversaryLane.OWN for a in both):
        found.append("place.lane: an oncoming vehicle that is not alone stays in its lane; expected oncoming")
    if sum(map(_takes_roadside, both)) > 1 and _takes_roadside(other):
        found.append("occluder: another actor or its cover is parked at the roadside already; expected none")
    return found


def _takes_roadside(actor: ThreatActor) -> bool:
    """Whether the actor, its cover or the cars around it are parked beside the road."""
    if actor.behaviour in (AdversaryBehaviour.CROSS, AdversaryBehaviour.BLOCK):
        return actor.occluder is not Occluder.NONE
    parked_in = actor.behaviour is AdversaryBehaviour.CUT_IN and actor.place.lane is AdversaryLane.ROADSIDE
    return parked_in or actor.behaviour is AdversaryBehaviour.OPEN_DOOR
