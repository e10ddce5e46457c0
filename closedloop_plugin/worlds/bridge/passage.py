"""Whether bodies that stand from the start leave the ego a way along its path. Map frame, metres."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.core.boxes import corners, oriented_box
from closedloop_plugin.core.frames import to_ego, yaw_of_heading
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import DrivingSurface
from closedloop_plugin.worlds.bridge.stage import STANDARD

BESIDE_M = 12.0  # to either side of the path
STEP_M = 0.1
ALONG_M = 2.5  # bodies so close to each other along the path stand side by side for a car
TURN_M = 5.5  # least radius of a car
CLEAR_M = 0.4  # between the ego and both sides of a gap, together


class GroundSurfaces(Protocol):
    def surface(self, x: float, y: float, way: float) -> DrivingSurface: ...


def closed_way(path: RoutePath, ground: GroundSurfaces, objects: Sequence[Any], lent: bool = False) -> str:
    """Why no car of the ego's size passes, "" if one does. objects: of the Scenic scene, the ego first. lent: the
    program lets the ego use the oncoming lane.

    Only objects of the program that never move count: without a behaviour, a rail and a speed.
    """
    ego, *others = objects
    start = path.locate(float(ego.position[0]), float(ego.position[1]))[0] + 0.5 * float(ego.length)
    standing = [(obj, *_extent(path, obj)) for obj in others if _stands(obj)]
    ahead = [one for one in standing if start < one[2] < path.length and one[3] < BESIDE_M and one[4] > -BESIDE_M]
    needed = float(ego.width) + CLEAR_M
    if reason := _too_close(ego, [obj for obj, *_ in standing]):
        return reason
    for _, first, last, *_ in ahead:
        s = min(max(0.5 * (first + last), start), path.length)
        beside = [one for one in ahead if one[1] - ALONG_M < s < one[2] + ALONG_M]
        taken = [(low, high) for *_, low, high in beside]
        widest = _widest(path, ground, s, taken, (DrivingSurface.OFF,))
        kinds = _named([one[0] for one in beside])
        if widest < needed:
            return (
                f"no way: {kinds} across the road {s - start:.0f} m ahead; the widest gap is {widest:.1f} m, the ego "
                f"needs {needed:.1f} m"
            )
        if not lent and _widest(path, ground, s, taken, (DrivingSurface.OFF, DrivingSurface.ONCOMING)) < needed:
            return f"no way: {kinds} in its lane {s - start:.0f} m ahead; only the oncoming lane is free"
    return ""


def _too_close(ego: Any, standing: Sequence[Any]) -> str:
    """Why the ego, which cannot reverse, cannot leave its place: a body stands too close before it."""
    x, y, yaw = float(ego.position[0]), float(ego.position[1]), yaw_of_heading(float(ego.heading))
    half, front = 0.5 * float(ego.width), 0.5 * float(ego.length)
    for obj in standing:
        ahead, left = zip(*(to_ego(px, py, x, y, yaw) for px, py in _corners(obj)), strict=True)
        free, aside = min(ahead) - front, min(half - min(left), max(left) + half)  # sideways, on the shorter side
        if max(ahead) > front and aside > 0 and free < 0.5 * math.sqrt(2 * TURN_M * aside):
            return f"no way: a {_kind(obj)} stands {max(free, 0):.1f} m before the ego, too close to drive around"
    return ""


def _named(objects: Sequence[Any]) -> str:
    """The kinds with their numbers, and the verb."""
    counts = Counter(map(_kind, objects))
    words = [f"a {kind}" if number == 1 else f"{number} {kind}s" for kind, number in counts.items()]
    return " and ".join(words) + (" stands" if len(objects) == 1 else " stand")


def _kind(obj: Any) -> str:
    return str(getattr(obj, "kind", "object"))


def _corners(obj: Any) -> list[tuple[float, float]]:
    x, y, yaw = float(obj.position[0]), float(obj.position[1]), yaw_of_heading(float(obj.heading))
    return corners(oriented_box(x, y, yaw, float(obj.length), float(obj.width)))


def _stands(obj: Any) -> bool:
    moves = getattr(obj, "behavior", None) is not None or getattr(obj, "rail", None) is not None
    other = getattr(obj, "role", "") == STANDARD or moves
    return not other and not getattr(obj, "gone", False) and float(obj.speed or 0.0) == 0.0


def _extent(path: RoutePath, obj: Any) -> tuple[float, float, float, float]:
    """(first s, last s, least d, largest d) of an object's box along the path."""
    places = [path.locate(*corner) for corner in _corners(obj)]
    along, aside = zip(*places, strict=True)
    return min(along), max(along), min(aside), max(aside)


def _widest(
    path: RoutePath,
    ground: GroundSurfaces,
    s: float,
    taken: Sequence[tuple[float, float]],
    barred: Sequence[DrivingSurface],
) -> float:
    """Width of the widest free piece of the road across the path at s; BESIDE_M if the bodies leave its middle free."""
    if not any(low < 0.8 and high > -0.8 for low, high in taken):
        return BESIDE_M
    way = path.pose(s)[2]
    widest = run = 0.0
    for d in np.arange(-BESIDE_M, BESIDE_M, STEP_M):
        x, y, _ = path.pose(s, float(d))
        free = not any(low < d < high for low, high in taken)
        run = run + STEP_M if free and ground.surface(x, y, way) not in barred else 0.0
        widest = max(widest, run)
    return widest
