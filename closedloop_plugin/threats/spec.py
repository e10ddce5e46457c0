"""ThreatSpec: a threat in a closed vocabulary with bounded numbers, the only input of generated programs.

Words are enums and numbers have limits. The free texts `description` and `why` are for readers and never written into a
program. Two checks: this model (vocabulary, and which words go together) and `site.fit` (room on the route).

Enum values and validation messages enter prompts: their wording is part of the measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


class Adversary(StrEnum):
    """Road user or object that endangers the ego."""

    CAR = "car"
    VAN = "van"
    TRUCK = "truck"
    BUS = "bus"
    MOTORCYCLE = "motorcycle"
    BICYCLE = "bicycle"
    PEDESTRIAN = "pedestrian"
    CHILD = "child"
    ANIMAL = "animal"
    POLICE = "police"
    AMBULANCE = "ambulance"
    FIRETRUCK = "firetruck"
    DEBRIS = "debris"
    CONES = "cones"
    BARRIER = "barrier"


class AdversaryBehaviour(StrEnum):
    """Behaviour of the adversary."""

    CUT_IN = "cut_in"  # moves from beside into the ego's lane, just before it
    BRAKE_HARD = "brake_hard"  # ahead in the ego's lane, brakes to a standstill
    SLOW_AHEAD = "slow_ahead"  # ahead in the ego's lane, much slower than the ego
    CROSS = "cross"  # crosses the road from its edge
    RUN_LIGHT = "run_light"  # crosses the junction without giving way
    TURN_ACROSS = "turn_across"  # oncoming, turns left across the ego's path in the junction
    ONCOMING = "oncoming"  # comes along the ego's own lane
    OPEN_DOOR = "open_door"  # parked at the edge, opens its door into the lane
    BLOCK = "block"  # is stationary in the lane
    TAILGATE = "tailgate"  # follows much too closely
    HIDDEN_STOP = "hidden_stop"  # is stationary in the lane, hidden by a vehicle that swerves away late
    EMERGENCY_PASS = "emergency_pass"  # comes from behind with its siren on and wants to pass


class AdversarySide(StrEnum):
    """Where the adversary is or comes from, relative to the ego."""

    AHEAD = "ahead"
    BEHIND = "behind"
    LEFT = "left"
    RIGHT = "right"
    OPPOSITE = "opposite"  # towards the ego: the oncoming lane, the junction's far arm


class AdversaryLane(StrEnum):
    """Position of the adversary relative to the ego's lane."""

    OWN = "own"
    NEXT_LEFT = "next_left"
    NEXT_RIGHT = "next_right"
    ONCOMING = "oncoming"
    ROADSIDE = "roadside"  # shoulder or parking lane
    PAVEMENT = "pavement"
    CROSSING_ROAD = "crossing_road"  # another arm of the junction


class Occluder(StrEnum):
    """Object that hides the adversary until late."""

    NONE = "none"
    PARKED_CARS = "parked_cars"
    VAN = "van"
    TRUCK = "truck"
    BUS = "bus"
    CONTAINER = "container"
    ADVERTISEMENT = "advertisement"


class RoadKind(StrEnum):
    """Kind of road on which the threat takes place."""

    OPEN = "open"  # a stretch without a junction
    JUNCTION = "junction"


class EgoLight(StrEnum):
    """State of the ego's traffic light during the scenario; red turns green after some seconds."""

    CYCLE = "cycle"
    GREEN = "green"
    RED = "red"


class TargetWeakness(StrEnum):
    """Stage of the target's reasoning that the threat probes (section 3.3)."""

    PERCEPTION = "perception"
    PREDICTION = "prediction"
    PLANNING = "planning"


class _ClosedModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_enum_values=False, allow_inf_nan=False)


class ParameterRange(_ClosedModel):
    """[low, high]: a free parameter, sampled by Scenic, searched by VerifAI. A single number is both ends."""

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


def _within(least: float, most: float, unit: str) -> Callable[[ParameterRange], ParameterRange]:
    """Validator: both ends are within [least, most]."""

    def check(value: ParameterRange) -> ParameterRange:
        if value.low < least or value.high > most:
            found = f"[{value.low:g}, {value.high:g}]"
            raise ValueError(f"expected numbers from {least:g} to {most:g} {unit}, found {found}")
        return value

    return check


Distance = Annotated[
    ParameterRange, AfterValidator(_within(5, 80, "m")), Field(description="[low, high] in m, 5 to 80")
]
Stay = Annotated[ParameterRange, AfterValidator(_within(1, 25, "s")), Field(description="[low, high] in s, 1 to 25")]
Speed = Annotated[
    ParameterRange, AfterValidator(_within(0.3, 18, "m/s")), Field(description="[low, high] in m/s, 0.3 to 18")
]
Percent = Annotated[
    ParameterRange, AfterValidator(_within(0, 100, "percent")), Field(description="[low, high] in percent, 0 to 100")
]
Sun = Annotated[
    ParameterRange,
    AfterValidator(_within(-60, 90, "degrees above the horizon")),
    Field(description="[low, high] in degrees above the horizon, -60 to 90"),
]


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
        least, most, unit = (0.5, 8.0, "s") if self.kind == "time" else (4.0, 60.0, "m")
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
_LR = frozenset({AdversarySide.LEFT, AdversarySide.RIGHT})
_ANY_ROAD = _OPEN | _JUNCTION
RULES: Mapping[AdversaryBehaviour, BehaviourRule] = {
    AdversaryBehaviour.CUT_IN: BehaviourRule(
        _VEHICLES | _SERVICES | _BIKE, _LR, _AT_EDGE, _OPEN, numbers=("speed_mps",)
    ),
    AdversaryBehaviour.BRAKE_HARD: BehaviourRule(
        _VEHICLES | _SERVICES,
        frozenset({AdversarySide.AHEAD}),
        frozenset({AdversaryLane.OWN}),
        _ANY_ROAD,
        numbers=("stays_s",),
    ),
    AdversaryBehaviour.SLOW_AHEAD: BehaviourRule(
        _VEHICLES | _BIKE,
        frozenset({AdversarySide.AHEAD}),
        frozenset({AdversaryLane.OWN}),
        _ANY_ROAD,
        numbers=("speed_mps", "stays_s"),
    ),
    AdversaryBehaviour.CROSS: BehaviourRule(
        _FEET | _BIKE,
        _LR,
        frozenset({AdversaryLane.ROADSIDE, AdversaryLane.PAVEMENT}),
        _ANY_ROAD,
        _COVERS,
        ("speed_mps",),
    ),
    AdversaryBehaviour.RUN_LIGHT: BehaviourRule(
        _VEHICLES | _SERVICES | _BIKE,
        _LR | {AdversarySide.OPPOSITE},
        frozenset({AdversaryLane.CROSSING_ROAD}),
        _JUNCTION,
        numbers=("speed_mps",),
    ),
    AdversaryBehaviour.TURN_ACROSS: BehaviourRule(
        _VEHICLES | _SERVICES,
        frozenset({AdversarySide.OPPOSITE}),
        frozenset({AdversaryLane.CROSSING_ROAD, AdversaryLane.ONCOMING}),
        _JUNCTION,
        numbers=("speed_mps",),
    ),
    AdversaryBehaviour.ONCOMING: BehaviourRule(
        _VEHICLES,
        frozenset({AdversarySide.OPPOSITE, AdversarySide.AHEAD}),
        frozenset({AdversaryLane.ONCOMING, AdversaryLane.OWN}),
        _OPEN,
        numbers=("speed_mps",),
    ),
    AdversaryBehaviour.OPEN_DOOR: BehaviourRule(
        frozenset({Adversary.CAR, Adversary.VAN, Adversary.TRUCK}),
        frozenset({AdversarySide.RIGHT}),
        frozenset({AdversaryLane.ROADSIDE}),
        _OPEN,
        numbers=("stays_s",),
    ),
    AdversaryBehaviour.BLOCK: BehaviourRule(
        _VEHICLES | _SERVICES | _THINGS | {Adversary.ANIMAL},
        frozenset({AdversarySide.AHEAD}),
        frozenset({AdversaryLane.OWN}),
        _ANY_ROAD,
        _COVERS - {Occluder.PARKED_CARS},
        ("stays_s",),
    ),
    AdversaryBehaviour.TAILGATE: BehaviourRule(
        _VEHICLES, frozenset({AdversarySide.BEHIND}), frozenset({AdversaryLane.OWN}), _ANY_ROAD
    ),
    AdversaryBehaviour.HIDDEN_STOP: BehaviourRule(
        _VEHICLES | _SERVICES | _THINGS,
        frozenset({AdversarySide.AHEAD}),
        frozenset({AdversaryLane.OWN}),
        _OPEN,
        frozenset({Occluder.VAN, Occluder.TRUCK, Occluder.BUS}),
        ("speed_mps", "stays_s"),
    ),
    AdversaryBehaviour.EMERGENCY_PASS: BehaviourRule(
        _SERVICES, frozenset({AdversarySide.BEHIND}), frozenset({AdversaryLane.OWN}), _ANY_ROAD, numbers=("speed_mps",)
    ),
}

# Maximum speed of crossing adversaries, m/s.
ON_FOOT = {Adversary.PEDESTRIAN: 4.0, Adversary.CHILD: 4.0, Adversary.ANIMAL: 12.0, Adversary.BICYCLE: 9.0}


class ThreatSpec(_ClosedModel):
    """One threat.

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
    ego_light: EgoLight = EgoLight.CYCLE
    conditions: ThreatConditions = ThreatConditions()
    weakness: TargetWeakness
    description: str = Field(min_length=1, max_length=600)
    why: str = Field(default="", max_length=600)

    @model_validator(mode="after")
    def _goes_together(self) -> ThreatSpec:
        problems = clashes(self)
        if problems:
            raise ValueError("; ".join(problems))
        return self


def clashes(spec: ThreatSpec) -> list[str]:
    """Words that do not go together, one sentence each with the allowed values."""
    rule, name = RULES[spec.behaviour], spec.behaviour.value
    choices: tuple[tuple[str, Any, frozenset[Any]], ...] = (
        ("adversary", spec.adversary, rule.adversaries),
        ("place.side", spec.place.side, rule.sides),
        ("place.lane", spec.place.lane, rule.lanes),
        ("road", spec.road, rule.roads),
        ("occluder", spec.occluder, rule.occluders),
    )
    found = [
        f"{field}: {value.value} does not go with behaviour {name}; expected one of {', '.join(sorted(allowed))}"
        for field, value, allowed in choices
        if value not in allowed
    ]
    for number in ("speed_mps", "stays_s"):
        given = getattr(spec, number) is not None
        if given != (number in rule.numbers):
            found.append(f"{number}: behaviour {name} {'has no use for it' if given else 'needs it'}")
    fastest = ON_FOOT.get(spec.adversary) if spec.behaviour is AdversaryBehaviour.CROSS else None
    if fastest is not None and spec.speed_mps is not None and spec.speed_mps.high > fastest:
        found.append(f"speed_mps: a crossing {spec.adversary.value} is no faster than {fastest:g} m/s")
    if spec.ego_light is not EgoLight.CYCLE and spec.road is not RoadKind.JUNCTION:
        found.append("ego_light: only a junction has a light; leave it at cycle")
    if spec.place.lane in (AdversaryLane.NEXT_LEFT, AdversaryLane.NEXT_RIGHT):
        side = AdversarySide.LEFT if spec.place.lane is AdversaryLane.NEXT_LEFT else AdversarySide.RIGHT
        if spec.place.side is not side:
            found.append(f"place.side: lane {spec.place.lane.value} is on the {side.value}")
    return found
