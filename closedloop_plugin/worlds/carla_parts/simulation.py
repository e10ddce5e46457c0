"""Scenic's CARLA simulation with our stage in it: bodies, rails, lights, traffic and sensors, one tick at a time.

What Scenic 3.1.1 does there and we do not: wait for ever for a sensor's frame, refuse a speed at the start, take random
weather, and read angular speeds from the wrong axis.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import carla
from scenic.simulators.carla.simulator import CarlaSimulation, CarlaSimulator

from closedloop_plugin.frames import yaw_of_heading
from closedloop_plugin.routes import Weather
from closedloop_plugin.state import STATIC, Contact, Kind
from closedloop_plugin.worlds.base import Camera
from closedloop_plugin.worlds.bodies import follow
from closedloop_plugin.worlds.bodies.body import WALKERS, Body
from closedloop_plugin.worlds.bodies.lights import Lights
from closedloop_plugin.worlds.bodies.vehicle import Motion
from closedloop_plugin.worlds.bridge.stage import Stage
from closedloop_plugin.worlds.carla_parts.lights import LightShow
from closedloop_plugin.worlds.carla_parts.looks import kind_of
from closedloop_plugin.worlds.carla_parts.member import Member
from closedloop_plugin.worlds.carla_parts.places import vector
from closedloop_plugin.worlds.carla_parts.sensors import Eye, Feelers
from closedloop_plugin.worlds.carla_parts.spawning import blueprint_for, spawn
from closedloop_plugin.worlds.carla_parts.traffic import Traffic, prepare
from closedloop_plugin.worlds.carla_parts.weather import parameters

SETTLE_TICKS = 12  # until a car that was spawned above the ground stands on its wheels
TICK_S = 60.0  # a tick that takes longer is a server that hangs


@dataclass
class Around:
    """What the world gives one simulation beside the scene."""

    stage: Stage
    lights: Lights
    ground: Any  # carla_parts.ground.Ground
    weather: Weather
    cameras: tuple[Camera, ...] = ()
    seed: int = 0


class StagedSimulator(CarlaSimulator):
    """Makes StagedSimulations; `around` is set before each."""

    around: Around

    def createSimulation(self, scene: Any, *, timestep: Any, **kwargs: Any) -> StagedSimulation:
        self.scenario_number += 1
        return StagedSimulation(scene, self, self.around, timestep=self.timestep, **kwargs)


@dataclass
class Crew:
    """The actors of one simulation."""

    members: list[Member] = field(default_factory=list)
    controllers: list[Any] = field(default_factory=list)  # of walkers whose behaviours are CARLA's own
    eyes: dict[str, Eye] = field(default_factory=dict)
    feelers: Feelers | None = None
    traffic: Traffic | None = None
    show: LightShow | None = None

    def of(self, actor: Any) -> Member:
        return next(m for m in self.members if m.actor.id == actor.id)

    def sensors(self) -> list[Any]:
        return [eye.actor for eye in self.eyes.values()] + (self.feelers.actors if self.feelers else [])

    def everybody(self) -> list[Any]:
        """Commands that take all of them away."""
        ids = [*(a.id for a in self.sensors()), *(c.id for c in self.controllers), *(m.actor.id for m in self.members)]
        gone = [carla.command.DestroyActor(actor) for actor in ids]
        return gone + (self.traffic.leave() if self.traffic else [])


class StagedSimulation(CarlaSimulation):
    """One run. `bodies`: the ego first, the other Scenic objects, the traffic. `contacts`: of the last tick."""

    def __init__(self, scene: Any, simulator: StagedSimulator, around: Around, **kwargs: Any) -> None:
        self.around, self.crew = around, Crew()
        self.contacts: tuple[Contact, ...] = ()
        self.crossed: tuple[str, ...] = ()
        super().__init__(scene, simulator.client, simulator.tm, False, "", simulator.scenario_number, **kwargs)

    @property
    def bodies(self) -> list[Body]:
        traffic = self.crew.traffic
        return [m.body for m in self.crew.members] + (traffic.bodies if traffic else [])

    # -- what Scenic asks for --------------------------------------------------------------------------------------
    def setup(self) -> None:
        around, crew = self.around, self.crew
        self.world.set_weather(parameters(around.weather))
        prepare(self.tm, around.seed)
        super(CarlaSimulation, self).setup()  # Scenic's own: every object, through createObjectInSimulator
        ego = crew.members[0].actor
        crew.show = LightShow(self.world, around.lights)
        crew.feelers = Feelers(self.world, ego)
        crew.eyes = {camera.name: Eye(self.world, ego, camera) for camera in around.cameras}
        if around.stage.traffic:
            taken = [(m.body.motion.x, m.body.motion.y) for m in crew.members]
            crew.traffic = Traffic(self.world, self.tm, around.stage.road, taken, around.seed)
        self._count_rails()
        self._settle()

    def createObjectInSimulator(self, obj: Any) -> Any:
        crew, ground = self.crew, self.around.ground
        is_ego = not crew.members
        blueprint = blueprint_for(self.blueprintLib, obj, is_ego)
        x, y, yaw = float(obj.position[0]), float(obj.position[1]), yaw_of_heading(float(obj.heading))
        z = ground.height(x, y)
        moved = not is_ego and (getattr(obj, "rail", None) is not None or getattr(obj, "gone", False))
        actor, lifted = spawn(self.world, blueprint, x, y, z, yaw, must_fit=is_ego)
        obj.carlaActor = actor
        body = _body_of(obj, actor, len(crew.members), Motion(x, y, yaw))
        member = Member(body, obj, actor, physics=bool(obj.physics) and not moved and body.kind not in STATIC)
        member.lifted = lifted
        crew.members.append(member)
        actor.set_simulate_physics(member.physics)
        if isinstance(actor, carla.Walker) and getattr(obj, "rail", None) is None:
            self._lead(obj, actor)
        return actor

    def step(self) -> None:
        self._move()
        self.current_frame = self.world.tick(TICK_S)
        self._see()

    def getProperties(self, obj: Any, properties: Any) -> dict[str, Any]:
        values = self.crew.of(obj.carlaActor).values()
        return {name: values[name] for name in properties}

    def currentState(self) -> tuple[Any, ...]:
        return ()  # our own records hold the tracks; Scenic's would grow with the episode

    def destroy(self) -> None:
        """Take away what was put there. A server that is dead cannot be cleaned, and its death is told elsewhere."""
        crew = self.crew
        with contextlib.suppress(RuntimeError):
            for sensor in crew.sensors():
                sensor.stop()
            for controller in crew.controllers:
                controller.stop()
            if crew.show:
                crew.show.release()
            self.client.apply_batch_sync(crew.everybody(), False)
            self.world.tick(TICK_S)

    # -- one tick --------------------------------------------------------------------------------------------------
    def _move(self) -> None:
        around, crew, dt = self.around, self.crew, self.timestep
        around.lights.step(self.currentTime * dt, around.stage.signals)
        if crew.show:
            crew.show.show()
        closed = follow.closed(around.lights)
        everyone = self.bodies
        commands: list[Any] = []
        for member in crew.members:
            member.look()
            self._count(member.body)
            allowed = follow.allowed(member.body, everyone, closed)
            commands += [*member.move(dt, allowed, around.ground), *member.shows()]
        if commands:
            self.client.apply_batch_sync(commands, False)

    def _see(self) -> None:
        """Read the world back."""
        crew, snapshot = self.crew, self.world.get_snapshot()
        for member in crew.members:
            member.see(snapshot)
        ego = crew.members[0]
        control = ego.actor.get_control()
        ego.body.steer, ego.body.braking = float(control.steer), float(control.brake) > 0.02
        if crew.traffic:
            crew.traffic.see(snapshot)
        if crew.feelers:
            self.contacts = tuple(self._touched(*hit) for hit in crew.feelers.collisions())
            self.crossed = crew.feelers.markings()

    def _touched(self, other: Any, impulse: float) -> Contact:
        """A contact of the ego's; who is hit hard does not ride on."""
        known = {m.actor.id: m.body for m in self.crew.members}
        if self.crew.traffic:
            known |= {a.id: b for a, b in zip(self.crew.traffic.actors, self.crew.traffic.bodies, strict=True)}
        body, m = known.get(other.id), self.bodies[0].motion
        if body is None:  # the town's own: a wall, a pole, a parked car of the map
            return Contact(f"{other.type_id}-{other.id}", kind_of(other), m.x, m.y, impulse)
        if body.rail is not None or body.kind in WALKERS:
            body.stunned = True
        return Contact(body.id, body.kind, body.motion.x, body.motion.y, impulse)

    # -- at the start ----------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Let everybody come to rest on the ground; then give speeds to those that are to have one."""
        driven = [m for m in self.crew.members if m.is_vehicle and m.physics]
        for member in driven:
            member.actor.apply_control(carla.VehicleControl(brake=1.0))
        self.client.apply_batch_sync([c for m in self.crew.members for c in m.stand(self.around.ground)], False)
        for _ in range(SETTLE_TICKS):
            self.current_frame = self.world.tick(TICK_S)
        for member in driven:
            parked = member.obj.behavior is None
            member.actor.apply_control(carla.VehicleControl(hand_brake=parked))
            speed = member.obj.velocity
            if speed[0] or speed[1]:
                member.actor.set_target_velocity(vector(float(speed[0]), float(speed[1])))
        self._see()
        self.contacts, self.crossed = (), ()  # of the fall

    def _lead(self, obj: Any, actor: Any) -> None:
        """A walker without a rail gets CARLA's own controller, for Scenic's walking actions."""
        blueprint = self.blueprintLib.find("controller.ai.walker")
        obj.carlaController = self.world.spawn_actor(blueprint, carla.Transform(), attach_to=actor)
        self.crew.controllers.append(obj.carlaController)

    def _count_rails(self) -> None:
        for member in self.crew.members:
            member.look()
            self._count(member.body)

    def _count(self, body: Body) -> None:
        """Where no other car is about, those that the scenario sends along are the surrounding traffic."""
        lonely = self.around.stage.traffic and not (self.crew.traffic and self.crew.traffic.bodies)
        if lonely:
            body.stand_in(body.rail is not None)


def _body_of(obj: Any, actor: Any, index: int, motion: Motion) -> Body:
    """The object's body, of the size that CARLA says; its extents are not always positive (CARLA issue 5841)."""
    extent = actor.bounding_box.extent
    given = (obj.length, obj.width, obj.height)
    measured = zip((extent.x, extent.y, extent.z), given, strict=True)
    length, width, height = (float(2 * half if half > 0 else own) for half, own in measured)
    obj.length, obj.width, obj.height = length, width, height
    kind = Kind(str(getattr(obj, "kind", "car")))
    if index == 0:
        return Body("ego", kind, motion, length, width, height, "ego")
    return Body(f"s{index}", kind, motion, length, width, height, str(getattr(obj, "role", "scenario")))
