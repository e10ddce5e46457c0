"""Low-level control of expert and baselines: from path and acceleration to steering and pedals."""

from __future__ import annotations

import math

import numpy as np

from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Actor, Control

WHEELBASE = 2.9  # m, a mid-size car
MAX_WHEEL = math.radians(35)  # rad, of the inner front wheel at steer = 1
ENGINE = 4.5  # m/s2 at full throttle and town speeds
BRAKES = 8.0  # m/s2 at full brake
LANE_M = 3.5  # nominal width of a lane


def pursuit(ego: Actor, path: RoutePath, s: float, offset: float, speed: float) -> float:
    """Pure pursuit of the path shifted by `offset` metres to the left: steer in [-1, 1], right > 0."""
    # The circle from the rear axle through a point at distance L and lateral offset y (left > 0), tangent to the
    # heading, has curvature 2 y / L^2; a bicycle model with wheelbase b drives it with wheel angle atan(2 b y / L^2).
    ahead = min(max(0.55 * speed + 2.2, 3.2), 12.0)  # look-ahead, m
    x, y, _ = path.pose(s + ahead, offset)
    rear_x, rear_y = ego.x - math.cos(ego.yaw) * WHEELBASE / 2, ego.y - math.sin(ego.yaw) * WHEELBASE / 2
    forward, left = to_ego(x, y, rear_x, rear_y, ego.yaw)
    reach = max(math.hypot(forward, left), 1.0)
    wheel = math.atan2(2 * WHEELBASE * left, reach * reach)
    return min(max(-wheel / MAX_WHEEL, -1.0), 1.0)


def pedals(acceleration: float, speed: float) -> tuple[float, float]:
    """(throttle, brake) for an acceleration in m/s2; a standing car without acceleration is held by the brake."""
    if speed < 0.3 and acceleration <= 0:
        return 0.0, 0.6
    if acceleration >= 0:
        return min((acceleration + 0.02 * speed) / ENGINE, 1.0), 0.0
    coasting = 0.1 + 0.01 * speed  # m/s2 of deceleration without pedals
    return 0.0, min(max(-acceleration - coasting, 0.0) / BRAKES, 1.0)


def to_speed(wanted: float, speed: float, brake: float = 4.0, accelerate: float = 2.0) -> float:
    """Acceleration in [-brake, accelerate], m/s2, that reaches the wanted speed within about a second."""
    return min(max(1.2 * (wanted - speed), -brake), accelerate)


def curve_speed(path: RoutePath, s: float, speed: float, limit: float, sideways: float = 2.2) -> float:
    """Highest current speed, m/s, from which every bend within braking distance can be driven at its own speed.

    sideways: lateral acceleration limit, m/s2.
    """
    # A bend of curvature k allows v_k = sqrt(a_lat / k); x metres before it sqrt(v_k^2 + 2 a x) with a = 2 m/s2 is
    # allowed. The braking distance from v is v^2 / (2 a) = v^2 / 4.
    reach = 6.0 + speed * speed / 4.0
    ahead = np.arange(int(reach / 1.5) + 2) * 1.5
    ahead = ahead[ahead < reach]
    start = np.maximum(s + ahead - 1.5, 0.0)
    before, after = np.interp([start, np.minimum(start + 3.0, path.length)], path.s, path.yaw)
    bend = np.abs(after - before) / 3.0
    bends = bend > 1e-3
    allowed = np.sqrt(sideways / bend[bends])
    speeds = np.sqrt(allowed * allowed + 2 * 2.0 * ahead[bends])
    return max(min(limit, float(speeds.min(initial=math.inf))), 2.0)


def control(ego: Actor, path: RoutePath, s: float, offset: float, acceleration: float) -> Control:
    """Steering and pedals for an acceleration (m/s2) on the path shifted by `offset` m to the left."""
    throttle, brake = pedals(acceleration, ego.speed)
    return Control(pursuit(ego, path, s, offset, ego.speed), throttle, brake).checked()
