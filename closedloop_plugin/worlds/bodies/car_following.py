"""Keeping a distance: the Intelligent Driver Model (Treiber, Hennecke, Helbing 2000) for whoever drives on a rail."""

from __future__ import annotations

import math
from collections.abc import Sequence

from closedloop_plugin.core.state import PEDESTRIANS, ActorKind, SignalState, StopLine
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle
from closedloop_plugin.worlds.bridge.rail import PathInterpolator, Rail

HEADWAY_S = 1.4
LOOK_M = 60.0


def idm(speed: float, wanted: float, gap: float, lead: float, accel: float, brake: float, rest: float) -> float:
    """Acceleration, m/s2, behind a leader `gap` metres ahead going at `lead` m/s; `rest`: gap at a standstill."""
    close = speed * (speed - lead) / (2 * math.sqrt(accel * brake))
    want = rest + max(0.0, speed * HEADWAY_S + close)
    free = 1 - (speed / max(wanted, 0.1)) ** 4
    return max(accel * (free - (want / max(gap, 0.1)) ** 2), -9.0)


def closed(lights: TrafficLightCycle) -> list[StopLine]:
    """The signal lines that are not green now."""
    return [line for line in lights.lines if lights.state[line.id] is not SignalState.GREEN]


def allowed(body: SimulatedBody, others: Sequence[SimulatedBody], lines: Sequence[StopLine]) -> float:
    """Highest acceleration that what is ahead on the body's rail permits; inf where nothing is."""
    rail = body.rail
    if rail is None:
        return math.inf
    best = math.inf
    if rail.gap is not None:
        ahead = nearest(body, rail, others)
        if ahead is not None:
            speed = rail.speed if rail.now is None else rail.now
            best = idm(speed, max(rail.speed, speed), ahead[0], ahead[1], rail.accel, rail.brake, rail.gap)
    if rail.lights:
        best = min(best, _for_lights(body, rail, lines))
    return best


def nearest(body: SimulatedBody, rail: Rail, others: Sequence[SimulatedBody]) -> tuple[float, float] | None:
    """(free metres, speed along the line) of the closest body in the rail's own corridor ahead."""
    m = body.motion
    c, s = math.cos(m.yaw), math.sin(m.yaw)
    best: tuple[float, float] | None = None
    track = PathInterpolator.of(rail.path)
    for other in others:
        if other is body or other.gone:
            continue
        o = other.motion
        dx, dy = o.x - m.x, o.y - m.y
        ahead = dx * c + dy * s
        if ahead < -2.0 or dx * dx + dy * dy > LOOK_M * LOOK_M:
            continue
        at, side = track.foot(o.x, o.y, rail.s + rail.direction * ahead)
        along = (at - rail.s) * rail.direction
        turned = o.yaw - m.yaw
        wide = 0.5 * (abs(other.width * math.cos(turned)) + abs(other.length * math.sin(turned)))
        margin = 0.9 if other.kind in PEDESTRIANS or other.kind is ActorKind.BICYCLE else 0.3
        if along <= 0.0 or abs(side - rail.d) > 0.5 * body.width + wide + margin:
            continue
        long = 0.5 * (abs(other.length * math.cos(turned)) + abs(other.width * math.sin(turned)))
        gap = along - 0.5 * body.length - long
        if best is None or gap < best[0]:
            best = gap, o.vx * c + o.vy * s
    return best


def _for_lights(body: SimulatedBody, rail: Rail, lines: Sequence[StopLine]) -> float:
    """Brake for a closed line ahead, unless it takes more than the driver's own brake (too late: go)."""
    m = body.motion
    c, s = math.cos(m.yaw), math.sin(m.yaw)
    best = math.inf
    for line in lines:
        dx, dy = line.x - m.x, line.y - m.y
        left = dx * c + dy * s - 0.5 * body.length
        if not 0.0 < left < LOOK_M or math.cos(line.yaw - m.yaw) < 0.7 or abs(dy * c - dx * s) > 0.5 * line.width:
            continue
        speed = rail.speed if rail.now is None else rail.now
        if speed * speed / (2 * left) < rail.brake:
            best = min(best, idm(speed, max(rail.speed, speed), left, 0.0, rail.accel, rail.brake, 1.0))
    return best
