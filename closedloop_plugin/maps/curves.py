"""Chains of lines and arcs, the only shapes of corridor maps. Metres, radians, map frame; curvature > 0 bends left.

Biarcs: Bolton, "Biarc curves", CAD 7(2), 1975. Shortest curves of bounded curvature, which exist for any two poses,
unlike a biarc: Dubins, American Journal of Mathematics 79(3), 1957; formulas of the six words: Shkel and Lumelsky,
Robotics and Autonomous Systems 34, 2001.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from closedloop_plugin.core.frames import to_ego, wrap

Pose = tuple[float, float, float]  # x, y, yaw
STRAIGHT = 1e-6  # 1/m: a flatter arc is a line
NOWHERE_M = 1e-6  # places closer than this are the same
IN_LINE_M = 1e-3  # a gap with a smaller lateral offset is bridged by a straight line
DETOUR = 1.5  # length of a biarc per metre of its chord, at most; a quarter turn has 1.11, a half turn 1.57
TURNING_M = 4.0, 12.0  # smallest and largest radius of the arcs that bridge a gap if no fillet or biarc does


@dataclass(frozen=True)
class CurveSegment:
    """A line or an arc that starts at a pose."""

    x: float
    y: float
    yaw: float
    length: float
    curvature: float = 0.0

    def at(self, s: float) -> Pose:
        """The pose s metres from the start."""
        if abs(self.curvature) < STRAIGHT:
            return self.x + s * math.cos(self.yaw), self.y + s * math.sin(self.yaw), self.yaw
        # Yaw psi(s) = psi0 + k s; x(s) = x0 + int cos psi ds = x0 + (sin psi - sin psi0) / k, y(s) likewise.
        a = self.yaw + self.curvature * s
        r = 1.0 / self.curvature
        return self.x + r * (math.sin(a) - math.sin(self.yaw)), self.y - r * (math.cos(a) - math.cos(self.yaw)), a

    @property
    def start(self) -> Pose:
        return self.x, self.y, self.yaw

    @property
    def end(self) -> Pose:
        return self.at(self.length)


Chain = tuple[CurveSegment, ...]


def aside(pose: Pose, left: float, forward: float = 0.0) -> Pose:
    """The pose moved `left` metres to its left and `forward` metres ahead."""
    x, y, yaw = pose
    c, s = math.cos(yaw), math.sin(yaw)
    return x + forward * c - left * s, y + forward * s + left * c, yaw


def turned(pose: Pose) -> Pose:
    """The pose with opposite direction."""
    return pose[0], pose[1], wrap(pose[2] + math.pi)


def seen_from(pose: Pose, x: float, y: float) -> tuple[float, float]:
    """A point in the frame of a pose: (metres ahead, metres to the left)."""
    return to_ego(x, y, *pose)


def length(chain: Iterable[CurveSegment]) -> float:
    return sum(s.length for s in chain)


def line(start: Pose, distance: float) -> Chain:
    return (CurveSegment(*start, distance),)


def arc_through(start: Pose, x: float, y: float) -> CurveSegment:
    """The arc tangent to `start` that ends at (x, y); a line if the point lies straight ahead.

    Raises ValueError for the start itself and for a point straight behind, to which no arc leads.
    """
    ahead, left = seen_from(start, x, y)
    square = ahead * ahead + left * left
    if square < NOWHERE_M**2 or (ahead < 0 and abs(left) < STRAIGHT * square / 2):
        raise ValueError(f"no arc leads from {start} to ({x}, {y})")
    # In the frame of `start` the end is (u, v): curvature k = 2 v / (u^2 + v^2), change of yaw 2 atan2(v, u).
    curvature = 2.0 * left / square
    if abs(curvature) < STRAIGHT:
        return CurveSegment(*start, math.sqrt(square))
    bend = 2.0 * math.atan2(left, ahead)
    return CurveSegment(*start, bend / curvature, curvature)


def biarc(start: Pose, end: Pose) -> Chain:
    """Two arcs with a common tangent where they meet, of equal tangent lengths d.

    Raises ValueError if they do not exist: the poses are at one place, or one arc would turn on the spot.
    """
    # With unit tangents t1, t2, v = q - p and t = t1 + t2, the control points p + d t1 and q - d t2 must be 2 d apart:
    # 2 (1 - t1.t2) d^2 + 2 (v.t) d - v.v = 0 (Bolton 1975). The arcs meet in the middle of the control points.
    p, q = np.array(start[:2]), np.array(end[:2])
    t1 = np.array([math.cos(start[2]), math.sin(start[2])])
    t2 = np.array([math.cos(end[2]), math.sin(end[2])])
    v = q - p
    t = t1 + t2
    a = 2.0 * (1.0 - float(t1 @ t2))
    b, c = 2.0 * float(v @ t), -float(v @ v)
    d = -c / b if a < 1e-9 and abs(b) > 1e-9 else (-b + math.sqrt(b * b - 4.0 * a * c)) / (2.0 * max(a, 1e-9))
    if not 0.0 < d < math.inf:
        raise ValueError(f"no biarc leads from {start} to {end}")
    middle = 0.5 * (p + q + d * (t1 - t2))
    first = arc_through(start, float(middle[0]), float(middle[1]))
    last = arc_through(first.end, float(q[0]), float(q[1]))
    return first, last


def fillet(start: Pose, end: Pose, lead: float = 2.0) -> Chain | None:
    """Line, arc, line between two poses; None if their tangents do not meet between them.

    `lead`: metres kept straight at the nearer end, since a turn begins within the junction.
    """
    bend = wrap(end[2] - start[2])
    ahead, left = seen_from(start, end[0], end[1])
    if abs(bend) < math.radians(4) or abs(bend) > math.radians(150):
        return None
    # Distances from the ends to the intersection of the tangents; an arc of radius r and angle b has tangents of length
    # r tan(b / 2).
    after = left / math.sin(bend)
    before = ahead - after * math.cos(bend)
    if min(before, after) < 1.0:
        return None
    tangent = min(before, after)
    tangent -= min(lead, 0.3 * tangent)
    radius = tangent / math.tan(abs(bend) / 2)
    first = CurveSegment(*start, before - tangent)
    arc = CurveSegment(*first.end, radius * abs(bend), math.copysign(1.0 / radius, bend))
    last = CurveSegment(arc.end[0], arc.end[1], end[2], after - tangent)
    return tuple(s for s in (first, arc, last) if s.length > 1e-3)


def join(start: Pose, end: Pose, lead: float = 2.0) -> Chain:
    """The curve that bridges a gap; it exists for any two poses, and is empty if they are equal.

    A straight line if the poses are in line, else a fillet, else a biarc without a loop or detour, else the shortest
    curve of arcs that a car can drive.
    """
    ahead, left = seen_from(start, end[0], end[1])
    if abs(left) < IN_LINE_M and ahead >= 0 and abs(wrap(end[2] - start[2])) < 1e-4:
        return line(start, ahead) if ahead > NOWHERE_M else ()
    return fillet(start, end, lead) or bend_between(start, end)


def bend_between(start: Pose, end: Pose) -> Chain:
    """The biarc, if it exists and makes neither a loop nor a detour, else the shortest curve of arcs."""
    try:
        chain = biarc(start, end)
    except ValueError:
        return _shortest(start, end)
    loops = any(abs(s.length * s.curvature) > math.pi for s in chain)
    direct = length(chain) <= DETOUR * math.dist(start[:2], end[:2])
    return chain if direct and not loops else _shortest(start, end)


def _shortest(start: Pose, end: Pose) -> Chain:
    radius = min(max(math.dist(start[:2], end[:2]) / 4, TURNING_M[0]), TURNING_M[1])
    chain: list[CurveSegment] = []
    for side, size in dubins_word(start, end, radius):
        if size * radius > NOWHERE_M:
            chain.append(CurveSegment(*(chain[-1].end if chain else start), size * radius, side / radius))
    return tuple(chain)


def reverse(chain: Sequence[CurveSegment]) -> Chain:
    """The same curve in the opposite direction."""
    return tuple(CurveSegment(*turned(s.end), s.length, -s.curvature) for s in reversed(chain))


def parallel(chain: Sequence[CurveSegment], left: float) -> Chain:
    """The chain shifted by `left` metres, which must be less than any radius on that side."""
    # An arc of radius 1/k becomes one of radius 1/k - left, of the same angle: length l (1 - k left).
    return tuple(
        CurveSegment(*aside(s.start, left), s.length * (1 - s.curvature * left), s.curvature / (1 - s.curvature * left))
        for s in chain
    )


def split(chain: Sequence[CurveSegment], at: float) -> tuple[Chain, Chain]:
    """The part before `at` metres, and the rest."""
    before: list[CurveSegment] = []
    after: list[CurveSegment] = []
    for s in chain:
        if at >= s.length - 1e-6:
            before.append(s)
        elif at <= 1e-6:
            after.append(s)
        else:
            before.append(CurveSegment(*s.start, at, s.curvature))
            after.append(CurveSegment(*s.at(at), s.length - at, s.curvature))
        at -= s.length
    return tuple(before), tuple(after)


def sample(chain: Sequence[CurveSegment], step: float = 0.5) -> np.ndarray:
    """Poses about `step` metres apart, both ends included: float64 (N, 3)."""
    poses: list[Pose] = []
    for s in chain:
        n = max(1, math.ceil(s.length / step))
        poses += [s.at(s.length * k / n) for k in range(n)]
    poses.append(chain[-1].end)
    return np.array(poses)


def points(chain: Sequence[CurveSegment], step: float = 1.0) -> list[list[float]]:
    """Points as JSON, [[x, y], ...], rounded to millimetres."""
    return [[round(float(x), 3), round(float(y), 3)] for x, y, _ in sample(chain, step)]


# Dubins' words.
Word = tuple[tuple[int, float], ...]  # (+1 left, 0 straight, -1 right; length in radii)


def dubins_word(start: tuple[float, float, float], end: tuple[float, float, float], radius: float) -> Word:
    """The three pieces of the shortest curve whose arcs have this radius. Poses are (x, y, yaw)."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    direction = math.atan2(dy, dx)
    found = _words(math.hypot(dx, dy) / radius, _angle(start[2] - direction), _angle(end[2] - direction))
    return min(found, key=lambda word: sum(size for _, size in word))


def _angle(a: float) -> float:
    """The angle in [0, 2 pi); 0 for one that rounding has put just below a full turn."""
    a %= math.tau
    return 0.0 if math.tau - a < 1e-9 else a


def _words(d: float, a: float, b: float) -> Iterator[Word]:
    """All words from (0, 0, a) to (d, 0, b) with radius 1 that exist. LSL and RSR always do."""
    sin_a, cos_a, sin_b, cos_b, both = math.sin(a), math.cos(a), math.sin(b), math.cos(b), math.cos(a - b)
    for side in (1, -1):
        # One formula for both mirror images: a mirrored pose has the angles -a and -b.
        across = d + side * (sin_a - sin_b)
        chord = math.atan2(cos_b - cos_a, across)
        size = math.sqrt(max(0.0, 2 + d * d - 2 * both + 2 * d * side * (sin_a - sin_b)))
        yield _word((side, side * -a + chord), (0, size), (side, side * b - chord))
        square = d * d - 2 + 2 * both + 2 * d * side * (sin_a + sin_b)
        if square >= 0:
            size = math.sqrt(square)
            turn = math.atan2(-cos_a - cos_b, d + side * (sin_a + sin_b)) - math.atan2(-2.0, size)
            yield _word((side, side * -a + turn), (0, size), (-side, side * -b + turn))
        middle = (6 - d * d + 2 * both + 2 * d * side * (sin_b - sin_a)) / 8
        if abs(middle) <= 1:
            arc = math.tau - math.acos(middle)
            first = side * -a + chord + arc / 2
            yield _word((side, first), (-side, arc), (side, side * (b - a) - first + arc))


def _word(*pieces: tuple[int, float]) -> Word:
    return tuple((side, _angle(size) if side else size) for side, size in pieces)
