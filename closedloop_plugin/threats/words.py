"""The words of the threat vocabulary: enums whose values enter programs, prompts and result files; behaviours that can
act together in one scenario, and the distance that their places need.

An attentive driver must be able to handle both of a pair: a follower behind a stop that can be seen coming, an oncoming
vehicle in the lane that is needed for passing, two pedestrians, a pedestrian behind a junction that somebody crosses
without giving way.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


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


class ContradictorySign(StrEnum):
    """A plate at the right edge of the road that contradicts the road's own rules; nothing else changes."""

    NONE = "none"
    STOP = "stop"  # where the route has the right of way, or a green light
    NO_ENTRY = "no_entry"  # on the ego's own way
    SPEED_90 = "speed_90"  # km/h, above the road's limit


_B = AdversaryBehaviour
# Not behind a cut-in, a crossing or a door: a driver who must brake at once would be hit, however well it drives.
_BEFORE_A_FOLLOWER = (_B.BRAKE_HARD, _B.SLOW_AHEAD, _B.BLOCK, _B.HIDDEN_STOP, _B.TURN_ACROSS)
_BESIDE_ONCOMING = (_B.BLOCK, _B.OPEN_DOOR, _B.SLOW_AHEAD, _B.BRAKE_HARD, _B.CUT_IN)
# Two behaviours (or one twice) -> m along the route between their places, at least.
APART_M: Mapping[frozenset[AdversaryBehaviour], float] = {
    **{frozenset({_B.TAILGATE, other}): 0.0 for other in _BEFORE_A_FOLLOWER},
    **{frozenset({_B.ONCOMING, other}): 0.0 for other in _BESIDE_ONCOMING},
    frozenset({_B.CROSS, _B.RUN_LIGHT}): 0.0,
    frozenset({_B.CROSS, _B.TURN_ACROSS}): 0.0,
    frozenset({_B.CROSS}): 6.0,
    frozenset({_B.CROSS, _B.ONCOMING}): 15.0,  # the oncoming vehicle passes before or after the crossing
    frozenset({_B.CROSS, _B.OPEN_DOOR}): 15.0,
    frozenset({_B.CROSS, _B.BLOCK}): 15.0,
    frozenset({_B.CROSS, _B.CUT_IN}): 20.0,
    frozenset({_B.CUT_IN, _B.SLOW_AHEAD}): 20.0,
}


def apart(one: AdversaryBehaviour, other: AdversaryBehaviour) -> float | None:
    """Distance in metres that the places of two behaviours need; None: they do not go together."""
    return APART_M.get(frozenset({one, other}))


def companions(behaviour: AdversaryBehaviour) -> list[AdversaryBehaviour]:
    """Behaviours that can act together with this one, in the order of the enum."""
    return [other for other in AdversaryBehaviour if apart(behaviour, other) is not None]
