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

from closedloop_plugin.carla.world.scene_actor import SceneActor
from closedloop_plugin.carla.world.sensors import CarlaCamera, ContactResolver, EgoEventSensors, ProgramSensor
from closedloop_plugin.carla.world.spawning import blueprint_for, body_of, kind_said, spawn
from closedloop_plugin.carla.world.traffic import CarlaTraffic, prepare
from closedloop_plugin.carla.world.traffic_lights import CarlaTrafficLights
from closedloop_plugin.carla.world.transforms import transform, vector
from closedloop_plugin.carla.world.weather import dark, parameters
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.frames import yaw_of_heading
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import STATIC, EgoContact
from closedloop_plugin.worlds.base import WorldError
from closedloop_plugin.worlds.bodies import car_following
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

SETTLE_TICKS, SETTLE_MOST = 12, 80  # until who was spawned above the ground stands on it; sensors miss the first ticks
STILL = 0.03  # m/s
ABOVE_M = 50.0
TICK_S = 60.0  # a tick that takes longer is a server that hangs


@dataclass
class CarlaSimulationContext:
    """What the world gives one simulation beside the scene."""

    stage: ScenarioStage
    lights: TrafficLightCycle
    ground: Any  # carla_parts.ground.Ground
    weather: Weather
    cameras: tuple[Camera, ...] = ()
    seed: int = 0


class StagedSimulator(CarlaSimulator):
    """Makes StagedSimulations; `around` is set before each."""

    around: CarlaSimulationContext

    def createSimulation(self, scene: Any, *, timestep: Any, **kwargs: Any) -> StagedSimulation:
        self.scenario_number += 1
        return StagedSimulation(scene, self, self.around, timestep=self.timestep, **kwargs)


class StagedSimulation(CarlaSimulation):
    """One run. `bodies`: the ego first, the other Scenic objects, the traffic. `contacts`: of the last tick."""

    def __init__(self, scene: Any, simulator: StagedSimulator, around: CarlaSimulationContext, **kwargs: Any) -> None:
        self.around, self.crew = around, EpisodeActors()
        self.contacts: tuple[EgoContact, ...] = ()
        self.crossed: tuple[str, ...] = ()
        self._touched = ContactResolver()
        self._refused: list[tuple[Any, str]] = []  # commands of this tick that the server did not carry out, and why
        super().__init__(scene, simulator.client, simulator.tm, False, "", simulator.scenario_number, **kwargs)

    @property
    def bodies(self) -> list[SimulatedBody]:
        traffic = self.crew.traffic
        return [m.body for m in self.crew.members] + (traffic.bodies if traffic else [])

    # -- what Scenic asks for --------------------------------------------------------------------------------------
    def setup(self) -> None:
        around, crew = self.around, self.crew
        self.world.set_weather(parameters(around.weather))
        prepare(self.tm, around.seed)
        super(CarlaSimulation, self).setup()  # Scenic's own: every object, through createObjectInSimulator
        ego = crew.members[0].actor
        crew.show = CarlaTrafficLights(self.world, around.lights)
        crew.feelers = EgoEventSensors(self.world, ego)
        for camera in around.cameras:
            crew.eyes[camera.name] = CarlaCamera(self.world, ego, camera)
        for member in crew.members:
            member.dark = dark(around.weather)
            for name, sensor in (member.obj.sensors or {}).items():
                crew.hung.append(ProgramSensor(self.world, name, sensor, member.actor))
        if around.stage.traffic:
            taken = [(m.body.motion.x, m.body.motion.y) for m in crew.members]
            crew.traffic = CarlaTraffic(around.seed)
            crew.traffic.fill(self.world, self.tm, around.stage.road, taken)
        self._count_rails()
        self._settle()

    def createObjectInSimulator(self, obj: Any) -> Any:
        crew, ground = self.crew, self.around.ground
        is_ego = not crew.members
        blueprint, kind = blueprint_for(self.blueprintLib, obj, is_ego), kind_said(obj)
        x, y, yaw = float(obj.position[0]), float(obj.position[1]), yaw_of_heading(float(obj.heading))
        z = ground.height(x, y)
        if is_ego:  # where somebody who looks at the server's window sees it; what is about is loaded first
            self.world.get_spectator().set_transform(transform(x, y, z + ABOVE_M, yaw, -90.0))
        rides = getattr(obj, "rail", None) is not None and kind not in WALKERS
        moved = not is_ego and (rides or getattr(obj, "gone", False))
        actor, lifted = spawn(self.world, blueprint, x, y, z, yaw, must_fit=is_ego)
        obj.carlaActor = actor
        body = body_of(obj, actor, kind, len(crew.members), MotionState(x, y, yaw))
        member = SceneActor(body, obj, actor, physics=bool(obj.physics) and not moved and kind not in STATIC)
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
        for sensor in self.crew.hung:
            sensor.wait(self.current_frame)

    def getProperties(self, obj: Any, properties: Any) -> dict[str, Any]:
        values = self.crew.of(obj.carlaActor).values()
        return {name: values[name] for name in properties}

    def currentState(self) -> tuple[Any, ...]:
        return ()  # our own records hold the tracks; Scenic's would grow with the episode

    def hold_light(self, light: Any, state: Any) -> None:
        """For a program's setTrafficLightStatus."""
        if self.crew.show:
            self.crew.show.hold(light, state, self.around.stage.signals)

    def destroy(self) -> None:
        """Take away what was put there. A server that is dead cannot be cleaned, and its death is told elsewhere."""
        crew = self.crew
        for one in (*crew.sensors(), *crew.controllers):
            with contextlib.suppress(RuntimeError):  # one that is gone already keeps nobody from the rest
                one.stop()
        with contextlib.suppress(RuntimeError):
            if crew.show:
                crew.show.release()
            # Of the traffic manager's list first: it asks the server about those on it.
            port = self.tm.get_port()
            self._send([carla.command.SetAutopilot(actor.id, False, port) for actor in crew.driven()])
            self._send(crew.everybody())
            self.world.tick()  # as patient as the client is now: link.py may be in a hurry

    # -- one tick --------------------------------------------------------------------------------------------------
    def _move(self) -> None:
        around, crew, dt = self.around, self.crew, self.timestep
        around.lights.step(self.currentTime * dt, around.stage.signals)
        if crew.show:
            crew.show.show()
        closed = car_following.closed_stop_lines(around.lights)
        everyone = self.bodies
        commands: list[Any] = []
        for member in crew.members:
            member.look()
            self._count(member.body)
            allowed = car_following.max_acceleration(member.body, everyone, closed)
            commands += [*member.move(dt, allowed, around.ground), *member.shows()]
        self._refused = self._send(commands)

    def _send(self, commands: list[Any]) -> list[tuple[Any, str]]:
        """Carry them out together; returns those that failed, and why."""
        answers = self.client.apply_batch_sync(commands, False) if commands else []
        return [(c, str(answer.error)) for c, answer in zip(commands, answers, strict=True) if answer.error]

    def _see(self) -> None:
        """Read the world back."""
        crew, snapshot = self.crew, self.world.get_snapshot()
        for member in crew.members:
            member.see(snapshot)
        ego = crew.members[0]
        if ego.lost:
            raise WorldError("CARLA has taken the ego away: it fell off the map, or somebody else cleared the server")
        lost = {m.actor.id for m in crew.members if m.lost}
        for command, why in self._refused:
            if command.actor_id not in lost and not isinstance(command, carla.command.SetVehicleLightState):
                raise WorldError(f"CARLA refused {type(command).__name__} for actor {command.actor_id}: {why}")
        control = ego.actor.get_control()
        ego.body.steer, ego.body.braking = float(control.steer), float(control.brake) > 0.02
        if crew.traffic:
            crew.traffic.see(snapshot, self.timestep)
        if crew.feelers:
            self.contacts = self._touched.of(crew.feelers.collisions(), crew.known(), ego.body)
            self.crossed = crew.feelers.markings()

    # -- at the start ----------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Let everybody come to rest on the ground; then give speeds to those that are to have one."""
        members = self.crew.members
        driven = [m for m in members if m.is_vehicle and m.physics]
        for member in driven:
            member.actor.apply_control(carla.VehicleControl(brake=1.0))
        self._refused = self._send([c for m in members for c in (*m.stand(self.around.ground), *m.shows())])
        for tick in range(SETTLE_MOST):
            self.current_frame = self.world.tick(TICK_S)
            if tick + 1 >= SETTLE_TICKS and self._at_rest(driven):
                break
        for member in driven:
            speed = member.obj.velocity
            rolls = bool(speed[0] or speed[1])
            held = member is not members[0] and not rolls  # until a behaviour drives it: towns have slopes
            member.actor.apply_control(carla.VehicleControl(hand_brake=held))
            if rolls:
                member.actor.set_target_velocity(vector(float(speed[0]), float(speed[1])))
        self._see()
        self.contacts, self.crossed, self._touched = (), (), ContactResolver()  # of the fall

    def _at_rest(self, members: list[SceneActor]) -> bool:
        snapshot = self.world.get_snapshot()
        seen = [snapshot.find(member.actor.id) for member in members]
        return all(one is None or one.get_velocity().length() < STILL for one in seen)

    def _lead(self, obj: Any, actor: Any) -> None:
        """A walker without a rail gets CARLA's own controller, for Scenic's walking actions."""
        blueprint = self.blueprintLib.find("controller.ai.walker")
        obj.carlaController = self.world.spawn_actor(blueprint, carla.Transform(), attach_to=actor)
        self.crew.controllers.append(obj.carlaController)

    def _count_rails(self) -> None:
        for member in self.crew.members:
            member.look()
            self._count(member.body)

    def _count(self, body: SimulatedBody) -> None:
        """Where no other car is about, those that the scenario sends along are the surrounding traffic."""
        lonely = self.around.stage.traffic and not (self.crew.traffic and self.crew.traffic.bodies)
        if lonely:
            body.count_as_background(body.rail is not None)


# All actors of one simulation, and how they are taken away.
@dataclass
class EpisodeActors:
    """The ego is the first of `members`."""

    members: list[SceneActor] = field(default_factory=list)
    controllers: list[Any] = field(default_factory=list)  # of walkers whose behaviours are CARLA's own
    eyes: dict[str, CarlaCamera] = field(default_factory=dict)
    hung: list[ProgramSensor] = field(default_factory=list)  # the program's own sensors
    feelers: EgoEventSensors | None = None
    traffic: CarlaTraffic | None = None
    show: CarlaTrafficLights | None = None

    def of(self, actor: Any) -> SceneActor:
        return next(m for m in self.members if m.actor.id == actor.id)

    def sensors(self) -> list[Any]:
        eyes = [eye.actor for eye in self.eyes.values()]
        return eyes + [one.actor for one in self.hung] + (self.feelers.actors if self.feelers else [])

    def known(self) -> dict[int, SimulatedBody]:
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
