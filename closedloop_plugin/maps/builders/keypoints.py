"""A smooth chain through keypoints 20 to 200 m apart, as in the route files of CARLA's leaderboards.

Directions are not in the file, except those of the scenarios' trigger points, which lie on the route. At a keypoint the
direction is a mean of the two chords, weighted as in Akima, Journal of the ACM 17(4), 1970: a straight road that ends
in a bend stays straight up to the keypoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.curves import Chain, CurveSegment, Pose, bend_between, join, length, seen_from

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
        chain += _gentlest(a, b)
    return tuple(chain), [(0.0, length(chain), "interpolated")]


def _gentlest(start: Pose, end: Pose) -> Chain:
    """Of the curve with a straight part and the one of two arcs, the one with the larger radius."""
    return min(join(start, end), bend_between(start, end), key=lambda chain: max(abs(s.curvature) for s in chain))


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
