"""Behaviours that can act together in one scenario, and the distance that their places need.

An attentive driver must be able to handle both: a follower behind a stop that can be seen coming, an oncoming vehicle
in the lane that is needed for passing, two pedestrians, a pedestrian behind a junction that somebody crosses without
giving way.
"""

from __future__ import annotations

from collections.abc import Mapping

from closedloop_plugin.threats.words import AdversaryBehaviour

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
