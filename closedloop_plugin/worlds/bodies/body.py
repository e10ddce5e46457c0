"""Body: one thing on the road, as physics, traffic and the camera share it. Scenic objects are mirrored by one each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from closedloop_plugin.core.state import PEDESTRIANS, VEHICLES, Actor, ActorKind
from closedloop_plugin.worlds.bodies.vehicle import SPECS, MotionState, VehicleSpec, mass_of
from closedloop_plugin.worlds.bridge.rail import Rail

WALKERS = PEDESTRIANS | {ActorKind.ANIMAL}
MOTOR = VEHICLES - {ActorKind.BICYCLE}


@dataclass(eq=False)
class SimulatedBody:
    """Metres, kg, radians, map frame; (motion.x, motion.y) is the centre of the box."""

    id: str
    kind: ActorKind
    motion: MotionState
    length: float
    width: float
    height: float
    role: str = "scenario"
    colour: tuple[int, int, int] = (120, 120, 130)
    lamps: frozenset[str] = frozenset()
    doors: frozenset[str] = frozenset()
    rail: Rail | None = None
    steer: float = 0.0
    throttle: float = 0.0
    brake: float = 0.0
    reverse: bool = False
    braking: bool = False  # shows brake lamps
    fixed: bool = False
    gone: bool = False
    parked: bool = False  # began at a standstill: while nobody drives it, its parking brake is on
    stunned: bool = False  # was hit: a walker lies, a driver brakes
    spec: VehicleSpec | None = field(init=False)
    mass: float = field(init=False)
    radius: float = field(init=False)

    def __post_init__(self) -> None:
        self.spec = SPECS.get(self.kind)
        self.mass = mass_of(self.kind)
        self.radius = 0.5 * math.hypot(self.length, self.width)

    @property
    def still(self) -> bool:
        m = self.motion
        return not (m.v or m.knock_x or m.knock_y or m.knock_w)

    def stand_in(self, on_rail: bool) -> None:
        """Where no background traffic finds room, the cars that the scenario itself sends along (those on rails) are
        the surrounding traffic, and count for Efficiency."""
        if on_rail and self.role == "scenario" and self.kind in MOTOR:
            self.role = "background"

    def actor(self) -> Actor:
        """A snapshot for Truth."""
        m = self.motion
        lamps = self.lamps | {"brake"} if self.braking else self.lamps
        return Actor(
            self.id,
            self.kind,
            m.x,
            m.y,
            m.yaw,
            m.v,
            self.length,
            self.width,
            self.height,
            m.yaw_rate,
            m.ax,
            m.ay,
            self.steer,
            self.colour,
            lamps,
            self.doors,
            self.role,
        )
