"""Scenic's Newtonian simulator with our physics: bodies, collisions, traffic lights and background traffic.

Each Scenic object is mirrored by a SimulatedBody. After a step its dynamic properties are written directly into the
object, since Scenic's generic read-back takes more time than the physics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scenic.core.vectors import Orientation, Vector
from scenic.simulators.newtonian.simulator import NewtonianSimulation, NewtonianSimulator

from closedloop_plugin.core.frames import scenic_heading, yaw_of_heading
from closedloop_plugin.core.state import ActorKind, StopLine
from closedloop_plugin.maps.plan import TOWN_LIMIT
from closedloop_plugin.scenarios.known_words import DOORS, LAMPS, UnknownWord, known_word, known_words
from closedloop_plugin.worlds.bodies import car_following
from closedloop_plugin.worlds.bodies.body import EGO, WALKERS, SimulatedBody, name_of
from closedloop_plugin.worlds.bodies.traffic_lights import NetworkSignals, TrafficLightCycle
from closedloop_plugin.worlds.bodies.vehicle import MotionState, drive, place, slide, walk
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import ScenarioStage, in_scene
from closedloop_plugin.worlds.embedded.collisions import BodyContact, BuildingObstacles, resolve_collisions
from closedloop_plugin.worlds.embedded.traffic import BackgroundTraffic


@dataclass
class EmbeddedSimulationContext:
    """Inputs of a simulation besides the scene. `grip`: share of the dry tyre limit."""

    stage: ScenarioStage | None = None
    grip: float = 1.0
    lights: TrafficLightCycle = field(default_factory=lambda: TrafficLightCycle((), 0))
    traffic: BackgroundTraffic | None = None
    obstacles: BuildingObstacles | None = None

    @property
    def needs_background_cars(self) -> bool:
        """Traffic is enabled, but the scenario leaves no lane for it; see SimulatedBody.count_as_background."""
        return self.traffic is not None and not any(b.role == "background" for b in self.traffic.bodies if b.spec)


class EmbeddedSimulator(NewtonianSimulator):
    """Creates EmbeddedSimulations, without a window."""

    def __init__(self, network: Any = None, context: EmbeddedSimulationContext | None = None) -> None:
        super().__init__(network, render=False)
        self.context = context or EmbeddedSimulationContext()

    def createSimulation(self, scene: Any, **kwargs: Any) -> EmbeddedSimulation:
        return EmbeddedSimulation(scene, self.network, self.context, **kwargs)


class EmbeddedSimulation(NewtonianSimulation):
    """One run. `bodies`: the ego first, then the other Scenic objects, then the background traffic."""

    def __init__(
        self, scene: Any, network: Any, context: EmbeddedSimulationContext, *, timestep: Any, **kwargs: Any
    ) -> None:
        self.context = context
        self.contacts: list[BodyContact] = []
        self._mirrors: list[tuple[SimulatedBody, dict[str, Any]]] = []
        self._needs_background_cars = context.needs_background_cars
        super().__init__(scene, network, False, False, False, 0.05 if timestep is None else timestep, **kwargs)

    @property
    def bodies(self) -> list[SimulatedBody]:
        traffic = self.context.traffic
        return [body for body, _ in self._mirrors] + (traffic.bodies if traffic else [])

    # -- for actions and functions of programs, carla_actions.py ---------------------------------------------------
    @cached_property
    def signals(self) -> NetworkSignals:
        """The lights of the whole network."""
        context = self.context
        held = context.stage.signals if context.stage else {}
        return NetworkSignals(self.network, context.lights, held, self.seed)

    @property
    def time_s(self) -> float:
        return self.currentTime * self.timestep

    @property
    def seed(self) -> int:
        return self.context.stage.seed if self.context.stage else 0

    @property
    def speed_limit(self) -> float:
        """Of the road of the episode, m/s."""
        return self.context.stage.road.speed_limit if self.context.stage else TOWN_LIMIT

    # -- interface of Scenic's Simulation --------------------------------------------------------------------------
    def createObjectInSimulator(self, obj: Any) -> None:
        proxy = obj._dynamicProxy.__dict__  # Scenic's mutable copy for this simulation
        body = _mirror(proxy, name_of(str(proxy.get("role", "scenario")), [b for b, _ in self._mirrors]))
        self._count_as_background(body, proxy.get("rail") is not None)
        body.gone = not in_scene(proxy.get("part"))
        self._mirrors.append((body, proxy))
        proxy["elevation"] = 0.0
        # Headings are then global, and an orientation is a single rotation.
        proxy["parentOrientation"] = Orientation._fromHeading(0.0)
        proxy["_seen"] = (None, None)
        proxy["_caches"] = frozenset(f"_cached_{name}" for name in obj._cache_clearers)
        _write_object(body, proxy)

    def step(self) -> None:
        dt, context = self.timestep, self.context
        held = context.stage.held_signals if context.stage else {}
        context.lights.step(self.currentTime * dt, held)
        closed = car_following.closed_stop_lines(context.lights)
        all_bodies = self.bodies
        for body, proxy in self._mirrors:
            _read_object(body, proxy)
            self._count_as_background(body, body.rail is not None)
            self._move(body, proxy, all_bodies, closed, dt)
        if context.traffic is not None:
            context.traffic.step(all_bodies, closed, dt)
        if context.obstacles and context.stage:  # buildings that the ego may hit beside the road
            m = self._mirrors[0][0].motion
            all_bodies += context.obstacles.near(m.x, m.y, context.stage.ego_d)
        self.contacts = resolve_collisions(all_bodies)

    def _count_as_background(self, body: SimulatedBody, on_rail: bool) -> None:
        """See Surroundings.needs_background_cars."""
        if self._needs_background_cars:
            body.count_as_background(on_rail)

    def updateObjects(self) -> None:
        for body, proxy in self._mirrors:
            _write_object(body, proxy)

    def getProperties(self, obj: Any, properties: Any) -> dict[str, Any]:
        proxy = obj._dynamicProxy.__dict__
        return {name: proxy[name] for name in properties}

    def currentState(self) -> tuple[Any, ...]:
        return ()  # our records hold the tracks; Scenic's would grow with the episode

    # -- physics ---------------------------------------------------------------------------------------------------
    def _move(
        self,
        body: SimulatedBody,
        proxy: dict[str, Any],
        others: Sequence[SimulatedBody],
        lines: Sequence[StopLine],
        dt: float,
    ):
        m = body.motion
        if body.gone:
            return
        if proxy.get("pose") is not None:
            x, y, heading, speed = proxy["pose"]
            proxy["pose"] = None
            body.motion = MotionState(float(x), float(y), yaw_of_heading(float(heading)), float(speed))
        elif body.rail is not None:
            speed_before = m.v
            body.rail.advance(dt, car_following.max_acceleration(body, others, lines))
            place(m, *body.rail.pose(), body.rail.now or 0.0, dt)
            body.braking = m.v < speed_before - 0.3 * dt or (m.v < 0.05 and body.kind not in WALKERS)
        elif body.spec is not None:
            brake = 1.0 if body.was_hit else body.brake
            if body.still and not body.throttle:
                m.ax = m.ay = m.yaw_rate = m.vx = m.vy = 0.0
                return
            drive(
                m, body.spec, steer=body.steer, throttle=body.throttle, brake=brake, reverse=body.reverse,
                grip=self.context.grip, dt=dt,
            )  # fmt: skip
        elif body.kind in WALKERS and not body.was_hit and not (m.knock_x or m.knock_y):
            control = proxy.get("control") or {}
            speed, heading = control.get("speed"), control.get("heading")
            walk(m, m.v if speed is None else speed, m.yaw if heading is None else yaw_of_heading(heading), dt)
        elif not body.still:
            slide(m, 0.6, dt)


def _mirror(proxy: dict[str, Any], name: str) -> SimulatedBody:
    """The SimulatedBody of a Scenic object, from its properties."""
    kind = ActorKind(known_word("kind", str(proxy.get("kind", "car")), ActorKind))
    x, y = float(proxy["position"][0]), float(proxy["position"][1])
    yaw = yaw_of_heading(float(proxy["heading"]))
    vx, vy = float(proxy["velocity"][0]), float(proxy["velocity"][1])
    speed = math.hypot(vx, vy)
    if vx * math.cos(yaw) + vy * math.sin(yaw) < 0:
        speed = -speed
    colour = proxy.get("color")
    ego = name == EGO
    return SimulatedBody(
        id=name,
        kind=kind,
        motion=MotionState(x, y, yaw, speed),
        length=float(proxy["length"]),
        width=float(proxy["width"]),
        height=float(proxy["height"]),
        role=EGO if ego else str(proxy.get("role", "scenario")),
        colour=tuple(round(255 * float(c)) for c in colour[:3]) if colour is not None else (120, 120, 130),  # type: ignore[arg-type]
        fixed=bool(proxy.get("fixed", False)),
        parked=not ego and speed == 0.0,
    )


def _read_object(body: SimulatedBody, proxy: dict[str, Any]) -> None:
    """Read what the object's behaviour has set: pedals, attributes, or a jump (SetPosition, SetVelocity)."""
    get = proxy.get
    body.throttle, body.brake = float(get("throttle", 0.0)), float(get("brake", 0.0))
    body.steer = float(get("steer", 0.0))
    body.reverse = bool(get("reverse", False))
    parked = body.parked and get("behavior") is None
    if parked or get("hand_brake"):
        body.brake = 1.0
    body.gone = bool(get("gone", False)) or not in_scene(get("part"))
    lamps, doors = get("lamps"), get("doors")
    if lamps != body.lamps:
        known_words("lamp", lamps or (), LAMPS)
        body.lamps = frozenset(lamps or ())
    if doors != body.doors:
        known_words("door", doors or (), DOORS)
        body.doors = frozenset(doors or ())
    rail = get("rail")
    if rail is not None and not isinstance(rail, Rail):
        raise UnknownWord("rail", rail, ("rail_at(s)", "rail_across(s, side)", "Rail(path, s, d)"))
    body.rail = None if body.was_hit else rail
    body.driven = body.driven or body.rail is not None or body.throttle > 0.0 or body.motion.v != 0.0
    body.braking = (body.brake > 0.02 and not parked) or (body.was_hit and body.spec is not None)
    position, velocity = proxy["_seen"]
    m = body.motion
    if proxy["position"] is not position:
        m.x, m.y = float(proxy["position"][0]), float(proxy["position"][1])
    if proxy["velocity"] is not velocity:
        vx, vy = float(proxy["velocity"][0]), float(proxy["velocity"][1])
        if body.kind in WALKERS and (vx or vy):
            m.yaw = math.atan2(vy, vx)
        m.v = vx * math.cos(m.yaw) + vy * math.sin(m.yaw)


def _write_object(body: SimulatedBody, proxy: dict[str, Any]) -> None:
    """Write the body's state into the Scenic object, unless it has not moved: most props never do."""
    m = body.motion
    heading = scenic_heading(m.yaw)
    position = proxy["position"]
    here = position[0] == m.x and position[1] == m.y and proxy["heading"] == heading
    if here and proxy["_seen"][0] is not None and proxy["speed"] == 0.0 and m.v == 0.0:
        return
    velocity = Vector(m.vx, m.vy, 0.0)
    position = Vector(m.x, m.y, 0.0)
    proxy["position"], proxy["velocity"] = position, velocity
    proxy["_seen"] = (position, velocity)
    if proxy["heading"] != heading or proxy["yaw"] != heading:
        proxy["heading"] = proxy["yaw"] = heading
        proxy["orientation"] = Orientation._fromHeading(heading)
    proxy["speed"] = abs(m.v)
    proxy["angularSpeed"] = m.yaw_rate
    for name in proxy.keys() & proxy["_caches"]:  # as Scenic's _clearCaches, without an exception for each empty cache
        del proxy[name]
