"""Ego rollouts, actor forecasts and their contacts. Bodies are covered by discs; numpy, vectorised.

Shapes: T forecast times, A actors, D discs of all actors, R rollouts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import PEDESTRIANS, Actor, ActorKind

VULNERABLE = PEDESTRIANS | {ActorKind.ANIMAL, ActorKind.BICYCLE}  # get more clearance: they change direction
HORIZON_S = 5.0
STEP_S = 0.25
HOLD_S = 0.6  # of a rollout's first acceleration
TIMES = np.arange(1, round(HORIZON_S / STEP_S) + 1) * STEP_S


@lru_cache(maxsize=256)
def discs(length: float, width: float) -> tuple[np.ndarray, float]:
    """Offsets along the body (n,), m, and the radius of n equal discs that cover a box."""
    n = max(1, math.ceil(2 * length / max(width, 0.3)))
    piece = length / n
    return (np.arange(n) - (n - 1) / 2) * piece, math.hypot(width / 2, piece / 2)


def forecast(actors: Sequence[Actor], poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Discs of all actors at TIMES: centres (2, D, T) and radii (D,), metres in the map frame.

    `poses`: (3, A, T) of x, y, yaw, from `constant_motion`, which holds within a turn but not for an actor that begins
    one, or `along_path`.
    """
    if not actors:
        return np.zeros((2, 0, len(TIMES))), np.zeros(0)
    covers = [discs(a.length, a.width) for a in actors]
    counts = [len(shift) for shift, _ in covers]
    radii = [radius + (0.35 if a.kind in VULNERABLE else 0.0) for a, (_, radius) in zip(actors, covers, strict=True)]
    owner = np.repeat(np.arange(len(actors)), counts)
    shift = np.concatenate([shift for shift, _ in covers])[:, None]
    x, y, yaw = poses
    centres = np.stack([x[owner] + shift * np.cos(yaw)[owner], y[owner] + shift * np.sin(yaw)[owner]])
    return centres, np.repeat(radii, counts)


def constant_motion(actors: Sequence[Actor]) -> np.ndarray:
    """(3, A, T) of x, y, yaw at constant speed v and yaw rate w."""
    rows = [(a.x, a.y, a.yaw, a.speed, a.yaw_rate if abs(a.yaw_rate) > 0.02 else 0.0) for a in actors]
    x, y, yaw, speed, rate = np.array(rows).reshape(-1, 5).T[:, :, None]
    turn = rate * np.minimum(TIMES, 2.5)  # a turn ends after 2.5 s
    chord = yaw + turn / 2  # direction of the chord of an arc; its length is taken as v t
    way = speed * TIMES
    return np.stack([x + way * np.cos(chord), y + way * np.sin(chord), yaw + turn])


def along_path(path: RoutePath, s: np.ndarray, d: np.ndarray, v_s: np.ndarray, v_d: np.ndarray) -> np.ndarray:
    """(3, A, T) of x, y, yaw of actors that follow the path from (s, d); all (A, 1).

    v_d (m/s to the left) holds for 2 s.
    """
    at = s + v_s * TIMES
    off = d + v_d * np.minimum(TIMES, 2.0)
    return _points(path, at, off, np.where(v_s >= 0, 0.0, math.pi))


def _points(path: RoutePath, s: np.ndarray, d: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """(3, ...) of x, y, yaw + turn at (s, d); beyond its ends the path is extended straight."""
    inside = np.minimum(np.maximum(s, 0.0), path.length)
    yaw = np.interp(inside, path.s, path.yaw)
    over = s - inside
    c, n = np.cos(yaw), np.sin(yaw)
    x = np.interp(inside, path.s, path.x) + over * c - d * n
    y = np.interp(inside, path.s, path.y) + over * n + d * c
    return np.stack([x, y, yaw + turn])


def rollouts(speed: float, firsts: Sequence[float], thens: Sequence[float], top: float) -> np.ndarray:
    """Metres travelled at TIMES, (R, T): each of `firsts` for HOLD_S, then each of `thens`; speed in [0, top].

    m/s, m/s2. The R rows go through `thens` for the first of `firsts`, and so on.
    """
    fine = STEP_S / 2
    held = math.ceil(HOLD_S / fine)
    # Sums over steps, clipped afterwards: a constant acceleration reaches a limit once and stays there.
    first = _speeds(np.full(len(firsts), speed), np.array(firsts), held, top)
    then = _speeds(np.repeat(first[:, -1], len(thens)), np.tile(thens, len(firsts)), 2 * len(TIMES) - held, top)
    v = np.concatenate([np.repeat(first, len(thens), axis=0), then[:, 1:]], axis=1)
    return np.add.accumulate((v[:, :-1] + v[:, 1:]) / 2 * fine, axis=1)[:, 1::2]  # trapezoidal rule


def _speeds(start: np.ndarray, acceleration: np.ndarray, steps: int, top: float) -> np.ndarray:
    """Speeds (N, steps + 1) from `start` (N,) at constant accelerations (N,), every STEP_S / 2; a faster start than
    `top` ends with the first step without braking."""
    change = (acceleration * (STEP_S / 2))[:, None]
    v = np.add.accumulate(np.concatenate([start[:, None], np.repeat(change, steps, axis=1)], axis=1), axis=1)
    limit = np.where(acceleration < 0, np.maximum(top, start), top)[:, None]
    v[:, 1:] = np.minimum(np.maximum(v[:, 1:], 0.0), limit)
    return v


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
    d = offset(places)
    slope = (offset(places + 0.5) - d) / 0.5  # dd/ds = tangent of the ego's heading against the path
    x, y, yaw = _points(path, places, d, np.arctan(slope))
    shift, radius = discs(*body)
    centres, radii = others
    reach = radii + radius + margin
    near = _within(x, y, abs(shift[0]) + reach, centres)
    if not near.any():
        return np.full(len(places), np.inf)
    (cx, cy), gap2 = centres[:, near, None, :], (reach[near] ** 2)[:, None, None]
    hit = np.zeros(places.shape, bool)
    c, n = np.cos(yaw), np.sin(yaw)
    for ahead in shift:
        dx, dy = x + ahead * c - cx, y + ahead * n - cy
        hit |= (dx * dx + dy * dy < gap2).any(0)
    return np.where(hit.any(1), TIMES[hit.argmax(1)], np.inf)


def _within(x: np.ndarray, y: np.ndarray, reach: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Discs (D,) that come within `reach` (D,) of the box around all rollouts (R, T) at some time."""
    far = reach[:, None] + 1e-3  # m, more than rounding
    inside = np.ones(centres.shape[1:], bool)
    for at, centre in zip((x, y), centres, strict=True):
        inside &= (centre > at.min(0) - far) & (centre < at.max(0) + far)
    return np.asarray(inside.any(1))
