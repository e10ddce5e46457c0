"""Whom the ego has touched: from the collision sensor's actors to the bodies that we know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from closedloop_plugin.carla.world.looks import kind_of
from closedloop_plugin.core.state import Contact
from closedloop_plugin.worlds.bodies.body import WALKERS, Body

COUNTED = ("vehicle.", "walker.", "static.", "traffic.")  # as CARLA's own criterion has it
KERB = "sidewalk"  # not a collision there
APART_M = 5.0  # a wall hit so far from where one was hit before is another


class Contacts:
    """What stands in a town has no id of its own (CARLA gives all of it 0): it is told apart by the place."""

    def __init__(self) -> None:
        self._walls: list[tuple[str, float, float]] = []  # type, and where the ego was then

    def of(self, hits: Iterable[tuple[Any, float]], known: Mapping[int, Body], ego: Body) -> tuple[Contact, ...]:
        """hits: (actor, impulse in kg m/s). Whoever is hit does not ride on."""
        found = []
        for other, impulse in hits:
            body = known.get(other.id)
            if body is not None:
                body.stunned = body.stunned or body.rail is not None or body.kind in WALKERS
                found.append(Contact(body.id, body.kind, body.motion.x, body.motion.y, impulse))
            elif str(other.type_id).startswith(COUNTED) and KERB not in str(other.type_id):
                m = ego.motion
                found.append(Contact(self._name(other, m.x, m.y), kind_of(other), m.x, m.y, impulse))
        return tuple(found)

    def _name(self, other: Any, x: float, y: float) -> str:
        """Of one that is none of ours: a pole, a house, a parked car of the map."""
        if other.id:
            return f"{other.type_id}-{other.id}"
        kind = str(other.type_id)
        for i, (its_kind, wx, wy) in enumerate(self._walls):
            if its_kind == kind and math.hypot(wx - x, wy - y) <= APART_M:
                return f"{kind}-0.{i}"
        self._walls.append((kind, x, y))
        return f"{kind}-0.{len(self._walls) - 1}"
