"""Shortest curve of bounded curvature between two poses: Dubins, American Journal of Mathematics 79(3), 1957.

It exists for any two poses, unlike a biarc. Formulas of the six words: Shkel and Lumelsky, Robotics and Autonomous
Systems 34, 2001. Metres, radians; left > 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

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
