"""Ego rollouts, actor forecasts and their contacts. Bodies are covered by discs; numpy, vectorised.

Shapes: T forecast times, D discs of all actors, R rollouts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import PEDESTRIANS, Actor, ActorKind

VULNERABLE = PEDESTRIANS | {ActorKind.ANIMAL, ActorKind.BICYCLE}  # get more clearance: they change direction
HORIZON_S = 5.0
STEP_S = 0.25
TIMES = np.arange(1, round(HORIZON_S / STEP_S) + 1) * STEP_S


def discs(length: float, width: float) -> tuple[np.ndarray, float]:
    """Offsets along the body (n,), m, and the radius of n equal discs that cover a box."""
    n = max(1, math.ceil(2 * length / max(width, 0.3)))
    piece = length / n
    return (np.arange(n) - (n - 1) / 2) * piece, math.hypot(width / 2, piece / 2)


def forecast(actors: Sequence[Actor], lines: Sequence[np.ndarray | None] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Discs of all actors at TIMES: centres (D, T, 2) and radii (D,), metres in the map frame.

    `lines`: for each actor its predicted poses, (T, 3) of x, y, yaw (see `along_path`); None: constant speed and yaw
    rate, which holds within a turn but not for an actor that begins one.
    """
    centres, radii = [], []
    for k, a in enumerate(actors):
        line = lines[k] if k < len(lines) else None
        x, y, yaw = (constant_motion(a) if line is None else line).T
        shift, radius = discs(a.length, a.width)
        for d in shift:
            centres.append(np.column_stack([x + d * np.cos(yaw), y + d * np.sin(yaw)]))
            radii.append(radius + (0.35 if a.kind in VULNERABLE else 0.0))
    if not centres:
        return np.zeros((0, len(TIMES), 2)), np.zeros(0)
    return np.stack(centres), np.array(radii)


def constant_motion(a: Actor) -> np.ndarray:
    """(T, 3) of x, y, yaw at constant speed v and yaw rate w."""
    rate = a.yaw_rate if abs(a.yaw_rate) > 0.02 else 0.0
    turn = rate * np.minimum(TIMES, 2.5)  # a turn ends after 2.5 s
    chord = a.yaw + turn / 2  # direction of the chord of an arc; its length is taken as v t
    way = a.speed * TIMES
    return np.column_stack([a.x + way * np.cos(chord), a.y + way * np.sin(chord), a.yaw + turn])


def along_path(path: RoutePath, s: float, d: float, v_s: float, v_d: float) -> np.ndarray:
    """(T, 3) of x, y, yaw of an actor that follows the path from (s, d); v_d (m/s to the left) holds for 2 s."""
    at = s + v_s * TIMES
    off = d + v_d * np.minimum(TIMES, 2.0)
    return _points(path, at, off, 0.0 if v_s >= 0 else math.pi)


def _points(path: RoutePath, s: np.ndarray, d: np.ndarray, turn: float | np.ndarray) -> np.ndarray:
    """(N, 3) of x, y, yaw + turn at (s, d); beyond its ends the path is extended straight."""
    inside = np.clip(s, 0, path.length)
    yaw = np.interp(inside, path.s, path.yaw)
    over = s - inside
    x = np.interp(inside, path.s, path.xy[:, 0]) + over * np.cos(yaw) - d * np.sin(yaw)
    y = np.interp(inside, path.s, path.xy[:, 1]) + over * np.sin(yaw) + d * np.cos(yaw)
    return np.column_stack([x, y, yaw + turn])


def rollout(speed: float, first: float, then: float, top: float, hold_s: float = 0.6) -> np.ndarray:
    """Metres travelled at TIMES, (T,): acceleration `first` for `hold_s`, then `then`; speed in [0, top]."""
    out, v, travelled = [], speed, 0.0
    fine = STEP_S / 2
    for i in range(2 * len(TIMES)):
        a = first if i * fine < hold_s else then
        new = min(max(v + a * fine, 0.0), max(top, v if a < 0 else top))
        travelled += (v + new) / 2 * fine  # trapezoidal rule
        v = new
        if i % 2:
            out.append(travelled)
    return np.array(out)


def contact_times(
    path: RoutePath,
    places: np.ndarray,
    offset: Callable[[np.ndarray], np.ndarray],
    body: tuple[float, float],
    others: tuple[np.ndarray, np.ndarray],
    margin: float,
) -> np.ndarray:
    """First time at which each rollout touches an actor, (R,), s; inf if it never does.

    places: (R, T) of s; offset: s -> d; body: ego length and width; others: centres and radii from `forecast`.
    """
    centres, radii = others
    if not len(radii):
        return np.full(len(places), np.inf)
    s = places.ravel()
    d = offset(s)
    slope = (offset(s + 0.5) - d) / 0.5  # dd/ds = tangent of the ego's heading against the path
    x, y, yaw = _points(path, s, d, np.arctan(slope)).T
    shift, radius = discs(*body)
    gap2 = (radii + radius + margin) ** 2
    hit = np.zeros(places.shape, bool)
    for ahead in shift:
        ex = (x + ahead * np.cos(yaw)).reshape(places.shape)
        ey = (y + ahead * np.sin(yaw)).reshape(places.shape)
        dx = ex[None] - centres[:, None, :, 0]
        dy = ey[None] - centres[:, None, :, 1]
        hit |= (dx * dx + dy * dy < gap2[:, None, None]).any(0)
    return np.where(hit.any(1), TIMES[hit.argmax(1)], np.inf)
