"""One Scenic object in CARLA: its actor, its body, and what of it has been told to the server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import carla
from scenic.core.vectors import Orientation, Vector

from closedloop_plugin.frames import scenic_heading
from closedloop_plugin.worlds.bodies.body import WALKERS, Body
from closedloop_plugin.worlds.bodies.vehicle import place
from closedloop_plugin.worlds.carla_parts.looks import DOORS, light_state
from closedloop_plugin.worlds.carla_parts.places import ABYSS, read, transform, vector


class Member:
    """A vehicle with a rail is put where the rail says at every tick, its own physics off, as CARLA's co-simulation
    with SUMO does; without one its behaviour's pedals drive it. A walker with a rail walks after it on its own legs."""

    def __init__(self, body: Body, obj: Any, actor: Any, physics: bool) -> None:
        self.body, self.obj, self.actor = body, obj, actor
        self.offset = float(actor.bounding_box.location.x)
        self.lifted = False  # no room was found on the ground: it hangs above its place
        self._half = max(float(actor.bounding_box.extent.z), 0.0)
        self.z = 0.0  # of the ground below it
        self.physics = physics
        self._lamps: frozenset[str] = frozenset()
        self._doors: frozenset[str] = frozenset()
        self._away = False  # waits in the abyss

    @property
    def is_vehicle(self) -> bool:
        return isinstance(self.actor, carla.Vehicle)

    @property
    def walks(self) -> bool:
        return self.body.kind in WALKERS

    def look(self) -> None:
        """Take what the object's behaviour has said since the last tick."""
        body, obj = self.body, self.obj
        body.gone = bool(getattr(obj, "gone", False))
        body.rail = None if body.stunned else getattr(obj, "rail", None)
        body.lamps = frozenset(getattr(obj, "lamps", None) or ())
        body.doors = frozenset(getattr(obj, "doors", None) or ())

    def move(self, dt: float, allowed: float, ground: Any) -> Iterator[Any]:
        """Commands for this tick. `allowed`: the highest acceleration that traffic ahead permits on its rail."""
        body, rail = self.body, self.body.rail
        if body.gone:
            yield from self._leave()
            return
        if rail is not None:
            was = body.motion.v
            rail.advance(dt, allowed)
            body.braking = not self.walks and ((rail.now or 0.0) < was - 0.3 * dt or (rail.now or 0.0) < 0.05)
            if self.walks:
                yield from self._walk()
            else:
                yield from self._ride(dt, ground)
        elif body.stunned and self.is_vehicle:
            body.braking = True
            yield from self._free()
            yield carla.command.ApplyVehicleControl(self.actor.id, carla.VehicleControl(brake=1.0))
        elif not self.walks and self._away:  # on the stage again without a rail: where it was put
            yield from self._put(ground)

    def shows(self) -> Iterator[Any]:
        """Commands for lamps that changed; doors are opened at once."""
        if not self.is_vehicle:
            return
        body = self.body
        lamps = body.lamps | {"brake"} if body.braking else body.lamps
        if lamps != self._lamps:
            self._lamps = lamps
            yield carla.command.SetVehicleLightState(self.actor.id, light_state(lamps))
        for side in body.doors - self._doors:
            self.actor.open_door(DOORS[side])
        for side in self._doors - body.doors:
            self.actor.close_door(DOORS[side])
        self._doors = body.doors

    def see(self, snapshot: Any) -> None:
        """Where it is now; who rides a rail or is away is where we put it."""
        if self.body.gone or (self.body.rail is not None and not self.walks):
            return
        seen = snapshot.find(self.actor.id)
        if seen is not None:
            read(self.body, seen, self.offset)
            self.z = float(seen.get_transform().location.z)

    def stand(self, ground: Any) -> Iterator[Any]:
        """Commands for the start: off the stage, on its place, or nothing where its own weight puts it there."""
        if self.body.gone:
            yield from self._leave()
        elif not self.physics or self.lifted:
            physics, self.physics = self.physics, False
            yield from self._put(ground)
            self.physics = physics

    # -- commands --------------------------------------------------------------------------------------------------
    def _ride(self, dt: float, ground: Any) -> Iterator[Any]:
        assert self.body.rail is not None
        x, y, yaw = self.body.rail.pose()
        if self._away:
            self.body.motion.yaw = yaw
        place(self.body.motion, x, y, yaw, self.body.rail.now or 0.0, dt)
        yield from self._put(ground)

    def _put(self, ground: Any) -> Iterator[Any]:
        """To where its body is, on the ground there."""
        m = self.body.motion
        if self.physics:
            self.physics = False
            yield carla.command.SetSimulatePhysics(self.actor.id, False)
        self.z, pitch = ground.slope(m.x, m.y, m.yaw)
        self._away = False
        x, y = m.x - self.offset * math.cos(m.yaw), m.y - self.offset * math.sin(m.yaw)
        z = self.z + (self._half + 0.05 if self.walks else 0.0)  # a walker's origin is its middle, others' their foot
        yield carla.command.ApplyTransform(self.actor.id, transform(x, y, z, m.yaw, pitch))

    def _free(self) -> Iterator[Any]:
        """Give a body back to CARLA's physics, with the speed that it has."""
        if not self.physics:
            self.physics = True
            yield carla.command.SetSimulatePhysics(self.actor.id, True)
            yield carla.command.ApplyTargetVelocity(self.actor.id, vector(self.body.motion.vx, self.body.motion.vy))

    def _leave(self) -> Iterator[Any]:
        if self._away:
            return
        self._away = True
        if self.physics:
            self.physics = False
            yield carla.command.SetSimulatePhysics(self.actor.id, False)
        m = self.body.motion
        yield carla.command.ApplyTransform(self.actor.id, transform(m.x, m.y, ABYSS, m.yaw))

    def _walk(self) -> Iterator[Any]:
        """After the rail's point, a little faster the farther it is ahead."""
        rail, m = self.body.rail, self.body.motion
        assert rail is not None
        x, y, yaw = rail.pose()
        dx, dy = x - m.x, y - m.y
        behind = (dx * dx + dy * dy) ** 0.5
        way = vector(dx / behind, dy / behind) if behind > 0.3 else vector(math.cos(yaw), math.sin(yaw))
        speed = (rail.now or 0.0) + 0.5 * min(behind, 1.0) if rail.now else 0.0
        yield carla.command.ApplyWalkerControl(self.actor.id, carla.WalkerControl(way, speed, False))

    def values(self) -> dict[str, Any]:
        """Scenic's dynamic properties."""
        m = self.body.motion
        heading = Orientation._fromHeading(scenic_heading(m.yaw))
        yaw, pitch, roll = self.obj.parentOrientation.localAnglesFor(heading)
        return {
            "position": Vector(m.x, m.y, self.z),
            "velocity": Vector(m.vx, m.vy, 0.0),
            "speed": abs(m.v),
            "angularSpeed": m.yaw_rate,
            "angularVelocity": Vector(0.0, 0.0, m.yaw_rate),
            "yaw": yaw,
            "pitch": pitch,
            "roll": roll,
            "elevation": self.z,
        }
