"""One Scenic object in CARLA: its actor, its body, and what of it has been told to the server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import carla
from scenic.core.vectors import Orientation, Vector

from closedloop_plugin.carla.world.appearance import DOORS, light_state
from closedloop_plugin.carla.world.transforms import ABYSS, read, transform, vector
from closedloop_plugin.core.frames import scenic_heading
from closedloop_plugin.core.state import STATIC
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import place

AIM_M = 1.0  # a walker heads for a point so far beyond that of its rail
HURRY = 1.5  # m/s beyond the rail's speed, at most, to catch up
NEAR_M = 0.1  # it need not walk to be nearer


class SceneActor:
    """A vehicle with a rail is put where the rail says at every tick, its own physics off, as CARLA's co-simulation
    with SUMO does; without one its behaviour's pedals drive it. A walker with a rail walks after it on its own legs:
    the server moves nobody's legs whose physics is off."""

    def __init__(self, body: SimulatedBody, obj: Any, actor: Any, physics: bool) -> None:
        self.body, self.obj, self.actor = body, obj, actor
        self.offset = float(actor.bounding_box.location.x)
        self.lifted = False  # no room was found on the ground: it hangs above its place
        self.lost = False  # the server has taken it away: fallen off the map; a walker some time after it was run over
        self.dark = False  # headlights on
        self._half = 0.5 * body.height
        self.z = 0.0  # of the ground below it
        self.physics = physics
        self._own = bool(obj.physics) and body.kind not in STATIC  # on its own it has physics
        self._lamps: frozenset[str] = frozenset()
        self._doors: frozenset[str] = frozenset()
        self._away = False  # waits in the abyss
        self._put_at: tuple[float, float, float] | None = None  # x, y, yaw of the last command; it is still there

    @property
    def is_vehicle(self) -> bool:
        return isinstance(self.actor, carla.Vehicle)

    @property
    def walks(self) -> bool:
        return self.body.kind in WALKERS

    def look(self) -> None:
        """Take what the object's behaviour has said since the last tick."""
        body, obj = self.body, self.obj
        body.gone = self.lost or bool(getattr(obj, "gone", False))
        body.rail = None if body.was_hit else getattr(obj, "rail", None)
        body.lamps = frozenset(getattr(obj, "lamps", None) or ())
        body.doors = frozenset(getattr(obj, "doors", None) or ())

    def move(self, dt: float, allowed: float, ground: Any) -> Iterator[Any]:
        """Commands for this tick. `allowed`: the highest acceleration that traffic ahead permits on its rail."""
        body, rail = self.body, self.body.rail
        if self.lost:
            return
        if body.gone:
            yield from self._leave()
        elif rail is not None:
            was = body.motion.v
            rail.advance(dt, allowed)
            body.braking = not self.walks and ((rail.now or 0.0) < was - 0.3 * dt or (rail.now or 0.0) < 0.05)
            yield from self._follow(dt, ground) if self.walks else self._ride(dt, ground)
        else:
            if self._away:  # on the stage again without a rail: where it was put
                yield from self._put(ground)
            if self._own:
                yield from self._free()
            if body.was_hit:
                yield from self._stop()

    def shows(self) -> Iterator[Any]:
        """Commands for lamps that changed; doors are opened at once."""
        if not self.is_vehicle or self.lost:
            return
        body = self.body
        lamps = body.lamps | {"brake"} if body.braking else body.lamps
        lamps = lamps | {"headlights"} if self.dark else lamps
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
        seen = snapshot.find(self.actor.id)
        if seen is None:
            self.lost = self.body.gone = True
        elif not self.body.gone and (self.body.rail is None or self.walks):
            read(self.body, seen, self.offset)
            self.z = float(seen.get_transform().location.z)
            if self.walks:  # its body turns after its feet
                self.body.motion.v = math.hypot(self.body.motion.vx, self.body.motion.vy)

    def stand(self, ground: Any) -> Iterator[Any]:
        """Commands for the start: off the stage, on its place, or nothing where its own weight puts it there."""
        if self.body.gone:
            yield from self._leave()
        elif not self.physics or self.lifted:
            falls = self.physics
            yield from self._put(ground)
            if falls:
                yield from self._free()

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
        self._away = False
        if self._put_at == (m.x, m.y, m.yaw):
            return
        self._put_at = m.x, m.y, m.yaw
        self.z, pitch = ground.slope(m.x, m.y, m.yaw)
        x, y = m.x - self.offset * math.cos(m.yaw), m.y - self.offset * math.sin(m.yaw)
        z = self.z
        if self.walks:  # its origin is its middle, others' their foot
            z, pitch = self.z + self._half + 0.05, 0.0
        yield carla.command.ApplyTransform(self.actor.id, transform(x, y, z, m.yaw, pitch))

    def _free(self) -> Iterator[Any]:
        """Give a body back to CARLA's physics, with the speed that it has."""
        self._put_at = None
        if not self.physics:
            self.physics = True
            yield carla.command.SetSimulatePhysics(self.actor.id, True)
            if not self.walks:
                yield carla.command.ApplyTargetVelocity(self.actor.id, vector(self.body.motion.vx, self.body.motion.vy))

    def _stop(self) -> Iterator[Any]:
        """Who was hit goes on no more, whatever its behaviour says. (A control holds until the next one.)"""
        if self.is_vehicle:
            self.body.braking = True
            yield carla.command.ApplyVehicleControl(self.actor.id, carla.VehicleControl(brake=1.0))
        elif self.walks:
            yield carla.command.ApplyWalkerControl(self.actor.id, carla.WalkerControl())

    def _leave(self) -> Iterator[Any]:
        if self._away:
            return
        self._away, self._put_at = True, None
        if self.physics:
            self.physics = False
            yield carla.command.SetSimulatePhysics(self.actor.id, False)
        m = self.body.motion
        yield carla.command.ApplyTransform(self.actor.id, transform(m.x, m.y, ABYSS, m.yaw))

    def _follow(self, dt: float, ground: Any) -> Iterator[Any]:
        """After the rail's point, a little faster the farther it is ahead."""
        rail, m = self.body.rail, self.body.motion
        assert rail is not None
        x, y, yaw = rail.pose()
        if self._away or not self.physics:
            place(m, x, y, yaw, rail.now or 0.0, dt)
            yield from self._put(ground)
            yield from self._free()
        c, s = math.cos(yaw), math.sin(yaw)
        ahead = (x - m.x) * c + (y - m.y) * s
        speed = max(0.0, (rail.now or 0.0) + min(ahead, HURRY))
        if not rail.now and ahead < NEAR_M:
            speed = 0.0
        dx, dy = x + AIM_M * c - m.x, y + AIM_M * s - m.y
        far = math.hypot(dx, dy)
        way = vector(dx / far, dy / far) if far > NEAR_M else vector(c, s)
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
