"""Made routes, and training sets in which one route is a copy of a measured one, or only resembles it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from closedloop_plugin.core.routes import Pose, Route

TYPES = ("ParkedObstacle", "PedestrianCrossing", "VanillaNonSignalizedTurn", "HardBreakRoute")
Change = Callable[[Route, random.Random], Route]


def made(rng: random.Random, id_: str, suite: str = "made") -> Route:
    """A straight road, a turn and another straight road at a random place, with a scenario of drawn parameters."""
    heading, xy = rng.uniform(-math.pi, math.pi), np.array([rng.uniform(-3000, 3000), rng.uniform(-3000, 3000)])
    points, turn = [xy], math.radians(rng.uniform(25, 100)) * rng.choice((-1, 1))
    radius = rng.uniform(8, 60)
    steps = [(2.0, 0.0)] * rng.randrange(20, 45)
    steps += [(1.0, math.copysign(1.0 / radius, turn))] * int(abs(turn) * radius)
    steps += [(2.0, 0.0)] * rng.randrange(20, 45)
    for step, bend in steps:
        heading += bend
        points.append(points[-1] + step * np.array([math.cos(heading), math.sin(heading)]))
    at = rng.randrange(5, 15)
    route = Route(
        id=id_,
        town=f"Town0{rng.randrange(1, 5)}",
        points=tuple((float(x), float(y)) for x, y in points),
        scenario=rng.choice(TYPES),
        scenario_name="made",
        trigger=(0.0, 0.0, 0.0),
        suite=suite,
    )
    trigger = pose_at(route, at)
    place = (trigger[0] + 3.0, trigger[1] + 30.0, trigger[2])
    params = {"distance": round(rng.uniform(20, 60), 1), "direction": rng.choice(("left", "right")),
              "frequency": (10.0, 40.0), "start_actor_flow": place}  # fmt: skip
    return replace(route, trigger=trigger, params=params)


def pose_at(route: Route, index: int) -> Pose:
    (x, y), (x1, y1) = route.points[index], route.points[index + 1]
    return x, y, math.atan2(y1 - y, x1 - x)


def moved(route: Route, angle: float, dx: float, dy: float) -> Route:
    """The route and its scenario, rotated about the origin and shifted."""
    cos, sin = math.cos(angle), math.sin(angle)

    def place(x: float, y: float) -> tuple[float, float]:
        return cos * x - sin * y + dx, sin * x + cos * y + dy

    def pose(value: Pose) -> Pose:
        return (*place(value[0], value[1]), value[2] + angle)

    params = {k: pose(v) if isinstance(v, tuple) and len(v) == 3 else v for k, v in route.params.items()}
    points = tuple(place(x, y) for x, y in route.points)
    return replace(route, points=points, trigger=pose(route.trigger), params=params)


def resampled(route: Route, step: float) -> Route:
    xy = np.array(route.points)
    s = np.r_[0.0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T))]
    at = np.r_[np.arange(0.0, s[-1], step), s[-1]]
    return replace(route, points=tuple(zip(*(np.interp(at, s, xy[:, i]).tolist() for i in (0, 1)), strict=True)))


def longer(route: Route) -> Route:
    """The route with 30 to 120 m of road before and after it."""
    xy = np.array(route.points)
    before, after = xy[0] - xy[1], xy[-1] - xy[-2]
    head = [xy[0] + before * k for k in range(60, 0, -1)]
    tail = [xy[-1] + after * k for k in range(1, 60)]
    return replace(route, points=tuple((float(x), float(y)) for x, y in (*head, *xy, *tail)))


def piece(route: Route) -> Route:
    """The middle 60 % of the route."""
    n = len(route.points)
    return replace(route, points=route.points[n // 5 : n - n // 5])


def beside(route: Route, offset: float, reverse: bool) -> Route:
    """The route on a lane `offset` metres to its left; in the other direction if `reverse`."""
    xy = np.array(route.points)
    tangent = np.gradient(xy, axis=0)
    tangent /= np.hypot(*tangent.T)[:, None]
    points = [(float(x), float(y)) for x, y in xy + offset * np.column_stack([-tangent[:, 1], tangent[:, 0]])]
    found = replace(route, points=tuple(points[::-1] if reverse else points))
    return replace(found, trigger=pose_at(found, 5))


def across(route: Route) -> Route:
    """A road that crosses the route in its middle."""
    x, y = route.points[len(route.points) // 2]
    turned = moved(route, math.pi / 2, 0.0, 0.0)
    mx, my = turned.points[len(turned.points) // 2]
    return moved(turned, 0.0, x - mx, y - my)


def onward(route: Route) -> Route:
    """A road that begins on the last fifth of the route and continues straight on."""
    xy = np.array(route.points)
    own, step = xy[-len(xy) // 5 :], xy[-1] - xy[-2]
    points = [*own, *(xy[-1] + step * k for k in range(1, 120))]
    found = replace(route, points=tuple((float(x), float(y)) for x, y in points))
    return replace(found, trigger=pose_at(found, 3))


def _far(rng: random.Random) -> tuple[float, float, float]:
    return rng.uniform(0.3, 5.9), rng.uniform(-20000, 20000), rng.uniform(-20000, 20000)


# What a training set contains instead of the measured route: a copy (kind of leak that must be found) ...
PLANTED: dict[str, tuple[str, Change]] = {
    "the route itself": ("same_geometry", lambda route, rng: route),
    "another id": ("same_geometry", lambda route, rng: replace(route, id="other", suite="x")),
    "id in another case": (
        "same_id", lambda route, rng: replace(across(route), id=route.id.upper(), params={}, scenario="ControlLoss"),
    ),
    "shifted by centimetres": (
        "same_geometry", lambda route, rng: replace(moved(route, 0.0, rng.uniform(-0.4, 0.4), 0.3), id="other"),
    ),
    "more points": ("same_geometry", lambda route, rng: replace(resampled(route, 0.2), id="other")),
    "fewer points": ("same_geometry", lambda route, rng: replace(resampled(route, 3.1), id="other")),
    "rotated and shifted": ("same_shape", lambda route, rng: replace(moved(route, *_far(rng)), id="other", town="T")),
    "part of a longer route": ("same_geometry", lambda route, rng: replace(longer(route), id="other")),
    "a piece of the route": ("same_geometry", lambda route, rng: replace(piece(route), id="other")),
    "only its id": ("same_id", lambda route, rng: replace(route, points=(), town="", suite="")),
}  # fmt: skip
# ... or a road that only resembles it.
CLEAN: dict[str, Change] = {
    "opposite lane": lambda route, rng: replace(beside(route, 3.5, reverse=True), id="other"),
    "backwards on the same line": lambda route, rng: replace(beside(route, 0.0, reverse=True), id="other"),
    "next lane": lambda route, rng: replace(beside(route, -3.5, reverse=False), id="other", params={"distance": 99.0}),
    "crossing road": lambda route, rng: replace(across(route), id="other", params={"distance": 99.0}),
    "continuation": lambda route, rng: replace(onward(route), id="other"),
    "same shape, other parameters": lambda route, rng: replace(
        moved(route, *_far(rng)), id="other", params={**route.params, "distance": route.params["distance"] + 5.0}
    ),
    "same shape, other scenario": lambda route, rng: replace(
        moved(route, *_far(rng)), id="other", scenario="ControlLoss"
    ),
    "same shape, other turn": lambda route, rng: replace(
        moved(replace(route, points=tuple((x, -y) for x, y in route.points)), *_far(rng)), id="other"
    ),
    "the same place in another town": lambda route, rng: replace(
        route, id="other", town="Town09", params={**route.params, "distance": 99.0}
    ),
    "the same id in another file": lambda route, rng: replace(
        made(rng, route.id, "elsewhere"), town="Town09", id=route.id
    ),
}
