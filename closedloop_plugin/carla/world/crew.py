"""All actors of one simulation, and how they are taken away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import carla

from closedloop_plugin.carla.world.lights import LightShow
from closedloop_plugin.carla.world.member import Member
from closedloop_plugin.carla.world.sensors import Eye, Feelers, Hung
from closedloop_plugin.carla.world.traffic import Traffic
from closedloop_plugin.worlds.bodies.body import Body


@dataclass
class Crew:
    """The ego is the first of `members`."""

    members: list[Member] = field(default_factory=list)
    controllers: list[Any] = field(default_factory=list)  # of walkers whose behaviours are CARLA's own
    eyes: dict[str, Eye] = field(default_factory=dict)
    hung: list[Hung] = field(default_factory=list)  # the program's own sensors
    feelers: Feelers | None = None
    traffic: Traffic | None = None
    show: LightShow | None = None

    def of(self, actor: Any) -> Member:
        return next(m for m in self.members if m.actor.id == actor.id)

    def sensors(self) -> list[Any]:
        eyes = [eye.actor for eye in self.eyes.values()]
        return eyes + [one.actor for one in self.hung] + (self.feelers.actors if self.feelers else [])

    def known(self) -> dict[int, Body]:
        """Bodies by their actor's id."""
        found = {m.actor.id: m.body for m in self.members}
        if self.traffic:
            found |= {a.id: b for a, b in zip(self.traffic.actors, self.traffic.bodies, strict=True)}
        return found

    def driven(self) -> list[Any]:
        """Vehicles that the traffic manager may have to do with."""
        return [m.actor for m in self.members if m.is_vehicle] + (self.traffic.actors if self.traffic else [])

    def everybody(self) -> list[Any]:
        """Commands that take all of them away."""
        ids = [*(a.id for a in self.sensors()), *(c.id for c in self.controllers), *(m.actor.id for m in self.members)]
        gone = [carla.command.DestroyActor(actor) for actor in ids]
        return gone + (self.traffic.leave() if self.traffic else [])
