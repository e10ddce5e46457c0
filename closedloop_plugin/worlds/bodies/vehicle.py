"""Motion of bodies: a kinematic bicycle model with engine, drag, brakes and a tyre limit; walking; sliding.

Bicycle model: the rear axle moves along the heading, the front wheels steer. Curvature = tan(wheel angle) / wheelbase
at low speed, reduced by an understeer factor at higher speed. Friction circle: the vector sum of longitudinal and
lateral acceleration is at most mu g times the weather's grip. Demand beyond that is cut (the car goes wider; ABS).
Parameters are those of common vehicles: power and mass as published by makers, rolling resistance coefficient 0.012,
air density 1.2 kg/m3. Map frame, yaw counter-clockwise; no numpy, for speed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.scenarios.known_words import known_word

G = 9.81  # m/s2


@dataclass(frozen=True)
class VehicleSpec:
    """One kind of vehicle. Metres, kg, watts, m/s, radians."""

    length: float
    width: float
    height: float
    mass: float
    wheelbase: float
    power: float  # W at the wheels
    pull: float  # m/s2, highest acceleration from standstill
    top_speed: float
    steer_limit: float = math.radians(35)
    steer_rate: float = math.radians(70)  # rad/s of the front wheels
    mu: float = 0.8  # tyre friction coefficient, dry road
    brake: float = 8.5  # m/s2 at full pedal
    drag_area: float = 0.7  # m2, drag coefficient times frontal area
    coast: float = 0.35  # m/s2, engine braking without a pedal


SPECS: dict[ActorKind, VehicleSpec] = {
    ActorKind.CAR: VehicleSpec(4.6, 1.9, 1.5, 1600, 2.8, 85e3, 4.0, 55.0),
    ActorKind.POLICE: VehicleSpec(4.8, 1.9, 1.55, 1800, 2.85, 140e3, 4.6, 60.0),
    ActorKind.VAN: VehicleSpec(5.4, 2.0, 2.4, 2400, 3.3, 95e3, 3.2, 45.0, drag_area=1.4),
    ActorKind.AMBULANCE: VehicleSpec(5.9, 2.1, 2.7, 3500, 3.6, 120e3, 3.0, 42.0, drag_area=1.8),
    ActorKind.TRUCK: VehicleSpec(8.0, 2.5, 3.4, 11000, 4.6, 210e3, 1.8, 27.0, mu=0.7, drag_area=4.5),
    ActorKind.FIRETRUCK: VehicleSpec(8.5, 2.5, 3.4, 14000, 4.6, 240e3, 1.8, 30.0, mu=0.7, drag_area=4.5),
    ActorKind.BUS: VehicleSpec(12.0, 2.55, 3.1, 13000, 6.0, 220e3, 1.5, 25.0, math.radians(45), mu=0.7, drag_area=5.0),
    ActorKind.MOTORCYCLE: VehicleSpec(2.1, 0.8, 1.5, 280, 1.4, 55e3, 5.0, 50.0, drag_area=0.45),
    ActorKind.BICYCLE: VehicleSpec(
        1.8, 0.6, 1.7, 90, 1.1, 400.0, 1.2, 12.0, mu=0.6, brake=5.0, drag_area=0.5, coast=0.05
    ),
}

# Length, width, height (m) and mass (kg) of kinds without an engine.
_OTHERS: dict[ActorKind, tuple[float, float, float, float]] = {
    ActorKind.PEDESTRIAN: (0.5, 0.6, 1.75, 75),
    ActorKind.CHILD: (0.4, 0.45, 1.2, 35),
    ActorKind.ANIMAL: (1.1, 0.4, 0.8, 35),
    ActorKind.CONE: (0.35, 0.35, 0.75, 4),
    ActorKind.BARRIER: (0.5, 2.0, 1.0, 80),
    ActorKind.DEBRIS: (0.7, 0.7, 0.4, 15),
    ActorKind.WARNING_SIGN: (0.3, 0.9, 1.2, 12),
    ActorKind.BLOCKER: (1.2, 1.8, 2.2, 600),
}


def size_of(kind: str) -> tuple[float, float, float]:
    """Length, width, height (m) of a kind by its name. UnknownWord: no such ActorKind."""
    known = ActorKind(known_word("kind", kind, ActorKind))
    spec = SPECS.get(known)
    return (spec.length, spec.width, spec.height) if spec else _OTHERS[known][:3]


def mass_of(kind: ActorKind) -> float:
    """Mass of a kind, kg."""
    spec = SPECS.get(kind)
    return spec.mass if spec else _OTHERS[kind][3]


class MotionState:
    """State of one moving body, changed in place.

    x, y (m), yaw (rad): centre of the box. v: speed along the yaw, m/s. vx, vy: velocity in the map frame. ax, ay: its
    change over the last step, m/s2. knock_x, knock_y (m/s), knock_w (rad/s): velocity added by a collision, which tyre
    friction reduces to zero.
    """

    __slots__ = ("ax", "ay", "knock_w", "knock_x", "knock_y", "v", "vx", "vy", "wheel", "x", "y", "yaw", "yaw_rate")

    def __init__(self, x: float, y: float, yaw: float, v: float = 0.0) -> None:
        self.x, self.y, self.yaw, self.v = x, y, yaw, v
        self.wheel = 0.0  # rad, left > 0
        self.yaw_rate = self.ax = self.ay = 0.0
        self.knock_x = self.knock_y = self.knock_w = 0.0
        self.vx, self.vy = v * math.cos(yaw), v * math.sin(yaw)


def drive(
    m: MotionState,
    spec: VehicleSpec,
    steer: float,
    throttle: float,
    brake: float,
    reverse: bool,
    grip: float,
    dt: float,
):
    """One step of `dt` seconds of the bicycle model.

    steer in [-1, 1], right > 0; throttle, brake in [0, 1]; grip: share of the dry tyre limit.
    """
    target = -min(max(steer, -1.0), 1.0) * spec.steer_limit  # wheel angle, left > 0
    turn = spec.steer_rate * dt
    m.wheel += min(max(target - m.wheel, -turn), turn)
    limit = spec.mu * grip * G  # radius of the friction circle, m/s2
    v = m.v
    # kappa = tan(delta) / L / (1 + (v / v_ch)^2), characteristic speed v_ch = 32 m/s
    curvature = math.tan(m.wheel) / spec.wheelbase / (1.0 + (v / 32.0) ** 2)
    lateral = abs(v * v * curvature)  # a_y = v^2 kappa
    if lateral > limit:  # the front slides: a wider circle
        curvature *= limit / lateral
        lateral = limit
    # Friction circle: a_x^2 + a_y^2 <= limit^2; 15 % of the limit always remains for the pedals.
    longitudinal = math.sqrt(max(limit * limit - lateral * lateral, (0.15 * limit) ** 2))
    v = _next_speed(v, spec=spec, throttle=throttle, brake=brake, reverse=reverse, tyre=longitudinal, dt=dt)
    mean = 0.5 * (v + m.v)
    rate = mean * curvature  # yaw rate, rad/s
    half = m.yaw + 0.5 * rate * dt  # midpoint rule: the rear axle moves along the mean heading of the step
    rear = 0.5 * spec.wheelbase  # from the centre back to the rear axle
    x = m.x - rear * math.cos(m.yaw) + mean * math.cos(half) * dt
    y = m.y - rear * math.sin(m.yaw) + mean * math.sin(half) * dt
    yaw = m.yaw + rate * dt
    m.v = v
    _set_pose(m, x + rear * math.cos(yaw), y + rear * math.sin(yaw), yaw, rate=rate, friction=limit, dt=dt)


def _next_speed(
    v: float, spec: VehicleSpec, throttle: float, brake: float, reverse: bool, tyre: float, dt: float
) -> float:
    """Speed after one step: engine force, then resistance, which does not change the sign. `tyre`: limit, m/s2."""
    speed = abs(v)
    air = 0.6 * spec.drag_area * v * v / spec.mass  # rho / 2 c_w A v^2 / m, m/s2
    if brake > 0.0:
        pull, resist = 0.0, min(spec.brake * min(brake, 1.0), tyre)
    elif throttle > 0.0:
        top = spec.top_speed if not reverse else 8.0
        # The pull fades out over the last 2 m/s below top speed.
        free = min(1.0, max(0.0, (top - speed) / 2.0)) if (v < 0) == reverse else 1.0
        # a = P / (m v), at most `pull` and what the tyres transmit
        pull = min(min(throttle, 1.0) * min(spec.pull, spec.power / (spec.mass * max(speed, 1.0))), tyre) * free
        pull, resist = (-pull if reverse else pull), 0.0
    else:
        pull, resist = 0.0, spec.coast
    resist += air + 0.012 * G if speed > 0.0 else 0.0
    v += pull * dt
    return v - math.copysign(min(abs(v), resist * dt), v)


def walk(m: MotionState, speed: float, yaw: float, dt: float) -> None:
    """One step of a person or animal, which takes speed (at most 10 m/s) and direction at once."""
    m.v = min(max(speed, 0.0), 10.0)
    rate = math.remainder(yaw - m.yaw, math.tau) / dt
    _set_pose(
        m, m.x + m.v * math.cos(yaw) * dt, m.y + m.v * math.sin(yaw) * dt, yaw, rate=rate, friction=0.6 * G, dt=dt
    )


def place(m: MotionState, x: float, y: float, yaw: float, v: float, dt: float) -> None:
    """Put a body at a pose (map frame), as for a rail; yaw rate and acceleration follow from the poses."""
    jumped = math.hypot(x - m.x, y - m.y) > 5.0 + 2.0 * abs(v) * dt  # it was moved while it was hidden
    if jumped:
        m.yaw, m.vx, m.vy = yaw, v * math.cos(yaw), v * math.sin(yaw)
    rate = math.remainder(yaw - m.yaw, math.tau) / dt
    m.v = v
    m.knock_x = m.knock_y = m.knock_w = 0.0
    _set_pose(m, x, y, m.yaw + rate * dt, rate=rate, friction=1.0, dt=dt)


def slide(m: MotionState, mu: float, dt: float) -> None:
    """One step of a body that nothing drives: friction mu g reduces its speed to zero."""
    m.v -= math.copysign(min(abs(m.v), mu * G * dt), m.v)
    x, y = m.x + m.v * math.cos(m.yaw) * dt, m.y + m.v * math.sin(m.yaw) * dt
    _set_pose(m, x, y, m.yaw, rate=0.0, friction=mu * G, dt=dt)


def _set_pose(m: MotionState, x: float, y: float, yaw: float, rate: float, friction: float, dt: float) -> None:
    """Set the pose plus the collision velocity's share, and update velocity and acceleration. `friction`: m/s2."""
    if m.knock_x or m.knock_y or m.knock_w:
        x, y, yaw = x + m.knock_x * dt, y + m.knock_y * dt, yaw + m.knock_w * dt
        rate += m.knock_w
        knock = math.hypot(m.knock_x, m.knock_y)
        keep = max(0.0, 1.0 - friction * dt / knock) if knock > 1e-9 else 0.0
        m.knock_x, m.knock_y = m.knock_x * keep, m.knock_y * keep
        m.knock_w = math.copysign(max(0.0, abs(m.knock_w) - 4.0 * dt), m.knock_w)
    vx, vy = m.v * math.cos(yaw) + m.knock_x, m.v * math.sin(yaw) + m.knock_y
    m.ax, m.ay = (vx - m.vx) / dt, (vy - m.vy) / dt
    m.x, m.y, m.vx, m.vy, m.yaw_rate = x, y, vx, vy, rate
    m.yaw = math.remainder(yaw, math.tau)
