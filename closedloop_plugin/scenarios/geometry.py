"""Lines of other traffic, and their points of conflict with the ego's route. Map frame, metres."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.scenarios.known_words import known_word

CLOSE_M = 1.6  # distance of two lines below which cars on them touch
ARM_M = 60.0  # length of an arm that is not in the map


def meeting(route: RoutePath, other: RoutePath, start_s: float = 0.0) -> tuple[float, float] | None:
    """(s on the route, s on the other line) of the first point of conflict from start_s on."""
    apart = np.hypot(*(route.xy[:, None, :] - other.xy[None, :, :]).transpose(2, 0, 1))
    near = np.flatnonzero((apart.min(1) < CLOSE_M) & (route.s >= start_s))
    if not len(near):
        return None
    i = int(near[0])
    return float(route.s[i]), float(other.s[int(apart[i].argmin())])


def last_junction(road: RoadMap) -> tuple[float, float]:
    """(from, to) along the route of the scenario's junction; without one, the middle of the route."""
    if road.junctions:
        return road.junctions[0]
    middle = road.path.length / 2
    return middle - 10.0, middle + 10.0


# Direction of an arm against the ego's arrival, rad, left > 0.
TOWARDS = {"entry": math.pi, "opposite": 0.0, "left": math.pi / 2, "right": -math.pi / 2}


def junction_flow(road: RoadMap, source: str, target: str) -> RoutePath:
    """The line from one arm to another: entry, left, right, opposite, as seen by the arriving ego.

    The map's line if it has one, else a curve through the crossing.
    """
    a, b = arm_towards(road, source), arm_towards(road, target)
    points = (road.facts.get("flows") or {}).get(f"{a}->{b}")
    if points is not None and len(points) > 1:
        return RoutePath(points)
    return RoutePath(_bend(_arm(road, source, arriving=True), _arm(road, target, arriving=False)))


def mouths(road: RoadMap, line: RoutePath, source: str, target: str) -> tuple[float, float]:
    """s on a junction_flow's line where it enters and where it leaves the junction."""
    arms = {arm["name"]: arm for arm in (road.facts.get("junction") or {}).get("arms") or ()}
    come, go = arms.get(arm_towards(road, source)), arms.get(arm_towards(road, target))
    enters = line.locate(*come["in"][:2])[0] if come else ARM_M
    leaves = line.locate(*go["out"][:2])[0] if go else line.length - ARM_M
    return enters, max(leaves, enters)


def arm_towards(road: RoadMap, side: str) -> str | None:
    """The map's name of the arm closest to that direction, within 60 degrees. Raises UnknownWord for no direction."""
    known_word("arm", side, TOWARDS)
    arms = (road.facts.get("junction") or {}).get("arms") or ()
    yaw = road.path.pose(last_junction(road)[0])[2]
    best: tuple[float, str] | None = None
    for arm in arms:
        off = abs(math.remainder(arm["out"][2] - yaw - TOWARDS[side], math.tau))
        if off < math.radians(60) and (best is None or off < best[0]):
            best = off, arm["name"]
    return best[1] if best else None


def _arm(road: RoadMap, name: str, arriving: bool, length: float = ARM_M) -> tuple[np.ndarray, float]:
    """(point on the lane's centre, yaw of travel) `length` m outside the junction, for an arm that is not in the map.

    The ego's two arms follow its route; the others are perpendicular to its arrival.
    """
    (start, end), width = last_junction(road), road.lane_width
    x, y, yaw = road.path.pose(start)
    away = yaw + TOWARDS[name]
    out = road.path.pose(end)[2]
    if name == "entry":
        place = road.path.pose(start - length, 0.0 if arriving else width)
        return np.array(place[:2]), yaw if arriving else yaw + math.pi
    if abs(math.remainder(out - away, math.tau)) < math.radians(35):
        place = road.path.pose(end + length, width if arriving else 0.0)
        return np.array(place[:2]), out + math.pi if arriving else out
    ex, ey, _ = road.path.pose(end)
    reach = max(math.hypot(ex - x, ey - y) / 2, 8.0)
    centre = np.array([x, y]) + _along(yaw, reach) + _along(yaw + math.pi / 2, width / 2)
    travel = away + math.pi if arriving else away
    return centre + _along(away, reach + length) + _along(travel - math.pi / 2, width / 2), travel


def _along(yaw: float, metres: float) -> np.ndarray:
    return metres * np.array([math.cos(yaw), math.sin(yaw)])


def _bend(source: tuple[np.ndarray, float], target: tuple[np.ndarray, float]) -> list[tuple[float, float]]:
    """A cubic Bezier curve between two places with given directions."""
    (a, yaw_a), (b, yaw_b) = source, target
    da, db = np.array([math.cos(yaw_a), math.sin(yaw_a)]), np.array([math.cos(yaw_b), math.sin(yaw_b)])
    span = float(np.hypot(*(b - a)))
    t = np.linspace(0.0, 1.0, 41)[:, None]
    p, q = a + da * span / 2.2, b - db * span / 2.2
    # B(t) = (1-t)^3 a + 3 (1-t)^2 t p + 3 (1-t) t^2 q + t^3 b, with p and q on the tangents.
    curve = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * p + 3 * (1 - t) * t * t * q + t**3 * b
    return [(float(x), float(y)) for x, y in curve]


def nearest_flow(road: RoadMap, start: Sequence[float], end: Sequence[float]) -> RoutePath | None:
    """The map's line closest to both places, if within one lane width of both."""
    lines = list((road.facts.get("flows") or {}).values())
    lines += [road.facts[name] for name in ("mainline", "bicycle") if road.facts.get(name) is not None]
    best: tuple[float, RoutePath] | None = None
    for points in lines:
        if len(points) < 2:
            continue
        line = RoutePath(points)
        (s0, d0), (s1, d1) = line.locate(start[0], start[1]), line.locate(end[0], end[1])
        cost = max(abs(d0), abs(d1))
        if s1 > s0 and cost < road.lane_width and (best is None or cost < best[0]):
            best = cost, line
    return best[1] if best else None


def joining(route: RoutePath, start: Sequence[float], end: Sequence[float]) -> RoutePath:
    """A line from a place beside the route to one near it, which ends in the route's direction.

    For places without a lane in the map. The lateral offset d(s) is a smoothstep between the two places.
    """
    s0, d0 = route.locate(start[0], start[1])
    s1, d1 = route.locate(end[0], end[1])
    if s1 <= s0 + 5.0 or abs(d0) > 0.8 * (s1 - s0):  # from the side: a Bezier curve
        yaw = math.atan2(end[1] - start[1], end[0] - start[0])
        arrive = route.pose(s1)[2] if abs(d1) < 3.0 and s1 > s0 else yaw
        return RoutePath(_bend((np.asarray(start[:2]), yaw), (np.asarray(end[:2]), arrive)))
    u = np.linspace(0.0, 1.0, 60)
    ease = u * u * (3 - 2 * u)
    return RoutePath([route.pose(s0 + (s1 - s0) * a, d0 + (d1 - d0) * e)[:2] for a, e in zip(u, ease, strict=True)])


def closest(route: RoutePath, other: RoutePath, start_s: float = 0.0) -> tuple[float, float]:
    """As `meeting`; without a point of conflict, the place at which the lines are nearest."""
    met = meeting(route, other, start_s)
    if met is not None:
        return met
    apart = np.hypot(*(route.xy[:, None, :] - other.xy[None, :, :]).transpose(2, 0, 1))
    apart[route.s < start_s] = np.inf
    i, j = np.unravel_index(int(apart.argmin()), apart.shape)
    return float(route.s[i]), float(other.s[j])


def given_ends(line: RoutePath, start: Sequence[float], end: Sequence[float]) -> tuple[float, float]:
    """s on a given_flow's line of the two places of the route file."""
    source, sink = line.locate(start[0], start[1])[0], line.locate(end[0], end[1])[0]
    return (source, sink) if sink > source + 10.0 else (0.0, line.length)


def given_flow(road: RoadMap, start: Sequence[float], end: Sequence[float], side: str | None = None) -> RoutePath:
    """The line between two places of a route file: the map's if it has one, else a curve.

    side: "left" or "right", from which the flow comes; used only if the start is on the route itself.
    """
    line = nearest_flow(road, start, end)
    if line is not None:
        return line
    s, d = road.path.locate(start[0], start[1])
    if side is not None and abs(d) < 1.0:
        start = road.path.pose(s, road.lane_width * (1 if side == "left" else -1))
    return joining(road.path, start, end)


def across(road: RoadMap, s: float, edge: float, angle_deg: float) -> RoutePath:
    """Path of an actor that crosses the road at s from d = edge to the other side, `angle_deg` off the perpendicular.

    Ends 1.2 m beyond the last lane of the far side.
    """
    lanes = road.facts.get("lanes", {})
    far = road.lane_width * (0.5 + (lanes.get("oncoming", 1) + lanes.get("left", 0) if edge < 0 else 0)) + 1.2
    to = far if edge < 0 else -far
    along = math.tan(math.radians(angle_deg))
    # Crosses the centre of the ego's lane at s.
    return RoutePath([road.path.pose(s - along * abs(edge), edge)[:2], road.path.pose(s + along * abs(to), to)[:2]])


def conflict(road: RoadMap, source: str) -> tuple[str, RoutePath, tuple[float, float]]:
    """(arm, straight line across the junction, its conflict with the route) for a car from `source` or another arm."""
    opposite = {"left": "right", "right": "left", "opposite": "entry"}
    known_word("arm", source, opposite)
    start = last_junction(road)[0] - 2.0
    for arm in (source, *(a for a in ("left", "opposite", "right") if a != source)):
        line = junction_flow(road, arm, opposite[arm])
        met = meeting(road.path, line, start)
        if met is not None:
            return arm, line, met
    line = junction_flow(road, source, opposite[source])
    return source, line, closest(road.path, line, start)
