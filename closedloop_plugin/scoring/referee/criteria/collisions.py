"""Collisions: who counts, and when a contact is a new one.

- The same body hit again within 5 s, or before the ego is 5 m away from where it hit it, is the same collision.
- A contact while the ego stands (under 0.1 m/s just before) is not the ego's: it was hit. The push that it gets thereby
  is excused as long, or it would count one tick later.
- Vehicles and bicycles are collisions_vehicle, people collisions_pedestrian, all else collisions_layout, as CARLA tells
  them by the type of the other actor (vehicle.*, walker.*, static.*). CARLA has no animals; what stands for one there
  is a walker, so an animal counts as collisions_pedestrian here.
"""

from __future__ import annotations

import math

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import PEDESTRIANS, VEHICLES, ActorKind, EgoContact, GroundTruth
from closedloop_plugin.scoring.referee.criteria.base import InfractionEvent, at
from closedloop_plugin.scoring.referee.progress import RouteProgress

STANDS = 0.1  # m/s: below it a contact is not the ego's
EPS = 1e-9  # times are sums of 0.05 s

Moment = tuple[float, float, float]  # time_s, and the ego's x, y


class CollisionCriterion:
    def __init__(self, profile: Profile) -> None:
        self._same_s, self._same_m = profile.same_actor_s, profile.same_actor_m
        self._counted: dict[str, Moment] = {}  # by actor: its last collision
        self._excused: dict[str, Moment] = {}  # by actor: when it hit the standing ego
        self._speed: float | None = None

    def tick(self, truth: GroundTruth, progress: RouteProgress) -> list[InfractionEvent]:
        # The crash itself has already slowed the ego of this tick: the speed before it is what tells.
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
        if speed < STANDS:
            self._excused[actor] = now
            return False
        self._counted[actor] = now
        return True

    def _soon(self, then: Moment, now: Moment) -> bool:
        return now[0] - then[0] <= self._same_s + EPS

    def _near(self, then: Moment, now: Moment) -> bool:
        return math.dist(then[1:], now[1:]) <= self._same_m


def _finding(truth: GroundTruth, contact: EgoContact) -> InfractionEvent:
    kind, name = _sort(contact.kind)
    text = f"Agent collided against object with type={name} and id={contact.actor} at {at(truth.ego)}"
    return InfractionEvent(kind, truth.time_s, contact.x, contact.y, text)


def _sort(kind: ActorKind) -> tuple[str, str]:
    """(list of the record, type name in CARLA's manner)."""
    name = kind.value.replace(" ", "_")
    if kind in PEDESTRIANS or kind is ActorKind.ANIMAL:
        return "collisions_pedestrian", f"walker.{name}"
    return ("collisions_vehicle", f"vehicle.{name}") if kind in VEHICLES else ("collisions_layout", f"static.{name}")
