"""Reading of route files (XML of CARLA's leaderboards 1 and 2, Bench2Drive) into Route, in the map frame.

Scores need the ids, and abilities the type of the only scenario. A route that has none, several, or one that cannot be
read is kept, with the reason for which it cannot be driven.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from closedloop_plugin.core.frames import from_carla
from closedloop_plugin.core.xml_files import FARTHEST_M, LARGEST_ROUTES, LONGEST_M, parse_xml, xml_bytes
from lmms_eval_ad2.errors import Ad2Error, DataError

Pose = tuple[float, float, float]  # x, y, yaw in the map frame
_PLAIN = re.compile(r"\s*[+\-.0-9A-Za-z]+\s*", re.ASCII)  # float() also reads 9_0 and digits of other scripts
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,79}")


def valid_route_id(text: str) -> bool:
    """Whether `text` can be the id of a route: also a file name, as files are named by the id."""
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
class Route:
    """One route with its scenario. `scenario` is "" if it has none or several."""

    id: str
    town: str
    points: tuple[tuple[float, float], ...]  # map frame, m
    scenario: str  # the type, e.g. "ParkingCutIn"
    scenario_name: str
    trigger: Pose  # of the only scenario; otherwise the start
    params: dict[str, Any] = field(default_factory=dict)  # floats, strings, (from, to), or Pose for locations
    weather: Weather = Weather()
    suite: str = ""  # name of the route file: ids are unique only within it
    # Facts of the file, not in repr, by which programs' routes are identified: (type, name) of all its scenarios; why
    # the route can only be scored ("" if it can be driven).
    scenarios: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)
    undrivable: str = field(default="", repr=False, compare=False)

    @cached_property
    def length(self) -> float:
        """Length of the polyline of the file's points, m."""
        return sum(math.dist(a, b) for a, b in zip(self.points, self.points[1:], strict=False))


LOCATIONS = ("start_actor_flow", "end_actor_flow", "other_actor_location", "end_location")
DIRECTIONS = ("left", "right", "opposite")
# Parameters that must be numbers; others may be words.
NUMBERS = frozenset({
    "distance", "speed", "flow_speed", "crossing_angle", "offset", "frequency", "source_dist_interval",
    "bicycle_speed", "bicycle_drive_distance", "front_vehicle_distance", "behind_vehicle_distance",
})  # fmt: skip
KNOWN = NUMBERS | {*LOCATIONS, "direction", "trigger_point"}


def read_routes(file: Path) -> list[Route]:
    """All routes of a file, or of all *.xml of a folder, in their order.

    Raises DataError (file, route, field) for a malformed or repeated id, a malformed point or weather.
    """
    file = Path(file)
    if not file.exists():
        raise Ad2Error(f"{file}: no such route file")
    files = sorted(file.glob("*.xml")) if file.is_dir() else [file]
    routes = [route for one in files for route in _routes_of(one)]
    repeated = [name for name, times in Counter(route.id for route in routes).items() if times > 1]
    if repeated:
        expected = "an id for each route, as results are matched by it: number them, or split the file"
        raise DataError(file, f"route {repeated[0]}", "id", expected, f"{len(repeated)} repeated id(s)")
    if not routes:
        raise DataError(file, None, "route", "at least one route")
    return routes


def _routes_of(file: Path) -> list[Route]:
    root = parse_xml(xml_bytes(file, "route file", LARGEST_ROUTES), file, "an XML route file")
    if root.tag != "routes":
        raise DataError(file, None, root.tag, "a <routes> element at the top")
    return [_route(file, node) for node in root.findall("route")]


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
    row = f"route {node.get('id', '?')}"
    for name in ("id", "town"):
        if not node.get(name):
            raise DataError(file, row, name, "a value")
    if not valid_route_id(node.get("id", "")):
        expected = "1 to 80 letters (A-Z, a-z), digits, '_', '-' or '.', without a '.' in front"
        raise DataError(file, None, "route id", expected, node.get("id"))
    nodes = [*node.iterfind("waypoints/position")] or node.findall("waypoint")  # the latter: leaderboard 1
    points = [_place(file, row, p)[:2] for p in nodes]
    points = [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]  # InvadingTurn 2790 repeats one
    if len(points) < 2:
        raise DataError(file, row, "waypoints", "two positions or more", len(points))
    scenarios = node.findall("scenarios/scenario")
    kinds = [one.get("type") or "" for one in scenarios]
    route = Route(
        id=node.get("id", ""),
        town=node.get("town", ""),
        points=tuple(points),
        scenario="",
        scenario_name="",
        trigger=_start(points),
        weather=_weather(file, row, node),
        suite=file.stem,
        scenarios=tuple((kind, one.get("name") or kind) for kind, one in zip(kinds, scenarios, strict=True)),
    )
    if not route.length <= LONGEST_M:
        raise DataError(file, row, "waypoints", f"a route of up to {LONGEST_M / 1000:g} km", f"{route.length:.0f} m")
    return _with_scenario(file, row, route, scenarios)


def _start(points: Sequence[tuple[float, float]]) -> Pose:
    (x, y), (to_x, to_y) = points[:2]
    return x, y, math.atan2(to_y - y, to_x - x)


def _with_scenario(file: Path, row: str, route: Route, scenarios: Sequence[ET.Element]) -> Route:
    """The route with its only scenario, or with the reason for which it cannot be driven."""
    if len(scenarios) != 1:
        return replace(route, undrivable=f"{len(scenarios) or 'no'} scenarios; to drive it, exactly one is needed")
    route = replace(route, scenario=route.scenarios[0][0], scenario_name=route.scenarios[0][1])
    foreign = [c.tag for c in scenarios[0] if c.tag not in KNOWN and "value" not in c.attrib and "from" not in c.attrib]
    if foreign:
        return replace(route, undrivable=f"its scenario has <{foreign[0]}>, which no program here plays")
    try:
        trigger = scenarios[0].find("trigger_point")
        if trigger is None:
            raise DataError(file, row, "trigger_point", "an element with x, y and yaw")
        params = {c.tag: _param(file, row, c) for c in scenarios[0] if c.tag != "trigger_point"}
        return replace(route, trigger=_place(file, row, trigger), params=params)
    except DataError as exc:
        return replace(route, undrivable=str(exc))


def _weather(file: Path, row: str, node: ET.Element) -> Weather:
    first = node.find("weathers/weather")
    if first is None:
        return Weather()
    names = [f.name for f in fields(Weather) if first.get(f.name) is not None]
    return Weather(**{name: _number(file, row, first, name) for name in names})


def _param(file: Path, row: str, node: ET.Element) -> Any:
    if node.tag in LOCATIONS:
        return _place(file, row, node)
    if "from" in node.attrib:
        return _number(file, row, node, "from"), _number(file, row, node, "to")
    value = node.get("value")
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
