"""Reading of route files (XML of the leaderboards 1 and 2 of CARLA, Bench2Drive, Fail2Drive, Longest6) into Route, in
the map frame.

A route has no, one or many scenarios. Scores need the ids, and abilities the type of the only scenario. A scenario that
cannot be read is kept with the reason; a route without a usable id of its own, town, points or weather is left out by
name.
"""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.core.xml_files import FARTHEST_M, LARGEST_ROUTES, LONGEST_M, MOST_POINTS, parse_xml, xml_bytes
from lmms_eval_ad2.core.errors import Ad2Error, DataError

Pose = tuple[float, float, float]  # x, y, yaw in the map frame
_PLAIN = re.compile(r"\s*[+\-.0-9A-Za-z]+\s*", re.ASCII)  # float() also reads 9_0 and digits of other scripts
VALIDATION_SET = "bench2drive_0.0.4_val"  # stem of the route file of Bench2Drive's set of version 0.0.4
VALIDATION_SUITES = ("embedded220v4", "bench2drive220v4")  # names under which it is driven
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,79}")


def valid_route_id(text: str) -> bool:
    """True if `text` can be the id of a route: also a file name, as files are named by the id."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True)
class Weather:
    """CARLA's weather parameters: percentages; sun angles in degrees."""

    cloudiness: float = 5.0
    precipitation: float = 0.0
    precipitation_deposits: float = 0.0
    wetness: float = 0.0
    wind_intensity: float = 10.0
    sun_azimuth_angle: float = -1.0
    sun_altitude_angle: float = 45.0
    fog_density: float = 2.0


@dataclass(frozen=True)
class RouteScenario:
    """One scenario of a route."""

    kind: str  # the type, e.g. "ParkingCutIn"
    name: str
    trigger: Pose
    params: Mapping[str, Any]  # as Route.params
    fault: str = ""  # why its elements cannot be read: no program may play it


@dataclass(frozen=True)
class Route:
    """One route with its scenarios. `scenario` is "" if it has none or several."""

    id: str
    town: str
    points: tuple[tuple[float, float], ...]  # map frame, m
    scenario: str  # the type, e.g. "ParkingCutIn"
    scenario_name: str
    trigger: Pose  # of the only scenario; otherwise the start
    # Of the only scenario: floats, strings, (from, to), Pose for locations, and a list of attributes as a dict.
    params: dict[str, Any] = field(default_factory=dict)
    weather: Weather = Weather()
    suite: str = ""  # name of the route file: ids are unique only within it
    # All scenarios of the file. Not in repr, by which programs' routes are identified.
    scenarios: tuple[RouteScenario, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def length(self) -> float:
        """Length of the polyline of the file's points, m."""
        return sum(math.dist(a, b) for a, b in zip(self.points, self.points[1:], strict=False))

    @property
    def played(self) -> tuple[RouteScenario, ...]:
        """Its scenarios. Of a route with one, as its own fields have it: a copy may have another."""
        if len(self.scenarios) > 1 or not self.scenario:
            return self.scenarios
        fault = self.scenarios[0].fault if self.scenarios else ""
        return (RouteScenario(self.scenario, self.scenario_name, self.trigger, self.params, fault),)

    @property
    def triggers(self) -> tuple[Pose, ...]:
        """The trigger points of its scenarios."""
        return tuple(one.trigger for one in self.played if not one.fault)


@dataclass(frozen=True)
class RouteFile:
    """Routes of a file or folder, and the reasons for which others of it are left out, by id."""

    routes: list[Route]
    left_out: dict[str, str]


LOCATIONS = ("start_actor_flow", "end_actor_flow", "other_actor_location", "end_location")
DIRECTIONS = ("left", "right", "opposite")
# Parameters that must be numbers; others may be words.
NUMBERS = frozenset({
    "distance", "speed", "flow_speed", "crossing_angle", "offset", "frequency", "source_dist_interval",
    "bicycle_speed", "bicycle_drive_distance", "front_vehicle_distance", "behind_vehicle_distance",
})  # fmt: skip
KNOWN = NUMBERS | {*LOCATIONS, "direction", "trigger_point"}


def read_routes(file: Path) -> list[Route]:
    """The readable routes of a file, or of all *.xml of a folder, in their order; see read_route_file."""
    return read_route_file(file).routes


def read_route_file(file: Path) -> RouteFile:
    """All routes of a file, or of all *.xml of a folder. A bad route is left out, with file, field and reason; so are
    all routes that share an id, bad ones included, since results are matched by it.

    Raises DataError if no route can be read.
    """
    file = Path(file)
    if not file.exists():
        raise Ad2Error(f"{file}: no such route file")
    files = sorted(file.glob("*.xml")) if file.is_dir() else [file]
    routes: list[Route] = []
    left_out: dict[str, DataError] = {}
    times: Counter[str] = Counter()
    for one in files:
        for number, node in enumerate(_nodes_of(one), 1):
            times[node.get("id", "")] += 1
            try:
                routes.append(_route(one, node))
            except DataError as exc:
                left_out[_free_name(node.get("id") or f"number {number} of {one.name}", left_out)] = exc
    for name in [route.id for route in routes if times[route.id] > 1]:
        expected = "an id for each route, as results are matched by it: number them, or split the file"
        error = DataError(file, f"route {name}", "id", expected, f"{times[name]} routes with it")
        left_out[_free_name(name, left_out)] = error
    routes = [route for route in routes if times[route.id] == 1]
    if not routes:
        raise next(iter(left_out.values()), DataError(file, None, "route", "at least one route"))
    return RouteFile(routes, {name: str(exc) for name, exc in left_out.items()})


def joined_routes(folder: Path) -> bytes:
    """The routes of all *.xml of a folder as one file."""
    root = ET.Element("routes")
    for file in sorted(folder.glob("*.xml")):
        root.extend(_nodes_of(file))
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)


def _free_name(name: str, taken: Collection[str]) -> str:
    """The name of a bad route in one line, with a number if another has it."""
    name = " ".join(name.split())[:80]
    numbered = (f"{name} ({n})" for n in itertools.count(2))
    return next(free for free in itertools.chain((name,), numbered) if free not in taken)


def _nodes_of(file: Path) -> list[ET.Element]:
    root = parse_xml(xml_bytes(file, "route file", LARGEST_ROUTES), file, "an XML route file")
    if root.tag != "routes":
        raise DataError(file, None, root.tag, "a <routes> element at the top")
    return root.findall("route")


def select(routes: Iterable[Route], ids: Iterable[str]) -> list[Route]:
    """The routes with these ids, in that order. Raises Ad2Error for an unknown id."""
    known = {r.id: r for r in routes}
    wanted = list(ids)
    missing = [i for i in wanted if i not in known]
    if missing:
        raise Ad2Error(f"no such route: {', '.join(missing)}; known ids are like {', '.join(list(known)[:5])}")
    return [known[i] for i in wanted]


def wide_gaps(routes: Iterable[Route], least_m: float = 50.0) -> dict[str, tuple[int, float]]:
    """The widest gap of each route of which two neighbouring points are `least_m` or more apart.

    id -> (number of the point before it, from 1; metres). Without the town's map, the road there is interpolated.
    """
    found = {}
    for route in routes:
        gaps = [math.dist(a, b) for a, b in zip(route.points, route.points[1:], strict=False)]
        if (widest := max(gaps, default=0.0)) >= least_m:
            found[route.id] = (gaps.index(widest) + 1, widest)
    return found


def _route(file: Path, node: ET.Element) -> Route:
    if not node.get("id"):
        raise DataError(file, "route ?", "id", "a value")
    if not valid_route_id(node.get("id", "")):
        expected = "1 to 80 letters (A-Z, a-z), digits, '_', '-' or '.', without a '.' in front"
        raise DataError(file, None, "route id", expected, node.get("id"))
    row = f"route {node.get('id')}"
    if not node.get("town"):
        raise DataError(file, row, "town", "a value")
    nodes = [*node.iterfind("waypoints/position")] or node.findall("waypoint")  # the latter: leaderboard 1
    points = [_place(file, row, p)[:2] for p in nodes]
    points = [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]  # InvadingTurn 2790 repeats one
    if not 2 <= len(points) <= MOST_POINTS:
        raise DataError(file, row, "waypoints", f"two to {MOST_POINTS:,} positions", len(points))
    scenarios = tuple(_scenario(file, row, one, points) for one in node.findall("scenarios/scenario"))
    only = scenarios[0] if len(scenarios) == 1 else RouteScenario("", "", _start(points), {})
    route = Route(
        id=node.get("id", ""),
        town=node.get("town", ""),
        points=tuple(points),
        scenario=only.kind,
        scenario_name=only.name,
        trigger=only.trigger,
        params=dict(only.params),
        weather=_weather(file, row, node),
        suite=file.stem,
        scenarios=scenarios,
    )
    if not route.length <= LONGEST_M:
        raise DataError(file, row, "waypoints", f"a route of up to {LONGEST_M / 1000:g} km", f"{route.length:.0f} m")
    return route


def _start(points: Sequence[tuple[float, float]]) -> Pose:
    (x, y), (to_x, to_y) = points[:2]
    return x, y, math.atan2(to_y - y, to_x - x)


def _scenario(file: Path, row: str, node: ET.Element, points: Sequence[tuple[float, float]]) -> RouteScenario:
    """One scenario; with a fault it has no parameters, and its trigger is the start of the route."""
    kind = node.get("type") or ""
    found = RouteScenario(kind, node.get("name") or kind, _start(points), {})
    try:
        trigger = node.find("trigger_point")
        if trigger is None:
            raise DataError(file, row, "trigger_point", "an element with x, y and yaw")
        params = {c.tag: _param(file, row, c) for c in node if c.tag != "trigger_point"}
        return replace(found, trigger=_place(file, row, trigger), params=params)
    except DataError as exc:
        return replace(found, fault=str(exc))


def _weather(file: Path, row: str, node: ET.Element) -> Weather:
    """The weather at the lowest route_percentage, which holds for the whole route; the default without any.

    In leaderboard 1 the route itself has it.
    """
    listed = node.findall("weathers//weather") or node.findall("weather")
    if not listed:
        return Weather()
    share = "route_percentage"
    first = min(listed, key=lambda one: _number(file, row, one, share) if one.get(share) is not None else 0.0)
    names = [f.name for f in fields(Weather) if first.get(f.name) is not None]
    return Weather(**{name: _number(file, row, first, name) for name in names})


def _param(file: Path, row: str, node: ET.Element) -> Any:
    if node.tag in LOCATIONS:
        return _place(file, row, node)
    known = node.tag in KNOWN
    if "from" in node.attrib and (known or "to" in node.attrib):
        return _number(file, row, node, "from"), _number(file, row, node, "to")
    value = node.get("value")
    if value is None and not known:
        return dict(node.attrib)  # such as <objects a="id=... x=..." b="..."/>
    if value is None:
        raise DataError(file, row, node.tag, "a value, or from and to", dict(node.attrib))
    if node.tag == "direction" and value not in DIRECTIONS:
        raise DataError(file, row, node.tag, " or ".join(DIRECTIONS), value)
    if node.tag in NUMBERS:
        return _number(file, row, node, "value")
    try:
        return float(value)
    except ValueError:
        return value


def _place(file: Path, row: str, node: ET.Element) -> Pose:
    return from_carla(
        _number(file, row, node, "x"),
        _number(file, row, node, "y"),
        _number(file, row, node, "yaw") if node.get("yaw") is not None else 0.0,
    )


def _number(file: Path, row: str, node: ET.Element, name: str) -> float:
    text = node.get(name)
    try:
        value = float(text if text and _PLAIN.fullmatch(text) else "")
    except ValueError:
        raise DataError(file, row, f"{node.tag} {name}", "a number", text) from None
    if not math.isfinite(value):
        raise DataError(file, row, f"{node.tag} {name}", "a finite number", text)
    if abs(value) > FARTHEST_M:
        raise DataError(file, row, f"{node.tag} {name}", f"-{FARTHEST_M:,.0f} to {FARTHEST_M:,.0f}", text)
    return value
