"""How a simulated vehicle moves: its driver's own reading of a command, acceleration limits, its base's watchdog.

A kinematic body without slip. What the driver makes of a command is vehicles.drivers' business, LIMO's quirks included;
nothing here keeps within our limits, or a missing clamp would never show. The pose is that of the middle of LIMO's box
(its base_link) and of the axle of a JetBot; x right, y up on the floor, yaw counter-clockwise.
"""

from __future__ import annotations

import math
from dataclasses import replace

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.robots.sandbox.track import Footprint
from closedloop_plugin.robots.vehicles import limo_driver
from closedloop_plugin.robots.vehicles.base import Actuation, Twist, Vehicle
from closedloop_plugin.robots.vehicles.drivers import driven
from closedloop_plugin.robots.vehicles.limo import ACKERMANN

Pose = tuple[float, float, float]

# By platform. LIMO's box is from its maker's manual; a JetBot's is estimated (jetbot_pro gives a radius of 0.12 m), its
# caster runs behind the axle.
FOOTPRINTS = {
    "limo": Footprint(0.322, 0.220),
    "jetbot_pro": Footprint(0.18, 0.16, -0.03),
    "jetbot_words": Footprint(0.18, 0.16, -0.03),
    "jetbot_wheels": Footprint(0.18, 0.16, -0.03),
}
# Neither is published, both are assumed: the motors brake twice as hard as they speed up (friction helps), and the
# steering goes from lock to lock (2 x 2.17 1/m) in a third of a second.
BRAKE = 2.0
BEND_RATE = 13.0  # 1/(m s)


class SandboxBody:
    """One vehicle. `step` moves it; a command holds until the next one or the base's watchdog, as on the vehicle."""

    def __init__(self, vehicle: Vehicle) -> None:
        self.vehicle = vehicle
        self.footprint = FOOTPRINTS[vehicle.platform]
        self.x = self.y = self.yaw = 0.0
        self.vx = self.vy = self.wz = 0.0  # m/s forward and left of the pose's point, rad/s left
        self._odometry: Pose = (0.0, 0.0, 0.0)
        self._steers = vehicle.platform == "limo" and vehicle.mode == ACKERMANN
        self._goal = Twist(0.0)
        self._goal_bend = self._bend = 0.0  # 1/m, of the rear axle's path; where wheels steer
        self._age = 0.0  # s since the last command

    @property
    def pose(self) -> Pose:
        return self.x, self.y, self.yaw

    def place(self, x: float, y: float, yaw: float) -> None:
        """Lifted up and put down: it stands. Its odometry notices nothing, and its last command still holds."""
        self.x, self.y, self.yaw = x, y, wrap(yaw)
        self.vx = self.vy = self.wz = 0.0

    def command(self, actuation: Actuation) -> None:
        """What arrived on the vehicle's command topic, in whatever state."""
        self._age = 0.0
        goal = driven(self.vehicle, actuation)
        # dusty-nv's ROS 2 node ends over a NaN; what its motors do then is unknown, here they stop.
        self._goal = goal if all(map(math.isfinite, (goal.vx, goal.vy, goal.wz))) else Twist(0.0)
        if self._steers and isinstance(actuation, Twist):
            # The wheel turns before the vehicle rolls: what it would drive at 1 m/s.
            sent = limo_driver.frame(actuation, ACKERMANN)
            self._goal_bend = limo_driver.driven(replace(sent, speed=1000), ACKERMANN).wz

    def step(self, dt: float) -> None:
        """`dt` seconds on; steps of 5 to 20 ms."""
        self._age += dt
        goal = self._goal
        if self.vehicle.watchdog_s is not None and self._age > self.vehicle.watchdog_s:
            goal = Twist(0.0)
        accel, top = self.vehicle.ceiling.accel, self.vehicle.ceiling.speed
        spin = 2 / self.vehicle.track  # rad/s for one wheel at 1 m/s and the other at -1
        self.vx = _toward(self.vx, _within(goal.vx, top), accel, dt)
        if self._steers:
            self._bend += _within(self._goal_bend - self._bend, BEND_RATE * dt)
            self.wz = self.vx * self._bend
            self.vy = self.wz * self.vehicle.wheelbase / 2  # the middle is ahead of the axle that rolls straight
        else:
            self.vy = _toward(self.vy, _within(goal.vy, top), accel, dt)
            self.wz = _toward(self.wz, _within(goal.wz, top * spin), accel * spin, dt)
        self.x, self.y, self.yaw = self._moved(self.pose, dt)
        self._odometry = self._moved(self._odometry, dt)

    def block(self, pose: Pose) -> None:
        """Something solid is in the way: back to `pose`, standing. The wheels slip: odometry has counted the way."""
        self.x, self.y, self.yaw = pose
        self.vx = self.vy = self.wz = 0.0

    def odometry(self) -> dict[str, float]:
        """Dead reckoning from where the vehicle was switched on: x, y in m, yaw in rad; v in m/s, w in rad/s."""
        x, y, yaw = self._odometry
        return {"x": x, "y": y, "yaw": yaw, "v": self.vx, "w": self.wz}

    def _moved(self, pose: Pose, dt: float) -> Pose:
        x, y, yaw = pose
        half = yaw + self.wz * dt / 2
        c, s = math.cos(half), math.sin(half)
        return x + (self.vx * c - self.vy * s) * dt, y + (self.vx * s + self.vy * c) * dt, wrap(yaw + self.wz * dt)


def _toward(now: float, goal: float, accel: float, dt: float) -> float:
    slowing = abs(goal) < abs(now) or now * goal < 0
    return now + _within(goal - now, accel * (BRAKE if slowing else 1.0) * dt)


def _within(value: float, most: float) -> float:
    return min(max(value, -most), most)
