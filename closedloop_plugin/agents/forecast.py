"""Where everybody will be: ego rollouts and actor forecasts as discs, and whether they touch. numpy, vectorised."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from closedloop_plugin.path import Path
from closedloop_plugin.state import PEDESTRIANS, Actor, Kind

SHY = PEDESTRIANS | {Kind.ANIMAL, Kind.BICYCLE}  # keep more room: they change their mind
HORIZON_S = 5.0
STEP_S = 0.25
TIMES = np.arange(1, round(HORIZON_S / STEP_S) + 1) * STEP_S


def discs(length: float, width: float) -> tuple[np.ndarray, float]:
    """Offsets along the body (n,) and the radius of discs that cover a box."""
    n = max(1, math.ceil(2 * length / max(width, 0.3)))
    piece = length / n
    return (np.arange(n) - (n - 1) / 2) * piece, math.hypot(width / 2, piece / 2)


def forecast(actors: Sequence[Actor]) -> tuple[np.ndarray, np.ndarray]:
    """Discs of all actors at TIMES: centres (D, T, 2) and radii (D,), metres in the map frame.

    Constant speed and yaw rate: right for lanes and for turns under way, wrong for who changes his mind.
    """
    centres, radii = [], []
    for a in actors:
        rate = a.yaw_rate if abs(a.yaw_rate) > 0.02 else 0.0
        turn = rate * np.minimum(TIMES, 2.5)  # nobody turns for ever
        yaw = a.yaw + turn
        mid = a.yaw + turn / 2
        along = a.speed * TIMES
        x, y = a.x + along * np.cos(mid), a.y + along * np.sin(mid)
        shift, radius = discs(a.length, a.width)
        for d in shift:
            centres.append(np.column_stack([x + d * np.cos(yaw), y + d * np.sin(yaw)]))
            radii.append(radius + (0.35 if a.kind in SHY else 0.0))
    if not centres:
        return np.zeros((0, len(TIMES), 2)), np.zeros(0)
    return np.stack(centres), np.array(radii)


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
    path: Path,
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
    inside = np.clip(s, 0, path.length)
    yaw = np.interp(inside, path.s, path.yaw)
    over = s - inside
    x = np.interp(inside, path.s, path.xy[:, 0]) + over * np.cos(yaw) - d * np.sin(yaw)
    y = np.interp(inside, path.s, path.xy[:, 1]) + over * np.sin(yaw) + d * np.cos(yaw)
    yaw = yaw + np.arctan(slope)
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
