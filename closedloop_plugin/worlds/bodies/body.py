"""SimulatedBody: state of one road user or obstacle, shared by physics, traffic and camera.

Each Scenic object has one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from closedloop_plugin.core.state import PEDESTRIANS, VEHICLES, Actor, ActorKind
from closedloop_plugin.worlds.bodies.vehicle import SPECS, MotionState, VehicleSpec, mass_of
from closedloop_plugin.worlds.bridge.rail import Rail
from closedloop_plugin.worlds.bridge.stage import STANDARD

EGO = "ego"  # id and role of the ego
WALKERS = PEDESTRIANS | {ActorKind.ANIMAL}
MOTOR = VEHICLES - {ActorKind.BICYCLE}


@dataclass(eq=False)
class SimulatedBody:
    """Pose, size and controls. Metres, kg, radians, map frame; (motion.x, motion.y) is the centre of the box."""

    id: str
    kind: ActorKind
    motion: MotionState
    length: float
    width: float
    height: float
    role: str = "scenario"  # of the program; STANDARD: of the standard scenario under it; "background", "ego"
    colour: tuple[int, int, int] = (120, 120, 130)
    lamps: frozenset[str] = frozenset()  # names as in worlds/embedded/model.scenic
    doors: frozenset[str] = frozenset()
    rail: Rail | None = None
    steer: float = 0.0
    throttle: float = 0.0
    brake: float = 0.0
    reverse: bool = False
    braking: bool = False  # brake lamps are on
    fixed: bool = False  # infinite mass in collisions
    gone: bool = False  # removed from the scene
    parked: bool = False  # started at rest; its parking brake is on until a behaviour drives it
    driven: bool = False  # a rail, a pedal or a speed has moved it since the start
    was_hit: bool = False  # since then a walker lies still and a driver brakes
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

    def count_as_background(self, on_rail: bool) -> None:
        """Set the role of a scenario's car on a rail to "background", so that it counts for Efficiency.

        Used where the scenario leaves no room for background traffic.
        """
        if on_rail and self.role in ("scenario", STANDARD) and self.kind in MOTOR:
            self.role = "background"

    def actor(self) -> Actor:
        """A snapshot for GroundTruth."""
        m = self.motion
        lamps = self.lamps | {"brake"} if self.braking else self.lamps
        return Actor(
            id=self.id,
            kind=self.kind,
            x=m.x,
            y=m.y,
            yaw=m.yaw,
            speed=m.v,
            length=self.length,
            width=self.width,
            height=self.height,
            yaw_rate=m.yaw_rate,
            ax=m.ax,
            ay=m.ay,
            steer=self.steer,
            colour=self.colour,
            lamps=lamps,
            doors=self.doors,
            parked=self.parked and not self.driven,
            role=self.role,
        )


def name_of(role: str, before: Sequence[SimulatedBody]) -> str:
    """Id of the next Scenic object's body: the ego first, then s1, s2 ... of the program, and r1, r2 ... of the route's
    standard scenario under it. `before`: the bodies so far. Background traffic (b0, b1 ...) is no Scenic object."""
    letter = "r" if role == STANDARD else "s"
    return f"{letter}{1 + sum(body.id[0] == letter for body in before)}" if before else EGO
