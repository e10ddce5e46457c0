"""Smooth chains through the points of a route file, dense or sparse; gaps and lane changes between points.

Sparse: keypoints 20 to 200 m apart, as in the route files of CARLA's leaderboards. Directions are not in the file,
except those of the scenarios' trigger points, which lie on the route. At a keypoint the direction is a mean of the two
chords, weighted as in Akima, Journal of the ACM 17(4), 1970: a straight road that ends in a bend stays straight up to
the keypoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from closedloop_plugin.core.frames import to_ego, wrap
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.curves import (
    Chain,
    CurveSegment,
    Pose,
    bend_between,
    join,
    length,
    line,
    sample,
    seen_from,
    split,
)

GAP = 8.0  # m: a longer step is a gap (dense parts have steps of 2 m, lane changes 5 to 6 m)
SAME_M = 1.0  # keypoints closer than this are one
BESIDE = 0.25  # m between a trigger point and the chord beside it, at most, per metre to the nearer keypoint
ASKEW = math.radians(60)  # between a trigger point's direction and the chord beside it, at most
AT_END = math.radians(30)  # between the direction at the first or last keypoint and the chord there, at most


@dataclass(frozen=True)
class RouteKeypoint:
    """A place on the route; `yaw` if its direction is known."""

    x: float
    y: float
    yaw: float | None = None

    @property
    def place(self) -> tuple[float, float]:
        return self.x, self.y


def is_sparse(route: Route) -> bool:
    """Whether most neighbouring points of the route are farther apart than a dense part's."""
    steps = np.hypot(*np.diff(np.array(route.points), axis=0).T)
    return bool(np.mean(steps > GAP) > 0.5)


def keypoint_chain(route: Route) -> tuple[Chain, list[tuple[float, float, str]]]:
    """The chain through all points of a sparse route, and its only section: (0, length, "interpolated")."""
    points = with_triggers(route.points, route.triggers)
    poses = [(p.x, p.y, yaw) for p, yaw in zip(points, directions(points), strict=True)]
    chain: list[CurveSegment] = []
    for a, b in pairwise(poses):
        # Of the curve with a straight part and the one of two arcs, the one with the larger radius.
        chain += min(join(a, b), bend_between(a, b), key=lambda curve: max(abs(s.curvature) for s in curve))
    return tuple(chain), [(0.0, length(chain), "interpolated")]


def with_triggers(points: Sequence[tuple[float, float]], triggers: Iterable[Pose]) -> list[RouteKeypoint]:
    """The keypoints, with each trigger point between the two to whose chord it belongs, if there is such a chord."""
    found = [RouteKeypoint(*points[0])]
    found += [RouteKeypoint(*b) for a, b in pairwise(points) if math.dist(a, b) > SAME_M]
    for trigger in triggers:
        place = _chord_of(found, trigger)
        if place is not None:
            found.insert(place + 1, RouteKeypoint(*trigger))
    return found


def _chord_of(points: Sequence[RouteKeypoint], trigger: Pose) -> int | None:
    """Number of the chord beside which a trigger point lies, at least GAP from both ends; the nearest of several."""
    best: tuple[float, int] | None = None
    for i, (a, b) in enumerate(pairwise(points)):
        chord = math.dist(a.place, b.place)
        yaw = math.atan2(b.y - a.y, b.x - a.x)
        along, left = seen_from((a.x, a.y, yaw), trigger[0], trigger[1])
        room = min(along, chord - along)
        fits = room >= GAP and abs(left) <= BESIDE * room and abs(wrap(trigger[2] - yaw)) < ASKEW
        if fits and (best is None or abs(left) < best[0]):
            best = abs(left), i
    return best[1] if best else None


def directions(points: Sequence[RouteKeypoint]) -> list[float]:
    """Yaw at each of two or more keypoints."""
    steps = [(b.x - a.x, b.y - a.y) for a, b in pairwise(points)]
    chords, sizes = [math.atan2(dy, dx) for dx, dy in steps], [math.hypot(*step) for step in steps]
    yaws = [p.yaw if p.yaw is not None else _between(chords, sizes, i) for i, p in enumerate(points)]
    # An arc from the first keypoint to the second turns from -a to +a against its chord; likewise at the end.
    for end, beside, chord in ((0, 1, chords[0]), (-1, -2, chords[-1])):
        if points[end].yaw is None:
            known = len(points) > 2 or points[beside].yaw is not None
            bend = wrap(yaws[beside] - chord) if known else 0.0
            yaws[end] = chord - min(max(bend, -AT_END), AT_END)
    return yaws


def _between(chords: Sequence[float], sizes: Sequence[float], i: int) -> float:
    """Direction at keypoint i, between the chords before and after it."""
    if i in (0, len(chords)):
        return chords[min(i, len(chords) - 1)]
    turn = wrap(chords[i] - chords[i - 1])
    before = abs(wrap(chords[i - 1] - chords[i - 2])) if i > 1 else 0.0
    beyond = abs(wrap(chords[i + 1] - chords[i])) if i + 1 < len(chords) else 0.0
    if before + beyond < 1e-6:  # a single bend: the tangent of the circle through the three keypoints
        before, beyond = sizes[i - 1], sizes[i]
    return chords[i - 1] + turn * before / (before + beyond)


WEIGHT = 30.0  # lambda, weight of the third differences
DENSE = 1000  # points up to which the matrix of the smoothing is a full one
KNOT = 4  # points from knot to knot
BEND = math.radians(5)  # between a trigger's yaw and that of the arc to it


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


def lane_jumps(p: np.ndarray, width: float) -> dict[int, int]:
    """Lane changes within a dense part: lateral steps of more than 0.6 lanes while the heading stays the same.

    Index of the point before the step -> +1 (left) or -1 (right).
    """
    jumps = {}
    step = np.diff(p, axis=0)
    heading = np.arctan2(step[:, 1], step[:, 0])
    for i in range(1, len(step) - 1):
        before, after = heading[i - 1], heading[i + 1]
        along = before + 0.5 * wrap(float(after - before))
        left = -step[i, 0] * math.sin(along) + step[i, 1] * math.cos(along)
        if abs(left) > 0.6 * width and abs(wrap(float(after - before))) < math.radians(10):
            jumps[i] = 1 if left > 0 else -1
    return jumps


# The junction of a route.
TURN = math.radians(30)  # a smaller change of direction counts as straight on
SEARCHED = 100.0  # m from the trigger within which a route of keypoints has its junction
LEAST_BOX = 12.0  # m of a path through a junction, at least
BOX = 20.0  # m from the middle of a junction to a mouth at most; the rest of a longer gap becomes road


class RouteSplit:
    """The route in three parts: before the junction, through it, after it."""

    def __init__(self, route: Route, *, boxed: bool = False) -> None:
        sparse = is_sparse(route)
        parts = [] if sparse else runs(route)
        gaps = [float(np.hypot(*(b[0] - a[-1]))) for a, b in pairwise(parts)]
        if gaps and max(gaps) > GAP:
            k = int(np.argmax(gaps)) + 1
            self.entry, first = bridged(parts[:k], route.trigger)
            self.exit, last = bridged(parts[k:], route.trigger)
            self.gap, origin = join(self.entry[-1].end, self.exit[0].start), "interpolated"
        else:
            whole, _ = keypoint_chain(route) if sparse else bridged(parts, route.trigger)
            a, b = bend(whole, route, reach=SEARCHED if sparse else math.inf)
            self.entry, rest = split(whole, a)
            self.gap, self.exit = split(rest, b - a)
            origin = "interpolated" if sparse else "measured"
            first, last = [(0.0, a, origin)], [(0.0, length(self.exit), origin)]
        self.entry_s = length(self.entry)
        self.exit_s = self.entry_s + length(self.gap)
        self.spans = [*first, (self.entry_s, self.exit_s, origin)]
        self.spans += [(self.exit_s + a, self.exit_s + b, kind) for a, b, kind in last]
        if boxed:
            self._box()

    def _box(self) -> None:
        """Move the straight ends of a long gap to the roads before and after."""
        # Distances from the ends of the gap to the intersection of their tangents, as in curves.fillet, minus BOX.
        come, go = self.entry[-1].end, self.exit[0].start
        size, angle = length(self.gap), wrap(go[2] - come[2])
        if abs(angle) < TURN:
            first, last = size / 2 - BOX, size / 2 - BOX
        else:
            ahead, left = seen_from(come, go[0], go[1])
            last = left / math.sin(angle) - BOX
            first = ahead - (last + BOX) * math.cos(angle) - BOX
        first, last = max(0.0, first), max(0.0, last)
        if first + last > size - LEAST_BOX > 0:  # a wide bend is shorter than its tangents
            share = (size - LEAST_BOX) / (first + last)
            first, last = first * share, last * share
        before, rest = split(self.gap, first)
        self.gap, after = split(rest, length(rest) - last)
        self.entry, self.exit = (*self.entry, *before), (*after, *self.exit)
        self.entry_s += length(before)
        self.exit_s -= length(after)

    @property
    def path(self) -> np.ndarray:
        return sample((*self.entry, *self.gap, *self.exit))[:, :2]


def bend(chain: Chain, route: Route, half: float = 12.0, reach: float = math.inf) -> tuple[float, float]:
    """(from, to) of the junction on a route without a gap: around its sharpest bend, else 25 m after the trigger.

    reach: how far from the trigger a bend is searched, m.
    """
    poses = sample(chain, 1.0)
    s = np.linspace(0.0, length(chain), len(poses))
    yaw = np.unwrap(poses[:, 2])
    # Change of yaw within a window of 2 `half`.
    turn = np.abs(np.interp(s + half, s, yaw) - np.interp(s - half, s, yaw))
    trigger = float(s[np.hypot(poses[:, 0] - route.trigger[0], poses[:, 1] - route.trigger[1]).argmin()])
    turn[np.abs(s - trigger) > reach] = 0.0
    middle = float(s[turn.argmax()]) if turn.max() > TURN else trigger + 25.0
    middle = min(max(middle, half + 2.0), s[-1] - half - 2.0)
    half = min(half, 0.4 * s[-1])
    return max(1.0, middle - half), min(s[-1] - 1.0, middle + half)
