"""Scenic's CARLA simulation with our stage: bodies, rails, traffic lights, traffic and sensors.

Differs from Scenic 3.1.1, which waits without a limit for a sensor's frame, refuses an initial speed, draws random
weather and reads angular speeds from the wrong axis.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import carla
from scenic.simulators.carla.simulator import CarlaSimulation, CarlaSimulator

from closedloop_plugin.carla.world.conversions import needs_headlights, parameters, transform, vector
from closedloop_plugin.carla.world.scene_actor import SceneActor, blueprint_for, body_of, kind_of_object, spawn
from closedloop_plugin.carla.world.sensors import CarlaCamera, ContactResolver, EgoEventSensors, ProgramSensor
from closedloop_plugin.carla.world.traffic import CarlaTraffic, CarlaTrafficLights, configure_manager
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.frames import yaw_of_heading
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import STATIC, EgoContact
from closedloop_plugin.worlds.base import WorldError
from closedloop_plugin.worlds.bodies import car_following
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody, name_of
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from closedloop_plugin.worlds.bridge.stage import ScenarioStage

SETTLE_TICKS, MAX_SETTLE_TICKS = (
    12,
    80,
)  # until bodies spawned above the ground rest on it; sensors miss the first ticks
STILL = 0.03  # m/s
ABOVE_M = 50.0  # height of the spectator above the ego
TICK_S = 60.0  # timeout of a tick: the server hangs
FIRST_TICKS_S = 600.0  # of an episode's first ticks, in which a large town is read from disk; as in the leaderboard


@dataclass
class CarlaSimulationContext:
    """Inputs of one simulation besides the scene."""

    stage: ScenarioStage
    lights: TrafficLightCycle
    ground: Any  # carla.maps.ground.CarlaRouteGround
    weather: Weather
    cameras: tuple[Camera, ...] = ()
    seed: int = 0


class StagedSimulator(CarlaSimulator):
    """Creates StagedSimulations; `context` is set before each."""

    context: CarlaSimulationContext

    def createSimulation(self, scene: Any, *, timestep: Any, **kwargs: Any) -> StagedSimulation:
        self.scenario_number += 1
        return StagedSimulation(scene, self, self.context, timestep=self.timestep, **kwargs)


class StagedSimulation(CarlaSimulation):
    """One run. `bodies`: the ego, the other Scenic objects, the traffic. `contacts`, `crossed`: of the last tick."""

    def __init__(self, scene: Any, simulator: StagedSimulator, context: CarlaSimulationContext, **kwargs: Any) -> None:
        self.context, self.actors = context, EpisodeActors()
        self.contacts: tuple[EgoContact, ...] = ()
        self.crossed: tuple[str, ...] = ()
        self._contact_resolver = ContactResolver()
        self._refused: list[tuple[Any, str]] = []  # failed commands of this tick, with the reason
        super().__init__(scene, simulator.client, simulator.tm, False, "", simulator.scenario_number, **kwargs)

    @property
    def bodies(self) -> list[SimulatedBody]:
        traffic = self.actors.traffic
        return [m.body for m in self.actors.members] + (traffic.bodies if traffic else [])

    # -- Scenic's interface -----------------------------------------------------------------------------------------
    def setup(self) -> None:
        context, actors = self.context, self.actors
        self.world.set_weather(parameters(context.weather))
        configure_manager(self.tm, context.seed)
        super(CarlaSimulation, self).setup()  # Scenic's: creates every object by createObjectInSimulator
        ego = actors.members[0].actor
        actors.traffic_lights = CarlaTrafficLights(self.world, context.lights)
        actors.event_sensors = EgoEventSensors(self.world, ego)
        for camera in context.cameras:
            actors.cameras[camera.name] = CarlaCamera(self.world, ego, camera)
        for member in actors.members:
            member.headlights = needs_headlights(context.weather)
            for name, sensor in (member.obj.sensors or {}).items():
                actors.program_sensors.append(ProgramSensor(self.world, name, sensor, member.actor))
        if context.stage.traffic:
            taken = [(m.body.motion.x, m.body.motion.y) for m in actors.members]
            actors.traffic = CarlaTraffic(context.seed)
            actors.traffic.spawn(self.world, self.tm, context.stage.road, taken)
        for member in actors.members:
            member.read_object()
            self._count_as_background(member.body)
        self._settle()

    def createObjectInSimulator(self, obj: Any) -> Any:
        actors, ground = self.actors, self.context.ground
        is_ego = not actors.members
        blueprint, kind = blueprint_for(self.blueprintLib, obj, is_ego), kind_of_object(obj)
        x, y, yaw = float(obj.position[0]), float(obj.position[1]), yaw_of_heading(float(obj.heading))
        z = ground.height(x, y)
        if is_ego:  # visible in the server's window; map tiles around the spectator are loaded first
            self.world.get_spectator().set_transform(transform(x, y, z + ABOVE_M, yaw, -90.0))
        rides = getattr(obj, "rail", None) is not None and kind not in WALKERS
        moved = not is_ego and (rides or getattr(obj, "gone", False))
        actor, lifted = spawn(self.world, blueprint, x, y, z, yaw, must_fit=is_ego)
        obj.carlaActor = actor
        name = name_of(str(getattr(obj, "role", "scenario")), [member.body for member in actors.members])
        body = body_of(obj, actor, kind, name, MotionState(x, y, yaw))
        member = SceneActor(body, obj, actor, physics=bool(obj.physics) and not moved and kind not in STATIC)
        member.lifted = lifted
        actors.members.append(member)
        actor.set_simulate_physics(member.physics)
        if isinstance(actor, carla.Walker) and getattr(obj, "rail", None) is None:
            # CARLA's controller, for Scenic's walking actions.
            controller = self.blueprintLib.find("controller.ai.walker")
            obj.carlaController = self.world.spawn_actor(controller, carla.Transform(), attach_to=actor)
            actors.controllers.append(obj.carlaController)
        return actor

    def step(self) -> None:
        self._apply_commands()
        self.current_frame = self.world.tick(TICK_S)
        self._read_state()
        for sensor in self.actors.program_sensors:
            sensor.wait(self.current_frame)

    def getProperties(self, obj: Any, properties: Any) -> dict[str, Any]:
        values = self.actors.of(obj.carlaActor).dynamic_properties()
        return {name: values[name] for name in properties}

    def currentState(self) -> tuple[Any, ...]:
        return ()  # our records hold the tracks; Scenic's would grow with the episode

    def hold_light(self, light: Any, state: Any) -> None:
        """Set a traffic light, for a program's setTrafficLightStatus."""
        if self.actors.traffic_lights:
            self.actors.traffic_lights.hold(light, state, self.context.stage.signals)

    def destroy(self) -> None:
        """Destroy all actors of the simulation. Errors are ignored: a dead server is reported elsewhere."""
        actors = self.actors
        for actor in (*actors.sensors(), *actors.controllers):
            with contextlib.suppress(RuntimeError):  # already destroyed
                actor.stop()
        with contextlib.suppress(RuntimeError):
            if actors.traffic_lights:
                actors.traffic_lights.release()
            # First out of the traffic manager's list, since it queries the server about the actors on it.
            port = self.tm.get_port()
            self._apply([carla.command.SetAutopilot(actor.id, False, port) for actor in actors.vehicles()])
            self._apply(actors.destroy_commands())
            self.world.tick()  # with the client's current timeout: see CarlaConnection.shorten_timeouts

    # -- one tick --------------------------------------------------------------------------------------------------
    def _apply_commands(self) -> None:
        context, actors, dt = self.context, self.actors, self.timestep
        context.lights.step(self.currentTime * dt, context.stage.held_signals)
        if actors.traffic_lights:
            actors.traffic_lights.update()
        closed = car_following.closed_stop_lines(context.lights)
        all_bodies = self.bodies
        commands: list[Any] = []
        for member in actors.members:
            member.read_object()
            self._count_as_background(member.body)
            allowed = car_following.max_acceleration(member.body, all_bodies, closed)
            commands += [*member.move_commands(dt, allowed, context.ground), *member.light_commands()]
        self._refused = self._apply(commands)

    def _apply(self, commands: list[Any]) -> list[tuple[Any, str]]:
        """Apply commands as one batch; returns those that failed, with the error."""
        responses = self.client.apply_batch_sync(commands, False) if commands else []
        return [(c, str(r.error)) for c, r in zip(commands, responses, strict=True) if r.error]

    def _read_state(self) -> None:
        """Update bodies, contacts and crossed markings from the server's snapshot."""
        actors, snapshot = self.actors, self.world.get_snapshot()
        for member in actors.members:
            member.update(snapshot)
        ego = actors.members[0]
        if ego.lost:
            raise WorldError("CARLA has removed the ego: it fell off the map, or another client cleared the server")
        lost = {m.actor.id for m in actors.members if m.lost}
        for command, why in self._refused:
            if command.actor_id not in lost and not isinstance(command, carla.command.SetVehicleLightState):
                raise WorldError(f"CARLA refused {type(command).__name__} for actor {command.actor_id}: {why}")
        control = ego.actor.get_control()
        ego.body.steer, ego.body.braking = float(control.steer), float(control.brake) > 0.02
        if actors.traffic:
            actors.traffic.update(snapshot, self.timestep)
        if actors.event_sensors:
            self.contacts = self._contact_resolver.resolve(
                actors.event_sensors.collisions(), actors.bodies_by_id(), ego.body
            )
            self.crossed = actors.event_sensors.markings()

    # -- at the start ----------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Tick until all vehicles rest on the ground, then set the initial speeds."""
        members = self.actors.members
        driven = [m for m in members if m.is_vehicle and m.physics]
        for member in driven:
            member.actor.apply_control(carla.VehicleControl(brake=1.0))
        self._refused = self._apply(
            [c for m in members for c in (*m.start_commands(self.context.ground), *m.light_commands())]
        )
        for tick in range(MAX_SETTLE_TICKS):
            self.current_frame = self.world.tick(FIRST_TICKS_S if tick < SETTLE_TICKS else TICK_S)
            snapshot = self.world.get_snapshot()
            seen = [snapshot.find(member.actor.id) for member in driven]
            still = all(found is None or found.get_velocity().length() < STILL for found in seen)
            if tick + 1 >= SETTLE_TICKS and still:
                break
        for member in driven:
            speed = member.obj.velocity
            moves = bool(speed[0] or speed[1])
            held = member is not members[0] and not moves  # until a behaviour drives it: towns have slopes
            member.actor.apply_control(carla.VehicleControl(hand_brake=held))
            if moves:
                member.actor.set_target_velocity(vector(float(speed[0]), float(speed[1])))
        self._read_state()
        self.contacts, self.crossed, self._contact_resolver = (), (), ContactResolver()  # discard those of the fall

    def _count_as_background(self, body: SimulatedBody) -> None:
        """Without background traffic, count the scenario's cars on rails as such."""
        no_traffic = self.context.stage.traffic and not (self.actors.traffic and self.actors.traffic.bodies)
        if no_traffic:
            body.count_as_background(body.rail is not None)


@dataclass
class EpisodeActors:
    """All actors of one simulation. The ego is the first of `members`."""

    members: list[SceneActor] = field(default_factory=list)
    controllers: list[Any] = field(default_factory=list)  # CARLA's, of walkers without a rail
    cameras: dict[str, CarlaCamera] = field(default_factory=dict)
    program_sensors: list[ProgramSensor] = field(default_factory=list)  # defined by the program
    event_sensors: EgoEventSensors | None = None
    traffic: CarlaTraffic | None = None
    traffic_lights: CarlaTrafficLights | None = None

    def of(self, actor: Any) -> SceneActor:
        return next(m for m in self.members if m.actor.id == actor.id)

    def sensors(self) -> list[Any]:
        sensors: list[CarlaCamera | ProgramSensor] = [*self.cameras.values(), *self.program_sensors]
        return [sensor.actor for sensor in sensors] + (self.event_sensors.actors if self.event_sensors else [])

    def bodies_by_id(self) -> dict[int, SimulatedBody]:
        """Bodies by their actor's id."""
        found = {m.actor.id: m.body for m in self.members}
        if self.traffic:
            found |= {a.id: b for a, b in zip(self.traffic.actors, self.traffic.bodies, strict=True)}
        return found

    def vehicles(self) -> list[Any]:
        """Vehicles that may be registered with the traffic manager."""
        return [m.actor for m in self.members if m.is_vehicle] + (self.traffic.actors if self.traffic else [])

    def destroy_commands(self) -> list[Any]:
        """Commands that destroy all actors."""
        ids = [*(a.id for a in self.sensors()), *(c.id for c in self.controllers), *(m.actor.id for m in self.members)]
        gone = [carla.command.DestroyActor(actor) for actor in ids]
        return gone + (self.traffic.destroy_commands() if self.traffic else [])
