"""Bodies that an infraction concerns without a contact: what the ego stands behind, and to whom it did not give way."""

from __future__ import annotations

import math

from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.state import EMERGENCY, Actor, GroundTruth

AHEAD_M = 12.0  # m between the fronts of a standing ego and the rear of a body that it may wait for
BESIDE_M = 0.3  # clearance on each side of the ego, m; a body within it blocks the ego


def body_ahead(truth: GroundTruth) -> str:
    """Id of the nearest body straight ahead of the ego, in its way; "" if there is none."""
    found = [(gap, actor.id) for actor in truth.actors if (gap := _gap_ahead(truth.ego, actor)) is not None]
    return min(found)[1] if found else ""


def _gap_ahead(ego: Actor, actor: Actor) -> float | None:
    """Distance (m) from the ego's front to the body, along the ego; None if the body is not in its way."""
    ahead, left = to_ego(actor.x, actor.y, ego.x, ego.y, ego.yaw)
    turn = actor.yaw - ego.yaw
    c, s = abs(math.cos(turn)), abs(math.sin(turn))
    # Half extents of the body's box along and across the ego.
    along, across = 0.5 * (actor.length * c + actor.width * s), 0.5 * (actor.length * s + actor.width * c)
    if ahead <= 0 or abs(left) > 0.5 * ego.width + BESIDE_M + across:
        return None
    gap = ahead - along - 0.5 * ego.length
    return gap if gap <= AHEAD_M else None


def emergency_vehicle(truth: GroundTruth) -> str:
    """Id of the emergency vehicle nearest to the ego, of those with a siren if any has one; "" if there is none."""
    vehicles = [a for a in truth.actors if a.kind in EMERGENCY]
    loud = [a for a in vehicles if "siren" in a.lamps] or vehicles
    ego = truth.ego
    return min(loud, key=lambda a: math.hypot(a.x - ego.x, a.y - ego.y)).id if loud else ""
