"""Body: present state of one actor in the fake simulator, and its state in the last frame (FrameState).

Motion runs in the map frame (x east, y north, yaw in radians counter-clockwise) by our own vehicle model; all
outputs are in CARLA's frame: y to the south, degrees clockwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import carla

from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.bodies.vehicle import SPECS, MotionState, drive, mass_of, walk

SOLID = frozenset({"vehicle", "walker", "prop"})


class FrameState(NamedTuple):
    """One actor in one frame: plain numbers in CARLA's axes; m, degrees, m/s, m/s2, degrees/s."""

    place: tuple[float, float, float]
    turn: tuple[float, float, float]  # pitch, yaw, roll
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    acceleration: tuple[float, float, float] = (0.0, 0.0, 0.0)
    spin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    state: Any = None  # the control of a vehicle or walker, the colour of a light

    def transform(self) -> carla.Transform:
        return carla.Transform(carla.Location(*self.place), carla.Rotation(*self.turn))


NO_STATE = FrameState((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))  # state of an actor before the first tick


@dataclass(eq=False)
class Body:
    """`group`: vehicle, walker, prop, sensor, controller, light, sign or spectator. `half`: of the box, m."""

    id: int
    type_id: str
    group: str
    kind: ActorKind
    half: tuple[float, float, float]
    motion: MotionState
    z: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0
    attributes: dict[str, str] = field(default_factory=dict)
    parent: Body | None = None
    offset: carla.Transform | None = None  # of a sensor on its parent
    physics: bool = True
    control: Any = None
    lamps: int = 0
    doors: set[str] = field(default_factory=set)
    pilot: Any = None  # the traffic manager's Driver or a walker's Stroll
    pushed: float | None = None  # enable_constant_velocity, m/s forward
    alive: bool = True
    last: FrameState = NO_STATE
    just_placed: bool = True  # drops onto the road in the next step

    @property
    def mass(self) -> float:
        return mass_of(self.kind)

    @property
    def lift(self) -> float:
        """Height of the actor's origin above the ground: a walker's is the middle of its capsule."""
        return self.half[2] if self.group == "walker" else 0.0

    def put(self, transform: carla.Transform) -> None:
        place, turn = transform.location, transform.rotation
        self.motion.x, self.motion.y, self.motion.yaw = from_carla(place.x, place.y, turn.yaw)
        self.z, self.pitch, self.roll = place.z, turn.pitch, turn.roll

    def push(self, x: float, y: float) -> None:
        """Set the velocity (CARLA's axes); only the component along the heading remains, as with wheels."""
        m = self.motion
        m.v = x * math.cos(m.yaw) - y * math.sin(m.yaw)

    def move(self, dt: float) -> None:
        """One step of motion."""
        m = self.motion
        if self.group == "walker":
            aim = self.control.direction
            moving = self.control.speed > 0 and math.hypot(aim.x, aim.y) > 1e-6
            walk(m, self.control.speed if moving else 0.0, math.atan2(-aim.y, aim.x) if moving else m.yaw, dt)
        elif self.pushed is not None:
            m.v = self.pushed
            drive(m, SPECS[self.kind], self.control.steer, 0.0, 0.0, m.v < 0, 1.0, dt)
        else:
            c = self.control
            brake = 1.0 if c.hand_brake else c.brake
            drive(m, SPECS[self.kind], c.steer, c.throttle, brake, c.reverse, 1.0, dt)

    def transform(self) -> carla.Transform:
        """Its present pose, possibly between two frames."""
        if self.parent is not None and self.offset is not None:
            base, turn = self.parent.transform(), self.offset.rotation
            at = base.transform(carla.Location(self.offset.location.x, self.offset.location.y, self.offset.location.z))
            rotation = base.rotation
            return carla.Transform(
                carla.Location(at.x, at.y, at.z),
                carla.Rotation(rotation.pitch + turn.pitch, rotation.yaw + turn.yaw, rotation.roll + turn.roll),
            )
        m = self.motion
        turned = carla.Rotation(self.pitch, -math.degrees(m.yaw), self.roll)
        return carla.Transform(carla.Location(m.x, -m.y, self.z), turned)

    def frame_state(self, state: Any) -> FrameState:
        """Its state for this frame."""
        m = self.motion
        if self.parent is not None and self.offset is not None:
            at = self.transform()
            place, turn = at.location, at.rotation
            return FrameState((place.x, place.y, place.z), (turn.pitch, turn.yaw, turn.roll))
        place_now, turn_now = (m.x, -m.y, self.z), (self.pitch, -math.degrees(m.yaw), self.roll)
        if self.group not in ("vehicle", "walker") or not self.physics:
            return FrameState(place_now, turn_now, state=state)  # moved by set_transform: without a velocity
        return FrameState(
            place_now,
            turn_now,
            (m.vx, -m.vy, 0.0),
            (m.ax, -m.ay, 0.0),
            (0.0, 0.0, -math.degrees(m.yaw_rate)),
            state,
        )

    def corners(self) -> list[tuple[float, float]]:
        """Corners of its box on the ground, map frame."""
        m = self.motion
        c, s = math.cos(m.yaw), math.sin(m.yaw)
        a, b = self.half[0], self.half[1]
        return [
            (m.x + i * a * c - j * b * s, m.y + i * a * s + j * b * c) for i, j in ((1, 1), (1, -1), (-1, -1), (-1, 1))
        ]

    def overlaps(self, other: Body) -> bool:
        """Whether the boxes intersect on the ground and in height."""
        bottom, other_bottom = self.z - self.lift, other.z - other.lift
        if bottom + 2 * self.half[2] < other_bottom or other_bottom + 2 * other.half[2] < bottom:
            return False
        reach = math.hypot(*self.half[:2]) + math.hypot(*other.half[:2])
        m, o = self.motion, other.motion
        if (m.x - o.x) ** 2 + (m.y - o.y) ** 2 > reach * reach:
            return False
        mine, theirs = self.corners(), other.corners()
        for yaw in (m.yaw, m.yaw + math.pi / 2, o.yaw, o.yaw + math.pi / 2):
            c, s = math.cos(yaw), math.sin(yaw)
            own = [x * c + y * s for x, y in mine]
            others = [x * c + y * s for x, y in theirs]
            if max(own) < min(others) or max(others) < min(own):
                return False
        return True
