"""Collisions: classification, and which contacts count as a new collision.

- Contact with the same body within 5 s, or less than 5 m from the place of the first contact, is the same collision.
- A contact while the ego is stationary (below 0.1 m/s in the tick before) is not the ego's fault and not counted. Later
  contacts with that body are ignored within both limits: the push moves the ego, and would count one tick later.
- Vehicles and bicycles are collisions_vehicle, people collisions_pedestrian, all else collisions_layout, as CARLA
  classifies by actor type (vehicle.*, walker.*, static.*). CARLA has no animals and represents them by walkers, so an
  animal counts as collisions_pedestrian.
"""

from __future__ import annotations

import math

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import PEDESTRIANS, VEHICLES, ActorKind, EgoContact, GroundTruth
from closedloop_plugin.scoring.referee.criteria.base import InfractionEvent, at
from closedloop_plugin.scoring.referee.progress import RouteProgress

STATIONARY = 0.1  # m/s: below it a contact is not the ego's fault
EPS = 1e-9  # times are sums of 0.05 s

Moment = tuple[float, float, float]  # time_s, and the ego's x, y


class CollisionCriterion:
    def __init__(self, profile: Profile) -> None:
        self._same_s, self._same_m = profile.same_actor_s, profile.same_actor_m
        self._counted: dict[str, Moment] = {}  # actor -> its last collision
        self._excused: dict[str, Moment] = {}  # actor -> when it hit the stationary ego
        self._speed: float | None = None

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> list[InfractionEvent]:
        # The impact has already slowed the ego in this tick, so the speed of the tick before is used.
        speed = abs(truth.ego.speed) if self._speed is None else self._speed
        self._speed = abs(truth.ego.speed)
        return [_finding(truth, contact) for contact in truth.contacts if self._is_new(truth, contact.actor, speed)]

    def _is_new(self, truth: GroundTruth, actor: str, speed: float) -> bool:
        now = truth.time_s, truth.ego.x, truth.ego.y
        counted, excused = self._counted.get(actor), self._excused.get(actor)
        if counted and (self._soon(counted, now) or self._near(counted, now)):
            return False
        if excused and self._soon(excused, now) and self._near(excused, now):
            return False
        if speed < STATIONARY:
            self._excused[actor] = now
            return False
        self._counted[actor] = now
        return True

    def _soon(self, then: Moment, now: Moment) -> bool:
        return now[0] - then[0] <= self._same_s + EPS

    def _near(self, then: Moment, now: Moment) -> bool:
        return math.dist(then[1:], now[1:]) <= self._same_m


def _finding(truth: GroundTruth, contact: EgoContact) -> InfractionEvent:
    kind, name = _classified(contact.kind)
    text = f"Agent collided against object with type={name} and id={contact.actor} at {at(truth.ego)}"
    return InfractionEvent(kind, truth.time_s, contact.x, contact.y, text, contact.actor)


def _classified(kind: ActorKind) -> tuple[str, str]:
    """(name in record.INFRACTIONS, type name as in CARLA)."""
    name = kind.value.replace(" ", "_")
    if kind in PEDESTRIANS or kind is ActorKind.ANIMAL:
        return "collisions_pedestrian", f"walker.{name}"
    return ("collisions_vehicle", f"vehicle.{name}") if kind in VEHICLES else ("collisions_layout", f"static.{name}")
