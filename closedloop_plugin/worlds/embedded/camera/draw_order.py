"""Drawing order of bodies, from the back to the front."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BoxFootprints:
    """Footprints of n boxes. (n,) each; map frame, m, rad."""

    x: np.ndarray
    y: np.ndarray
    yaw: np.ndarray
    length: np.ndarray
    width: np.ndarray


def back_to_front(boxes: BoxFootprints, solid: np.ndarray, eye: tuple[float, float]) -> list[int]:
    """Indices in an order in which every body comes before those that hide it; ties by distance, farthest first.

    A `solid` box hides a body if it intersects a line from the eye to one of the body's corners or its centre. Of two
    bodies in the same direction without such a relation, the one of smaller angular size is in front. Sorting by
    distance alone would let a long truck cover a person beside its far end.
    """
    count = len(boxes.x)
    points = _points(boxes)
    distance = np.hypot(boxes.x - eye[0], boxes.y - eye[1])
    occludes = np.zeros((count, count), bool)
    occluders = np.flatnonzero(solid)
    if len(occluders):
        occludes[occluders] = _occludes(boxes, occluders, points, eye)
    np.fill_diagonal(occludes, False)
    occludes &= ~(
        occludes & occludes.T & (distance[:, None] > distance[None, :])
    )  # two that intersect: the nearer one hides
    occludes |= _in_front(points, distance, eye) & ~occludes & ~occludes.T
    after: list[list[int]] = [[] for _ in range(count)]  # body -> bodies to draw after it
    for occluder, occluded in zip(*(k.tolist() for k in np.nonzero(occludes)), strict=True):
        after[occluded].append(occluder)
    before = occludes.sum(axis=1).tolist()  # number of bodies to draw before each
    ready = [(-float(distance[i]), i) for i in range(count) if before[i] == 0]
    heapq.heapify(ready)
    left = set(range(count))
    order: list[int] = []
    while left:
        if not ready:  # cyclic occlusion: the farthest goes first
            first = max(left, key=lambda i: (distance[i], i))
            heapq.heappush(ready, (-float(distance[first]), first))
        _, i = heapq.heappop(ready)
        if i not in left:
            continue
        left.discard(i)
        order.append(i)
        for j in after[i]:
            before[j] -= 1
            if before[j] == 0 and j in left:
                heapq.heappush(ready, (-float(distance[j]), j))
    return order


def _in_front(points: np.ndarray, distance: np.ndarray, eye: tuple[float, float]) -> np.ndarray:
    """(n, n): i and j overlap in bearing, and i has the smaller angular size."""
    bearing = np.arctan2(points[..., 1] - eye[1], points[..., 0] - eye[0])
    middle = bearing[:, 0]
    half = np.abs(_wrap(bearing - middle[:, None])).max(axis=1)
    overlap = np.abs(_wrap(middle[:, None] - middle[None, :])) < half[:, None] + half[None, :]
    key = half + 1e-9 * distance  # equal sizes: the nearer one is in front
    return np.asarray(overlap & (key[:, None] < key[None, :]))


def _wrap(angle: np.ndarray) -> np.ndarray:
    return np.asarray(angle - math.tau * np.rint(angle / math.tau))


def _points(boxes: BoxFootprints) -> np.ndarray:
    """(n, 5, 2): centre and corners."""
    c, s = np.cos(boxes.yaw), np.sin(boxes.yaw)
    unit = np.array([[0, 0], [1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=float)
    a = unit[None, :, 0] * boxes.length[:, None] / 2
    b = unit[None, :, 1] * boxes.width[:, None] / 2
    return np.stack(
        [boxes.x[:, None] + a * c[:, None] - b * s[:, None], boxes.y[:, None] + a * s[:, None] + b * c[:, None]],
        axis=-1,
    )


def _occludes(boxes: BoxFootprints, occluders: np.ndarray, points: np.ndarray, eye: tuple[float, float]) -> np.ndarray:
    """(occluders, n): whether the occluder's box intersects a line from the eye to one of the body's points.

    Slab method in the occluder's frame: e + t (p - e), t in [0, 1], is inside |x| <= l / 2 and |y| <= w / 2 between the
    largest entry and the smallest exit of the two slabs.
    """
    c, s = np.cos(boxes.yaw[occluders])[:, None, None], np.sin(boxes.yaw[occluders])[:, None, None]
    x, y = boxes.x[occluders][:, None, None], boxes.y[occluders][:, None, None]

    def own(px: np.ndarray, py: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (px - x) * c + (py - y) * s, -(px - x) * s + (py - y) * c

    e = own(np.asarray(eye[0]), np.asarray(eye[1]))
    p = own(points[None, :, :, 0], points[None, :, :, 1])
    enter, leave = np.zeros(p[0].shape), np.ones(p[0].shape)
    for axis, half in ((0, boxes.length[occluders] / 2), (1, boxes.width[occluders] / 2)):
        reach = half[:, None, None] * 0.98
        run = p[axis] - e[axis]
        run = np.where(np.abs(run) < 1e-9, 1e-9, run)
        t0, t1 = (-reach - e[axis]) / run, (reach - e[axis]) / run
        enter, leave = np.maximum(enter, np.minimum(t0, t1)), np.minimum(leave, np.maximum(t0, t1))
    return np.asarray((enter < leave).any(axis=2))
