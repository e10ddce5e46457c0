"""Simulates a vehicle on the track: motion, collisions, events and camera. No ROS, no clock.

Kinematic model of a simulated vehicle: driver model, acceleration limits, watchdog of the base. No slip.

Commands are interpreted by vehicles.drivers, including LIMO's driver bugs. Our own limits are not applied here, so that
tests notice a missing clamp. The pose is that of the middle of LIMO's box (its base_link) or of a JetBot's axle;
x right, y up on the floor, yaw counter-clockwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.robots.sandbox.camera import FloorCamera, FloorCameraMount
from closedloop_plugin.robots.sandbox.track import Footprint, SandboxTrack, sandbox
from closedloop_plugin.robots.vehicles.drivers import ACKERMANN, driven, limo_motion, serial_frame
from closedloop_plugin.robots.vehicles.vehicle import Actuation, Twist, Vehicle

Pose = tuple[float, float, float]

# By platform. LIMO's box is from its manual; a JetBot's is estimated (jetbot_pro gives a radius of 0.12 m), with its
# caster behind the axle.
FOOTPRINTS = {
    "limo": Footprint(0.322, 0.220),
    "jetbot_pro": Footprint(0.18, 0.16, -0.03),
    "jetbot_words": Footprint(0.18, 0.16, -0.03),
    "jetbot_wheels": Footprint(0.18, 0.16, -0.03),
}
# Both are assumptions: the motors brake twice as hard as they accelerate (friction helps), and the steering moves from
# lock to lock (2 x 2.17 1/m) in a third of a second.
BRAKE = 2.0
CURVATURE_RATE = 13.0  # 1/(m s)


class SandboxBody:
    """One vehicle. `step` moves it; a command is kept until the next one or until the watchdog of the base."""

    def __init__(self, vehicle: Vehicle) -> None:
        self.vehicle = vehicle
        self.footprint = FOOTPRINTS[vehicle.platform]
        self.x = self.y = self.yaw = 0.0
        self.vx = self.vy = self.wz = 0.0  # velocity of the pose's reference point: m/s forward, m/s left, rad/s left
        self._odometry: Pose = (0.0, 0.0, 0.0)
        self._is_ackermann = vehicle.platform == "limo" and vehicle.mode == ACKERMANN
        self._goal = Twist(0.0)
        self._goal_curvature = self._curvature = 0.0  # curvature of the rear axle's path, 1/m; Ackermann only
        self._age = 0.0  # s since the last command

    @property
    def pose(self) -> Pose:
        return self.x, self.y, self.yaw

    def place(self, x: float, y: float, yaw: float) -> None:
        """Move the vehicle by hand: it stands afterwards. Odometry and the last command are not changed."""
        self.x, self.y, self.yaw = x, y, wrap(yaw)
        self.vx = self.vy = self.wz = 0.0

    def command(self, actuation: Actuation) -> None:
        """Execute a message of the vehicle's command topic, valid or not."""
        self._age = 0.0
        goal = driven(self.vehicle, actuation)
        # dusty-nv's ROS 2 node crashes on NaN; what its motors do then is unknown, here they stop.
        self._goal = goal if all(map(math.isfinite, (goal.vx, goal.vy, goal.wz))) else Twist(0.0)
        if self._is_ackermann and isinstance(actuation, Twist):
            # The wheels also steer while standing: the curvature is the yaw rate at 1 m/s.
            sent = serial_frame(actuation, ACKERMANN)
            self._goal_curvature = limo_motion(replace(sent, speed=1000), ACKERMANN).wz

    def step(self, dt: float) -> None:
        """Advance by `dt` seconds; use steps of 5 to 20 ms."""
        self._age += dt
        goal = self._goal
        if self.vehicle.watchdog_s is not None and self._age > self.vehicle.watchdog_s:
            goal = Twist(0.0)
        accel, top = self.vehicle.ceiling.accel, self.vehicle.ceiling.speed
        spin = 2 / self.vehicle.track  # rad/s for one wheel at 1 m/s and the other at -1
        self.vx = _toward(self.vx, _within(goal.vx, top), accel, dt)
        if self._is_ackermann:
            self._curvature += _within(self._goal_curvature - self._curvature, CURVATURE_RATE * dt)
            self.wz = self.vx * self._curvature
            # The rear axle has no lateral velocity; the reference point is half a wheelbase ahead of it.
            self.vy = self.wz * self.vehicle.wheelbase / 2
        else:
            self.vy = _toward(self.vy, _within(goal.vy, top), accel, dt)
            self.wz = _toward(self.wz, _within(goal.wz, top * spin), accel * spin, dt)
        self.x, self.y, self.yaw = self._moved(self.pose, dt)
        self._odometry = self._moved(self._odometry, dt)

    def block(self, pose: Pose) -> None:
        """Collision: back to `pose`, standing. Odometry keeps the distance, as with slipping wheels."""
        self.x, self.y, self.yaw = pose
        self.vx = self.vy = self.wz = 0.0

    def odometry(self) -> dict[str, float]:
        """Dead reckoning from the initial pose: x, y in m, yaw in rad, v in m/s, w in rad/s."""
        x, y, yaw = self._odometry
        return {"x": x, "y": y, "yaw": yaw, "v": self.vx, "w": self.wz}

    def _moved(self, pose: Pose, dt: float) -> Pose:
        x, y, yaw = pose
        half = yaw + self.wz * dt / 2  # midpoint rule: the heading in the middle of the step
        c, s = math.cos(half), math.sin(half)
        return x + (self.vx * c - self.vy * s) * dt, y + (self.vx * s + self.vy * c) * dt, wrap(yaw + self.wz * dt)


def _toward(now: float, goal: float, accel: float, dt: float) -> float:
    slowing = abs(goal) < abs(now) or now * goal < 0
    return now + _within(goal - now, accel * (BRAKE if slowing else 1.0) * dt)


def _within(value: float, most: float) -> float:
    return min(max(value, -most), most)


# By platform, all estimated. JetBot's lens has 160 degrees with strong distortion; the pinhole model uses less.
VIEWS = {
    "limo": FloorCameraMount(ahead=0.10, up=0.18, fov=68.0),
    "jetbot_pro": FloorCameraMount(ahead=0.04, up=0.12, fov=105.0, pitch=10.0),
    "jetbot_words": FloorCameraMount(ahead=0.04, up=0.12, fov=105.0, pitch=10.0),
    "jetbot_wheels": FloorCameraMount(ahead=0.04, up=0.12, fov=105.0, pitch=10.0),
}
PLACED, WALL = "placed", "hit wall"


@dataclass(frozen=True)
class SandboxEvent:
    """`what`: placed, or the new state: inside, crossed line, hit obstacle:NAME, hit wall. x, y in m, yaw in rad."""

    t: float  # simulated time, s
    what: str
    x: float
    y: float
    yaw: float


class SandboxScene:
    """`step` moves the vehicle and returns events. Obstacles and walls stop it; crossed lines are only reported."""

    def __init__(self, vehicle: Vehicle, track: SandboxTrack | None = None) -> None:
        self.track = track or sandbox()
        self.body = SandboxBody(vehicle)
        self.t = 0.0
        self.verdict = ""
        self.body.place(*self.track.segments[0].start)

    def place(self, x: float, y: float, yaw: float) -> list[SandboxEvent]:
        self.body.place(x, y, yaw)
        self.verdict = ""
        return [self._event(PLACED), *self._changes(self._verdict())]

    def command(self, actuation: Actuation) -> None:
        self.body.command(actuation)

    def step(self, dt: float) -> list[SandboxEvent]:
        before = self.body.pose
        self.body.step(dt)
        self.t += dt
        verdict = self._verdict()
        if verdict.startswith("hit"):
            self.body.block(before)
        return self._changes(verdict)

    def jpeg(self, pose: Pose | None = None, quality: int = 80) -> bytes:
        """The camera image at the current pose, or at `pose`."""
        return self._camera.jpeg(*(pose or self.body.pose), quality=quality)

    def picture(self, pose: Pose | None = None) -> np.ndarray:
        """The same image as (height, width, 3) uint8 RGB."""
        return self._camera.picture(*(pose or self.body.pose))

    @cached_property
    def _camera(self) -> FloorCamera:
        return FloorCamera(self.track, VIEWS[self.body.vehicle.platform])

    def _verdict(self) -> str:
        pose, footprint = self.body.pose, self.body.footprint
        if not self.track.on_floor(*pose, footprint):
            return WALL
        return self.track.contains(*pose, footprint)

    def _changes(self, verdict: str) -> list[SandboxEvent]:
        if verdict == self.verdict:
            return []
        self.verdict = verdict
        return [self._event(verdict)]

    def _event(self, what: str) -> SandboxEvent:
        return SandboxEvent(self.t, what, *self.body.pose)
