"""Scenic's Newtonian simulator with our physics in it: bodies, collisions, lights and traffic instead of points.

Scenic's own objects are mirrored by a Body each; after a step their dynamic properties are written straight into the
objects (the generic read-back costs more than the physics).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from scenic.core.vectors import Orientation, Vector
from scenic.simulators.newtonian.simulator import NewtonianSimulation, NewtonianSimulator

from closedloop_plugin.core.frames import scenic_heading, yaw_of_heading
from closedloop_plugin.core.state import ActorKind, StopLine
from closedloop_plugin.worlds.bodies import car_following
from closedloop_plugin.worlds.bodies.body import WALKERS, SimulatedBody
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle
from closedloop_plugin.worlds.bodies.vehicle import MotionState, drive, place, slide, walk
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from closedloop_plugin.worlds.embedded.building_obstacles import BuildingObstacles
from closedloop_plugin.worlds.embedded.collisions import BodyContact, settle


class TrafficModel(Protocol):
    """What moves beside the scenario."""

    bodies: list[SimulatedBody]

    def step(self, bodies: Sequence[SimulatedBody], lines: Sequence[StopLine], dt: float) -> None: ...


@dataclass
class EmbeddedSimulationContext:
    """What the world gives the simulation beside the scene."""

    stage: ScenarioStage | None = None
    grip: float = 1.0
    lights: TrafficLightCycle = field(default_factory=lambda: TrafficLightCycle((), 0))
    traffic: TrafficModel | None = None
    walls: BuildingObstacles | None = None

    @property
    def lonely(self) -> bool:
        """There is to be traffic, and the scenario needs every lane that it could use; see Body.stand_in."""
        return self.traffic is not None and not any(b.role == "background" for b in self.traffic.bodies if b.spec)


class EmbeddedSimulator(NewtonianSimulator):
    """Makes EmbeddedSimulations; never opens a window."""

    def __init__(self, network: Any = None, surroundings: EmbeddedSimulationContext | None = None) -> None:
        super().__init__(network, render=False)
        self.surroundings = surroundings or EmbeddedSimulationContext()

    def createSimulation(self, scene: Any, **kwargs: Any) -> EmbeddedSimulation:
        return EmbeddedSimulation(scene, self.network, self.surroundings, **kwargs)


class EmbeddedSimulation(NewtonianSimulation):
    """One run. `bodies`: the ego first, then the other Scenic objects, then the background traffic."""

    def __init__(
        self, scene: Any, network: Any, surroundings: EmbeddedSimulationContext, *, timestep: Any, **kwargs: Any
    ) -> None:
        self.surroundings = surroundings
        self.touches: list[BodyContact] = []
        self._mirrors: list[tuple[SimulatedBody, dict[str, Any]]] = []
        self._lonely = surroundings.lonely
        super().__init__(scene, network, False, False, False, 0.05 if timestep is None else timestep, **kwargs)

    @property
    def bodies(self) -> list[SimulatedBody]:
        traffic = self.surroundings.traffic
        return [body for body, _ in self._mirrors] + (traffic.bodies if traffic else [])

    # -- what Scenic asks for --------------------------------------------------------------------------------------
    def createObjectInSimulator(self, obj: Any) -> None:
        own = obj._dynamicProxy.__dict__  # Scenic's mutable copy for this simulation
        body = _mirror(own, len(self._mirrors))
        self._count(body, own.get("rail") is not None)
        self._mirrors.append((body, own))
        own["elevation"] = 0.0
        # Headings are then global, and an orientation one rotation.
        own["parentOrientation"] = Orientation._fromHeading(0.0)
        own["_seen"] = (None, None)
        own["_caches"] = frozenset(f"_cached_{name}" for name in obj._cache_clearers)
        _write(body, own)

    def step(self) -> None:
        dt, around = self.timestep, self.surroundings
        held = around.stage.signals if around.stage else {}
        around.lights.step(self.currentTime * dt, held)
        closed = car_following.closed(around.lights)
        everyone = self.bodies
        for body, own in self._mirrors:
            _read(body, own)
            self._count(body, body.rail is not None)
            self._move(body, own, everyone, closed, dt)
        if around.traffic is not None:
            around.traffic.step(everyone, closed, dt)
        self.touches = settle([*everyone, *self._walls()])

    def _walls(self) -> list[SimulatedBody]:
        """What the ego may run into beside the road."""
        around, m = self.surroundings, self._mirrors[0][0].motion
        return around.walls.near(m.x, m.y, around.stage.ego_d) if around.walls and around.stage else []

    def _count(self, body: SimulatedBody, on_rail: bool) -> None:
        """See Surroundings.lonely."""
        if self._lonely:
            body.stand_in(on_rail)

    def updateObjects(self) -> None:
        for body, own in self._mirrors:
            _write(body, own)

    def getProperties(self, obj: Any, properties: Any) -> dict[str, Any]:
        own = obj._dynamicProxy.__dict__
        return {name: own[name] for name in properties}

    def currentState(self) -> tuple[Any, ...]:
        return ()  # our own records hold the tracks; Scenic's would grow with the episode

    # -- physics ---------------------------------------------------------------------------------------------------
    def _move(
        self,
        body: SimulatedBody,
        own: dict[str, Any],
        others: Sequence[SimulatedBody],
        lines: Sequence[StopLine],
        dt: float,
    ):
        m = body.motion
        if body.gone:
            return
        if own.get("pose") is not None:
            x, y, heading, speed = own["pose"]
            own["pose"] = None
            body.motion = MotionState(float(x), float(y), yaw_of_heading(float(heading)), float(speed))
        elif body.rail is not None:
            was = m.v
            body.rail.advance(dt, car_following.allowed(body, others, lines))
            place(m, *body.rail.pose(), body.rail.now or 0.0, dt)
            body.braking = m.v < was - 0.3 * dt or (m.v < 0.05 and body.kind not in WALKERS)
        elif body.spec is not None:
            brake = 1.0 if body.stunned else body.brake
            if body.still and not body.throttle:
                m.ax = m.ay = m.yaw_rate = m.vx = m.vy = 0.0
                return
            drive(m, body.spec, body.steer, body.throttle, brake, body.reverse, self.surroundings.grip, dt)
        elif body.kind in WALKERS and not body.stunned and not (m.knock_x or m.knock_y):
            control = own.get("control") or {}
            speed, heading = control.get("speed"), control.get("heading")
            walk(m, m.v if speed is None else speed, m.yaw if heading is None else yaw_of_heading(heading), dt)
        elif not body.still:
            slide(m, 0.6, dt)


def _mirror(own: dict[str, Any], index: int) -> SimulatedBody:
    """The Body of a Scenic object, from its properties."""
    kind = ActorKind(str(own.get("kind", "car")))
    x, y = float(own["position"][0]), float(own["position"][1])
    yaw = yaw_of_heading(float(own["heading"]))
    vx, vy = float(own["velocity"][0]), float(own["velocity"][1])
    speed = math.hypot(vx, vy)
    if vx * math.cos(yaw) + vy * math.sin(yaw) < 0:
        speed = -speed
    colour = own.get("color")
    ego = index == 0
    return SimulatedBody(
        "ego" if ego else f"s{index}",
        kind,
        MotionState(x, y, yaw, speed),
        float(own["length"]),
        float(own["width"]),
        float(own["height"]),
        "ego" if ego else str(own.get("role", "scenario")),
        tuple(round(255 * float(c)) for c in colour[:3]) if colour is not None else (120, 120, 130),  # type: ignore[arg-type]
        fixed=bool(own.get("fixed", False)),
        parked=not ego and speed == 0.0,
    )


def _read(body: SimulatedBody, own: dict[str, Any]) -> None:
    """Take what the object's behaviour did to it: pedals, attributes, or a jump (SetPosition, SetVelocity)."""
    get = own.get
    body.throttle, body.brake = float(get("throttle", 0.0)), float(get("brake", 0.0))
    body.steer = float(get("steer", 0.0))
    body.reverse = bool(get("reverse", False))
    parked = body.parked and get("behavior") is None
    if parked or get("hand_brake"):
        body.brake = 1.0
    body.gone = bool(get("gone", False))
    lamps, doors = get("lamps"), get("doors")
    if lamps != body.lamps:
        body.lamps = frozenset(lamps or ())
    if doors != body.doors:
        body.doors = frozenset(doors or ())
    body.rail = None if body.stunned else get("rail")
    body.braking = (body.brake > 0.02 and not parked) or (body.stunned and body.spec is not None)
    position, velocity = own["_seen"]
    m = body.motion
    if own["position"] is not position:
        m.x, m.y = float(own["position"][0]), float(own["position"][1])
    if own["velocity"] is not velocity:
        vx, vy = float(own["velocity"][0]), float(own["velocity"][1])
        if body.kind in WALKERS and (vx or vy):
            m.yaw = math.atan2(vy, vx)
        m.v = vx * math.cos(m.yaw) + vy * math.sin(m.yaw)


def _write(body: SimulatedBody, own: dict[str, Any]) -> None:
    """The body's state into the Scenic object. What has not moved is left: most props never do."""
    m = body.motion
    heading = scenic_heading(m.yaw)
    position = own["position"]
    here = position[0] == m.x and position[1] == m.y and own["heading"] == heading
    if here and own["_seen"][0] is not None and own["speed"] == 0.0 and m.v == 0.0:
        return
    velocity = Vector(m.vx, m.vy, 0.0)
    position = Vector(m.x, m.y, 0.0)
    own["position"], own["velocity"] = position, velocity
    own["_seen"] = (position, velocity)
    if own["heading"] != heading or own["yaw"] != heading:
        own["heading"] = own["yaw"] = heading
        own["orientation"] = Orientation._fromHeading(heading)
    own["speed"] = abs(m.v)
    own["angularSpeed"] = m.yaw_rate
    for name in own.keys() & own["_caches"]:  # Scenic's _clearCaches, without an exception for each empty one
        del own[name]
