"""Car following on rails: the Intelligent Driver Model (IDM).

Treiber, Hennecke, Helbing: Congested traffic states in empirical observations and microscopic simulations, Phys. Rev. E
62 (2000). Acceleration = a [1 - (v / v0)^4 - (s* / s)^2], desired gap s* = s0 + v T + v (v - v_lead) / (2 sqrt(a b)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from closedloop_plugin.core.state import PEDESTRIANS, ActorKind, SignalState, StopLine
from closedloop_plugin.worlds.bodies.body import SimulatedBody
from closedloop_plugin.worlds.bodies.traffic_lights import TrafficLightCycle
from closedloop_plugin.worlds.bridge.rail import PathInterpolator, Rail

HEADWAY_S = 1.4  # T
LOOKAHEAD_M = 60.0  # bodies and stop lines beyond are ignored


def idm(speed: float, desired: float, gap: float, lead: float, accel: float, brake: float, rest: float) -> float:
    """Acceleration in m/s2, at least -9.

    speed: v; desired: v0; lead: speed of the leader (m/s). gap: s, bumper to bumper; rest: s0, gap at a standstill (m).
    accel: a; brake: comfortable deceleration b (m/s2).
    """
    closing = speed * (speed - lead) / (2 * math.sqrt(accel * brake))
    desired_gap = rest + max(0.0, speed * HEADWAY_S + closing)  # s*
    free = 1 - (speed / max(desired, 0.1)) ** 4
    return max(accel * (free - (desired_gap / max(gap, 0.1)) ** 2), -9.0)


def closed_stop_lines(lights: TrafficLightCycle) -> list[StopLine]:
    """Stop lines whose signal is not green now."""
    return [line for line in lights.lines if lights.state[line.id] is not SignalState.GREEN]


def max_acceleration(body: SimulatedBody, others: Sequence[SimulatedBody], lines: Sequence[StopLine]) -> float:
    """Highest acceleration (m/s2) that traffic and closed stop lines ahead on the body's rail permit; inf: no limit."""
    rail = body.rail
    if rail is None:
        return math.inf
    best = math.inf
    if rail.gap is not None:
        leader = find_leader(body, rail, others)
        if leader is not None:
            best = _behind(rail, gap=leader[0], lead=leader[1], rest=rail.gap)
    if rail.lights:
        best = min(best, _stop_line_acceleration(body, rail, lines))
    return best


def _behind(rail: Rail, gap: float, lead: float, rest: float) -> float:
    """IDM on a rail behind a leader."""
    speed = rail.speed if rail.now is None else rail.now
    desired = max(rail.speed, speed)
    return idm(speed=speed, desired=desired, gap=gap, lead=lead, accel=rail.accel, brake=rail.brake, rest=rest)


def find_leader(body: SimulatedBody, rail: Rail, others: Sequence[SimulatedBody]) -> tuple[float, float] | None:
    """(bumper to bumper gap, m; speed along the body's heading, m/s) of the closest body ahead on the rail, or None."""
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
        if ahead < -2.0 or dx * dx + dy * dy > LOOKAHEAD_M * LOOKAHEAD_M:
            continue
        at, side = track.foot(o.x, o.y, rail.s + rail.direction * ahead)
        along = (at - rail.s) * rail.direction  # m along the path to the other's centre
        turned = o.yaw - m.yaw
        # Half extents of the turned box across and along the body's heading.
        half_width = 0.5 * (abs(other.width * math.cos(turned)) + abs(other.length * math.sin(turned)))
        margin = 0.9 if other.kind in PEDESTRIANS or other.kind is ActorKind.BICYCLE else 0.3
        if along <= 0.0 or abs(side - rail.d) > 0.5 * body.width + half_width + margin:
            continue
        half_length = 0.5 * (abs(other.length * math.cos(turned)) + abs(other.width * math.sin(turned)))
        gap = along - 0.5 * body.length - half_length
        if best is None or gap < best[0]:
            best = gap, o.vx * c + o.vy * s
    return best


def _stop_line_acceleration(body: SimulatedBody, rail: Rail, lines: Sequence[StopLine]) -> float:
    """IDM behind closed stop lines, taken as standing leaders; a line that needs more than `rail.brake` is passed."""
    m = body.motion
    c, s = math.cos(m.yaw), math.sin(m.yaw)
    best = math.inf
    for line in lines:
        dx, dy = line.x - m.x, line.y - m.y
        left = dx * c + dy * s - 0.5 * body.length
        if not 0.0 < left < LOOKAHEAD_M or math.cos(line.yaw - m.yaw) < 0.7 or abs(dy * c - dx * s) > 0.5 * line.width:
            continue
        speed = rail.speed if rail.now is None else rail.now
        if speed * speed / (2 * left) < rail.brake:  # v^2 / (2 s): deceleration that stops at the line
            best = min(best, _behind(rail, gap=left, lead=0.0, rest=1.0))
    return best
