"""Where everybody will be: ego rollouts and actor forecasts as discs, and whether they touch. numpy, vectorised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import PEDESTRIANS, Actor, ActorKind

SHY = PEDESTRIANS | {ActorKind.ANIMAL, ActorKind.BICYCLE}  # keep more room: they change their mind
HORIZON_S = 5.0
STEP_S = 0.25
TIMES = np.arange(1, round(HORIZON_S / STEP_S) + 1) * STEP_S


def discs(length: float, width: float) -> tuple[np.ndarray, float]:
    """Offsets along the body (n,) and the radius of discs that cover a box."""
    n = max(1, math.ceil(2 * length / max(width, 0.3)))
    piece = length / n
    return (np.arange(n) - (n - 1) / 2) * piece, math.hypot(width / 2, piece / 2)


def forecast(actors: Sequence[Actor], lines: Sequence[np.ndarray | None] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Discs of all actors at TIMES: centres (D, T, 2) and radii (D,), metres in the map frame.

    `lines`: for each actor where it will be, (T, 3) of x, y, yaw (see `along`); None: constant speed and yaw rate,
    which is right for turns under way and wrong for who changes his mind.
    """
    centres, radii = [], []
    for k, a in enumerate(actors):
        line = lines[k] if k < len(lines) else None
        x, y, yaw = (straight(a) if line is None else line).T
        shift, radius = discs(a.length, a.width)
        for d in shift:
            centres.append(np.column_stack([x + d * np.cos(yaw), y + d * np.sin(yaw)]))
            radii.append(radius + (0.35 if a.kind in SHY else 0.0))
    if not centres:
        return np.zeros((0, len(TIMES), 2)), np.zeros(0)
    return np.stack(centres), np.array(radii)


def straight(a: Actor) -> np.ndarray:
    """(T, 3) of x, y, yaw at constant speed and yaw rate."""
    rate = a.yaw_rate if abs(a.yaw_rate) > 0.02 else 0.0
    turn = rate * np.minimum(TIMES, 2.5)  # nobody turns for ever
    mid = a.yaw + turn / 2
    way = a.speed * TIMES
    return np.column_stack([a.x + way * np.cos(mid), a.y + way * np.sin(mid), a.yaw + turn])


def along(path: RoutePath, s: float, d: float, v_s: float, v_d: float) -> np.ndarray:
    """(T, 3) of x, y, yaw of who keeps to the road: the route's bends are its bends. v_d (m/s to the left) for 2 s."""
    at = s + v_s * TIMES
    off = d + v_d * np.minimum(TIMES, 2.0)
    return _points(path, at, off, 0.0 if v_s >= 0 else math.pi)


def _points(path: RoutePath, s: np.ndarray, d: np.ndarray, turn: float | np.ndarray) -> np.ndarray:
    """(N, 3) of x, y, yaw + turn at places along and beside the path, straight on beyond its ends."""
    inside = np.clip(s, 0, path.length)
    yaw = np.interp(inside, path.s, path.yaw)
    over = s - inside
    x = np.interp(inside, path.s, path.xy[:, 0]) + over * np.cos(yaw) - d * np.sin(yaw)
    y = np.interp(inside, path.s, path.xy[:, 1]) + over * np.sin(yaw) + d * np.cos(yaw)
    return np.column_stack([x, y, yaw + turn])


def rollout(speed: float, first: float, then: float, top: float, hold_s: float = 0.6) -> np.ndarray:
    """Metres travelled at TIMES: acceleration `first` for `hold_s`, `then` after it; never backwards nor above top."""
    out, v, travelled = [], speed, 0.0
    fine = STEP_S / 2
    for i in range(2 * len(TIMES)):
        a = first if i * fine < hold_s else then
        new = min(max(v + a * fine, 0.0), max(top, v if a < 0 else top))
        travelled += (v + new) / 2 * fine
        v = new
        if i % 2:
            out.append(travelled)
    return np.array(out)


def touches(
    path: RoutePath,
    starts: np.ndarray,
    plan: Callable[[np.ndarray], np.ndarray],
    body: tuple[float, float],
    others: tuple[np.ndarray, np.ndarray],
    margin: float,
) -> np.ndarray:
    """First time at which each rollout touches somebody, (R,), inf where it never does.

    starts: (R, T) places along the path; plan: place -> lateral offset; body: ego length, width.
    """
    centres, radii = others
    if not len(radii):
        return np.full(len(starts), np.inf)
    s = starts.ravel()
    d = plan(s)
    slope = (plan(s + 0.5) - d) / 0.5
    x, y, yaw = _points(path, s, d, np.arctan(slope)).T
    shift, radius = discs(*body)
    gap2 = (radii + radius + margin) ** 2
    hit = np.zeros(starts.shape, bool)
    for along in shift:
        ex = (x + along * np.cos(yaw)).reshape(starts.shape)
        ey = (y + along * np.sin(yaw)).reshape(starts.shape)
        dx = ex[None] - centres[:, None, :, 0]
        dy = ey[None] - centres[:, None, :, 1]
        hit |= (dx * dx + dy * dy < gap2[:, None, None]).any(0)
    return np.where(hit.any(1), TIMES[hit.argmax(1)], np.inf)
