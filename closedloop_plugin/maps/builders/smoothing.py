"""A smooth chain of arcs through the points of a route file; detection of gaps and lane changes between points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from closedloop_plugin.core.frames import to_ego, wrap
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.builders.keypoints import GAP
from closedloop_plugin.maps.curves import Chain, Pose, bend_between, join, line

WEIGHT = 30.0  # lambda, weight of the third differences
DENSE = 1000  # points up to which the matrix of the smoothing is a full one
KNOT = 4  # points from knot to knot
BEND = math.radians(5)  # between a trigger's yaw and that of the arc to it


@dataclass(frozen=True)
class LaneJump:
    """A lane change between point `index` and the next; `lanes` > 0: to the left."""

    index: int
    lanes: int


def runs(route: Route) -> list[np.ndarray]:
    """The dense parts of a route between its gaps, (N, 2) each. A trigger in a gap that continues a part is added."""
    p = np.array(route.points)
    cuts = np.flatnonzero(np.hypot(*np.diff(p, axis=0).T) > GAP) + 1
    parts = np.split(p, cuts)
    t = np.array(route.trigger[:2])
    if np.hypot(*(p - t).T).min() < 1.5:
        return parts
    for i in range(len(parts) - 1):
        ends = (parts[i][-1], parts[i + 1][0])
        away = [float(np.hypot(*(t - e))) for e in ends]
        heading = math.atan2(*(parts[i][-1] - parts[i][-2])[::-1]) if len(parts[i]) > 1 else route.trigger[2]
        ahead, left = to_ego(float(t[0]), float(t[1]), float(ends[0][0]), float(ends[0][1]), heading)
        if away[0] >= GAP or ahead <= 0:
            continue
        if abs(left) < 0.5:
            parts[i] = np.vstack([parts[i], t])
        # In a bend the arc from the part's end to the trigger changes its yaw by twice the angle of the chord.
        elif abs(wrap(route.trigger[2] - heading - 2 * math.atan2(left, ahead))) < BEND:
            return [*parts[: i + 1], t[None], *parts[i + 1 :]]
    return parts


def smoothed(p: np.ndarray) -> np.ndarray:
    """Points q that minimise |q - p|^2 + lambda |D q|^2, D the third differences: (I + lambda D'D) q = p. (N, 2)."""
    n = len(p)
    if n < 5:
        return p
    if n > DENSE:  # a full matrix would take n^2 numbers
        difference = sparse.diags([-1.0, 3.0, -3.0, 1.0], offsets=[0, 1, 2, 3], shape=(n - 3, n))
        return spsolve((sparse.eye(n) + WEIGHT * difference.T @ difference).tocsc(), p)
    d = np.diff(np.eye(n), 3, axis=0)
    return np.linalg.solve(np.eye(n) + WEIGHT * d.T @ d, p)


def yaws(p: np.ndarray) -> np.ndarray:
    """Yaw of the tangent at each point, from the parabola through it and its neighbours. N >= 2."""
    if len(p) == 2:
        return np.full(2, math.atan2(*(p[1] - p[0])[::-1]))
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(p, axis=0).T))]
    d = np.gradient(p, s, axis=0, edge_order=2)
    return np.unwrap(np.arctan2(d[:, 1], d[:, 0]))


def chain_through(p: np.ndarray) -> Chain:
    """Biarcs between every fourth of the smoothed points. (N, 2), N >= 2."""
    q = smoothed(p)
    if len(q) < 5:  # too few points for curvature: one straight line
        span = q[-1] - q[0]
        start = (float(q[0, 0]), float(q[0, 1]), math.atan2(span[1], span[0]))
        return line(start, float(np.hypot(*span)))
    yaw = yaws(q)
    knots = list(range(0, len(q) - 1, KNOT))
    if len(knots) > 1 and len(q) - 1 - knots[-1] < KNOT / 2:
        knots.pop()
    knots.append(len(q) - 1)
    poses: list[Pose] = [(float(q[k, 0]), float(q[k, 1]), wrap(float(yaw[k]))) for k in knots]
    chain: list = []
    for a, b in pairwise(poses):
        straight = max(abs(wrap(math.atan2(b[1] - a[1], b[0] - a[0]) - y)) for y in (a[2], b[2])) < 1e-9
        chain += line(a, math.dist(a[:2], b[:2])) if straight else bend_between(a, b)
    return tuple(chain)


def bridged(parts: Sequence[np.ndarray], trigger: Pose) -> tuple[Chain, list[tuple[float, float, str]]]:
    """One chain through all parts and across the gaps, and its sections (from, to, measured | interpolated) in m.

    trigger: gives the yaw of a part of one point at its place, and of one without another part.
    """
    chains = [
        chain_through(part) if len(part) > 1 else point_chain(part[0], _yaw_of_single(parts, i, trigger))
        for i, part in enumerate(parts)
    ]
    whole: list = []
    spans: list[tuple[float, float, str]] = []
    at = 0.0

    def add(chain: Chain, origin: str) -> None:
        nonlocal at
        size = sum(s.length for s in chain)
        whole.extend(chain)
        spans.append((at, at + size, origin))
        at += size

    for i, chain in enumerate(chains):
        if i:
            add(join(chains[i - 1][-1].end, chain[0].start), "interpolated")
        add(chain, "measured")
    return tuple(whole), spans


def _yaw_of_single(parts: Sequence[np.ndarray], i: int, trigger: Pose) -> float:
    """Direction of a part of one point: the trigger's, or along the line from the part before to the part after."""
    ends = [parts[i - 1][-1]] if i else []
    ends += [parts[i][0]] + ([parts[i + 1][0]] if i + 1 < len(parts) else [])
    if len(ends) == 1 or math.dist(parts[i][0], trigger[:2]) < 1e-6:
        return trigger[2]
    return math.atan2(*(ends[-1] - ends[0])[::-1])


def point_chain(point: np.ndarray, yaw: float) -> Chain:
    """A part of one point: a line of 1 cm."""
    return line((float(point[0]), float(point[1]), yaw), 0.01)


def lane_jumps(p: np.ndarray, width: float) -> list[LaneJump]:
    """Lane changes within a dense part: lateral steps of more than 0.6 lanes while the heading stays the same."""
    jumps = []
    step = np.diff(p, axis=0)
    heading = np.arctan2(step[:, 1], step[:, 0])
    for i in range(1, len(step) - 1):
        before, after = heading[i - 1], heading[i + 1]
        along = before + 0.5 * wrap(float(after - before))
        left = -step[i, 0] * math.sin(along) + step[i, 1] * math.cos(along)
        if abs(left) > 0.6 * width and abs(wrap(float(after - before))) < math.radians(10):
            jumps.append(LaneJump(i, 1 if left > 0 else -1))
    return jumps
