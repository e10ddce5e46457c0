"""Which scenarios of a route are played, on which road, and why it is driven without the others."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Route, RouteScenario
from closedloop_plugin.maps.base import CORRIDOR, RoadLayout
from closedloop_plugin.maps.layouts import LAYOUTS, layout_of
from closedloop_plugin.scenarios.catalogue import CATALOGUE

FAR_M = 150.0  # from a route to a trigger point; with keypoints 200 m apart the road may be 80 m beside their chords
TYPO = 0.85  # similarity from which a name is taken for a misspelt one


@dataclass(frozen=True)
class RouteStaging:
    """`played`: scenarios with a program, in the order of the file; `left`: reasons by the names of the others."""

    played: tuple[RouteScenario, ...]
    left: Mapping[str, str]
    layout: RoadLayout  # of a generated road


def staging(route: Route, *, in_town: bool) -> RouteStaging:
    """The staging of a route. `in_town`: on a town's map, with all its junctions; else on a generated road, which has
    one junction at most."""
    path = RoutePath(np.array(route.points))
    pairs = [(one, _unplayable(one) or _far_away(one, path)) for one in route.played]
    special = [not reason and LAYOUTS[one.kind].topology != CORRIDOR for one, reason in pairs]
    if sum(special) > 1 and not in_town:
        pairs = [(one, NO_JUNCTION if own else reason) for (one, reason), own in zip(pairs, special, strict=True)]
    played = tuple(one for one, reason in pairs if not reason)
    kinds = [one.kind for one in played] or [one.kind for one, _ in pairs if one.kind not in CATALOGUE][:1]
    left = _named([(one.name or one.kind or "without a type", reason) for one, reason in pairs if reason])
    several = in_town and len(kinds) > 1  # a town has its own lanes and junctions
    return RouteStaging(played, left, RoadLayout() if several else layout_of(kinds))


NO_JUNCTION = "several scenarios of the route need a junction, and a generated road has one at most: use --towns"


def _unplayable(scenario: RouteScenario) -> str:
    """Why no program here plays a scenario, "" if one does."""
    info = CATALOGUE.get(scenario.kind)
    if info is None:
        near = difflib.get_close_matches(scenario.kind, CATALOGUE, 1, TYPO)
        return f"no program for scenario type {scenario.kind!r}" + (f" (did you mean {near[0]}?)" if near else "")
    lacking = [name for name in info.needs if name not in scenario.params]
    return f"a {scenario.kind} needs {' and '.join(lacking)} (x, y, z) in its scenario" if lacking else ""


def _far_away(scenario: RouteScenario, path: RoutePath) -> str:
    """Why a scenario cannot happen to a car on its route, "" if it can: its trigger point is elsewhere."""
    x, y, _ = scenario.trigger
    s, left = path.locate(x, y)
    distance = math.hypot(left, max(-s, s - path.length, 0.0))
    return f"its trigger point is {distance:,.0f} m from the route" if distance > FAR_M else ""


def _named(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Reasons by name; a repeated name gets a number."""
    found: dict[str, str] = {}
    times: Counter[str] = Counter()
    for name, reason in pairs:
        times[name] += 1
        found[name if times[name] == 1 else f"{name} ({times[name]})"] = reason
    return found


def undrivable(route: Route) -> str:
    """Why a route cannot be driven, "" if it can: a scenario of a known type that cannot be read."""
    return next((one.fault for one in route.played if one.fault and one.kind in CATALOGUE), "")
