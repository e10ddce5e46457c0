"""SceneActor: one Scenic object in CARLA, with its spawning, its body and the state sent to the server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import carla
from scenic.core.vectors import Orientation, Vector

from closedloop_plugin.carla.world.conversions import DOORS, HIDDEN_Z, light_state, read, transform, vector
from closedloop_plugin.core.frames import scenic_heading
from closedloop_plugin.core.state import STATIC, ActorKind
from closedloop_plugin.worlds.base import InvalidScene
from closedloop_plugin.worlds.bodies.body import EGO, WALKERS, SimulatedBody
from closedloop_plugin.worlds.bodies.vehicle import MotionState, place
from closedloop_plugin.worlds.bridge.stage import in_scene

AIM_M = 1.0  # a walker's target lies this far beyond its rail's point
CATCH_UP = 1.5  # m/s above the rail's speed, at most
NEAR_M = 0.1  # position tolerance of a walker


class SceneActor:
    """Moves one actor and reads its state.

    A vehicle with a rail is teleported at every tick with physics off, as in CARLA's co-simulation with SUMO; without a
    rail its behaviour's pedals drive it. A walker with a rail is controlled to follow it with physics on, since the
    server does not animate walkers without physics. Methods that yield commands expect them to be sent in one batch.
    """

    def __init__(self, body: SimulatedBody, obj: Any, actor: Any, physics: bool) -> None:
        self.body, self.obj, self.actor = body, obj, actor
        self.offset = float(actor.bounding_box.location.x)
        self.lifted = False  # spawned above its place, which was occupied
        self.lost = False  # removed by the server: fallen off the map, or a walker some time after being run over
        self.headlights = False
        self._half = 0.5 * body.height
        self.z = 0.0  # m, of the ground below it
        self.physics = physics
        self._has_physics = bool(obj.physics) and body.kind not in STATIC  # while it has no rail
        self._lamps: frozenset[str] = frozenset()
        self._doors: frozenset[str] = frozenset()
        self._hidden = False  # at HIDDEN_Z
        self._last_pose: tuple[float, float, float] | None = None  # x, y, yaw of the last teleport, if it still holds

    @property
    def is_vehicle(self) -> bool:
        return isinstance(self.actor, carla.Vehicle)

    @property
    def walks(self) -> bool:
        return self.body.kind in WALKERS

    def read_object(self) -> None:
        """Read the attributes that the object's behaviour has set since the last tick."""
        body, obj = self.body, self.obj
        body.gone = self.lost or bool(getattr(obj, "gone", False)) or not in_scene(getattr(obj, "part", None))
        body.rail = None if body.was_hit else getattr(obj, "rail", None)
        body.lamps = frozenset(getattr(obj, "lamps", None) or ())
        body.doors = frozenset(getattr(obj, "doors", None) or ())

    def move_commands(self, dt: float, allowed: float, ground: Any) -> Iterator[Any]:
        """Motion commands for this tick. `allowed`: highest acceleration that traffic on its rail permits, m/s2."""
        body, rail = self.body, self.body.rail
        if self.lost:
            return
        if body.gone:
            yield from self._hide()
        elif rail is not None:
            speed_before = body.motion.v
            rail.advance(dt, allowed)
            body.braking = not self.walks and ((rail.now or 0.0) < speed_before - 0.3 * dt or (rail.now or 0.0) < 0.05)
            yield from self._walk_after(dt, ground) if self.walks else self._follow_exactly(dt, ground)
        else:
            if self._hidden:  # visible again without a rail: at its last pose
                yield from self._teleport(ground)
            if self._has_physics:
                yield from self._enable_physics()
            if body.was_hit:
                yield from self._stop()

    def light_commands(self) -> Iterator[Any]:
        """Commands for changed lamps. Doors are opened and closed directly: there is no command for them."""
        if not self.is_vehicle or self.lost:
            return
        body = self.body
        lamps = body.lamps | {"brake"} if body.braking else body.lamps
        lamps = lamps | {"headlights"} if self.headlights else lamps
        if lamps != self._lamps:
            self._lamps = lamps
            yield carla.command.SetVehicleLightState(self.actor.id, light_state(lamps))
        for side in body.doors - self._doors:
            self.actor.open_door(DOORS[side])
        for side in self._doors - body.doors:
            self.actor.close_door(DOORS[side])
        self._doors = body.doors

    def update(self, snapshot: Any) -> None:
        """Update the body from a snapshot, unless it is hidden or was teleported on a rail."""
        found = snapshot.find(self.actor.id)
        if found is None:
            self.lost = self.body.gone = True
        elif not self.body.gone and (self.body.rail is None or self.walks):
            read(self.body, found, self.offset)
            self.z = float(found.get_transform().location.z)
            if self.walks:  # a walker's yaw lags behind its direction of motion
                self.body.motion.v = math.hypot(self.body.motion.vx, self.body.motion.vy)

    def start_commands(self, ground: Any) -> Iterator[Any]:
        """Commands for the start: hide it, or teleport it to its place unless it falls there by physics."""
        if self.body.gone:
            yield from self._hide()
        elif not self.physics or self.lifted:
            falls = self.physics
            yield from self._teleport(ground)
            if falls:
                yield from self._enable_physics()

    # -- commands --------------------------------------------------------------------------------------------------
    def _follow_exactly(self, dt: float, ground: Any) -> Iterator[Any]:
        assert self.body.rail is not None
        x, y, yaw = self.body.rail.pose()
        if self._hidden:
            self.body.motion.yaw = yaw
        place(self.body.motion, x, y, yaw, self.body.rail.now or 0.0, dt)
        yield from self._teleport(ground)

    def _teleport(self, ground: Any) -> Iterator[Any]:
        """Commands that put the actor at its body's pose, on the ground, with physics off."""
        m = self.body.motion
        if self.physics:
            self.physics = False
            yield carla.command.SetSimulatePhysics(self.actor.id, False)
        self._hidden = False
        if self._last_pose == (m.x, m.y, m.yaw):
            return
        self._last_pose = m.x, m.y, m.yaw
        self.z, pitch = ground.slope(m.x, m.y, m.yaw)
        x, y = m.x - self.offset * math.cos(m.yaw), m.y - self.offset * math.sin(m.yaw)
        z = self.z
        if self.walks:  # a walker's origin is its centre, others' is on the ground
            z, pitch = self.z + self._half + 0.05, 0.0
        yield carla.command.ApplyTransform(self.actor.id, transform(x, y, z, m.yaw, pitch))

    def _enable_physics(self) -> Iterator[Any]:
        """Commands that enable CARLA's physics, with the body's velocity."""
        self._last_pose = None
        if not self.physics:
            self.physics = True
            yield carla.command.SetSimulatePhysics(self.actor.id, True)
            if not self.walks:
                yield carla.command.ApplyTargetVelocity(self.actor.id, vector(self.body.motion.vx, self.body.motion.vy))

    def _stop(self) -> Iterator[Any]:
        """Commands that stop an actor that was hit, overriding its behaviour (a control holds until the next one)."""
        if self.is_vehicle:
            self.body.braking = True
            yield carla.command.ApplyVehicleControl(self.actor.id, carla.VehicleControl(brake=1.0))
        elif self.walks:
            yield carla.command.ApplyWalkerControl(self.actor.id, carla.WalkerControl())

    def _hide(self) -> Iterator[Any]:
        if self._hidden:
            return
        self._hidden, self._last_pose = True, None
        if self.physics:
            self.physics = False
            yield carla.command.SetSimulatePhysics(self.actor.id, False)
        m = self.body.motion
        yield carla.command.ApplyTransform(self.actor.id, transform(m.x, m.y, HIDDEN_Z, m.yaw))

    def _walk_after(self, dt: float, ground: Any) -> Iterator[Any]:
        """Walk after the rail's point; speed = rail speed + min(gap along the rail, CATCH_UP) (proportional, 1/s)."""
        rail, m = self.body.rail, self.body.motion
        assert rail is not None
        x, y, yaw = rail.pose()
        if self._hidden or not self.physics:
            place(m, x, y, yaw, rail.now or 0.0, dt)
            yield from self._teleport(ground)
            yield from self._enable_physics()
        c, s = math.cos(yaw), math.sin(yaw)
        ahead = (x - m.x) * c + (y - m.y) * s
        speed = max(0.0, (rail.now or 0.0) + min(ahead, CATCH_UP))
        if not rail.now and ahead < NEAR_M:
            speed = 0.0
        dx, dy = x + AIM_M * c - m.x, y + AIM_M * s - m.y
        far = math.hypot(dx, dy)
        way = vector(dx / far, dy / far) if far > NEAR_M else vector(c, s)
        yield carla.command.ApplyWalkerControl(self.actor.id, carla.WalkerControl(way, speed, False))

    def dynamic_properties(self) -> dict[str, Any]:
        """Values of Scenic's dynamic properties."""
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


LIFTS = (0.2, 0.5, 1.0, 2.0)  # m above the ground, tried in turn: an actor that touches the ground cannot be spawned
WALKER_LIFTS = (1.1, 1.5, 2.0)  # m; a walker's origin is its centre
SKY_LIFTS = tuple(60.0 + 5.0 * k for k in range(32))  # m: free air; the actor is moved to its place afterwards
HUGE_M = 30.0  # largest valid half length: CARLA reports infinite ones


def blueprint_for(library: Any, obj: Any, is_ego: bool) -> Any:
    """The object's blueprint with its attributes set. InvalidScene: the server does not have it."""
    from scenic.simulators.carla.blueprints import oldBlueprintNames

    for name in (obj.blueprint, *oldBlueprintNames.get(obj.blueprint, ())):
        try:
            blueprint = library.find(name)
            break
        except IndexError:
            continue
    else:
        raise InvalidScene(f"the CARLA server has no blueprint {obj.blueprint!r}")
    role = "hero" if is_ego else obj.rolename  # the traffic manager's hybrid physics is centred on the hero
    wanted = {"role_name": role, "is_invincible": "False"}
    colour = getattr(obj, "color", None)
    if colour is not None:
        wanted["color"] = ",".join(str(int(255 * float(part))) for part in colour[:3])
    for key, value in wanted.items():
        if value is not None and blueprint.has_attribute(key):
            blueprint.set_attribute(key, value)
    return blueprint


def spawn(world: Any, blueprint: Any, x: float, y: float, z: float, yaw: float, must_fit: bool) -> tuple[Any, bool]:
    """Spawn at a pose in the map frame. Returns (actor, whether it is in the air above since the place is occupied).

    InvalidScene: no room, with `must_fit` already if the place is occupied.
    """
    lifts = WALKER_LIFTS if blueprint.id.startswith("walker.") else LIFTS
    for lift in lifts if must_fit else (*lifts, *SKY_LIFTS):
        actor = world.try_spawn_actor(blueprint, transform(x, y, z + lift, yaw))
        if actor is not None:
            return actor, lift in SKY_LIFTS
    raise InvalidScene(f"CARLA finds no room for {blueprint.id} at ({x:.1f}, {y:.1f})")


def kind_of_object(obj: Any) -> ActorKind:
    """Kind that the program gives the object. InvalidScene: unknown."""
    try:
        return ActorKind(str(getattr(obj, "kind", "car")))
    except ValueError as exc:
        raise InvalidScene(f"kind {obj.kind!r}: no such kind; known: {', '.join(ActorKind)}") from exc


def body_of(obj: Any, actor: Any, kind: ActorKind, name: str, motion: MotionState) -> SimulatedBody:
    """The object's body, with CARLA's size unless that is invalid (CARLA issue 5841)."""
    extent = actor.bounding_box.extent
    given = (obj.length, obj.width, obj.height)
    measured = zip((extent.x, extent.y, extent.z), given, strict=True)
    length, width, height = (
        float(2 * half if math.isfinite(half) and 0 < half < HUGE_M else own) for half, own in measured
    )
    obj.length, obj.width, obj.height = length, width, height
    role = EGO if name == EGO else str(getattr(obj, "role", "scenario"))
    return SimulatedBody(id=name, kind=kind, motion=motion, length=length, width=width, height=height, role=role)
