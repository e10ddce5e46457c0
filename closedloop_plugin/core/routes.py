"""Reading of Bench2Drive's route files (leaderboard 2.0 XML) into Route. Positions are converted to the map frame."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from closedloop_plugin.core.frames import from_carla
from lmms_eval_ad2.errors import Ad2Error, DataError

Pose = tuple[float, float, float]  # x, y, yaw in the map frame
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
    """One route with its scenario."""

    id: str
    town: str
    points: tuple[tuple[float, float], ...]  # map frame, m
    scenario: str  # the type, e.g. "ParkingCutIn"
    scenario_name: str
    trigger: Pose
    params: dict[str, Any] = field(default_factory=dict)  # floats, strings, (from, to), or Pose for locations
    weather: Weather = Weather()
    suite: str = ""  # name of the route file: ids are unique only within it

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


def read_routes(file: Path) -> list[Route]:
    """All routes of a file, in file order. Raises DataError (file, route, field) for a malformed or repeated route."""
    file = Path(file)
    if not file.is_file():
        raise Ad2Error(f"{file}: no such route file")
    try:
        root = ET.fromstring(file.read_bytes())
    except ET.ParseError as exc:
        raise Ad2Error(f"{file}: not an XML route file: {exc}") from exc
    if root.tag != "routes":
        raise DataError(file, None, root.tag, "a <routes> element at the top")
    routes = [_route(file, node) for node in root.findall("route")]
    seen: set[str] = set()
    for route in routes:
        if route.id in seen:
            raise DataError(file, f"route {route.id}", "id", "a unique id", route.id)
        seen.add(route.id)
    if not routes:
        raise DataError(file, None, "route", "at least one route")
    return routes


def select(routes: Iterable[Route], ids: Iterable[str]) -> list[Route]:
    """The routes with these ids, in that order. Raises Ad2Error for an unknown id."""
    known = {r.id: r for r in routes}
    wanted = list(ids)
    missing = [i for i in wanted if i not in known]
    if missing:
        raise Ad2Error(f"no such route: {', '.join(missing)}; known ids are like {', '.join(list(known)[:5])}")
    return [known[i] for i in wanted]


def _route(file: Path, node: ET.Element) -> Route:
    row = f"route {node.get('id', '?')}"
    for name in ("id", "town"):
        if not node.get(name):
            raise DataError(file, row, name, "a value")
    if not valid_route_id(node.get("id", "")):
        expected = "1 to 80 letters (A-Z, a-z), digits, '_', '-' or '.', without a '.' in front"
        raise DataError(file, None, "route id", expected, node.get("id"))
    points = [_place(file, row, p)[:2] for p in node.iterfind("waypoints/position")]
    points = [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]  # InvadingTurn 2790 repeats one
    if len(points) < 2:
        raise DataError(file, row, "waypoints", "two positions or more", len(points))
    scenarios = node.findall("scenarios/scenario")
    if len(scenarios) != 1:
        raise DataError(file, row, "scenarios", "one scenario", len(scenarios))
    scenario = scenarios[0]
    trigger = scenario.find("trigger_point")
    if trigger is None:
        raise DataError(file, row, "trigger_point", "an element with x, y and yaw")
    params = {c.tag: _param(file, row, c) for c in scenario if c.tag != "trigger_point"}
    kind = scenario.get("type") or ""
    return Route(
        id=node.get("id", ""),
        town=node.get("town", ""),
        points=tuple(points),
        scenario=kind,
        scenario_name=scenario.get("name") or kind,
        trigger=_place(file, row, trigger),
        params=params,
        weather=_weather(file, row, node),
        suite=file.stem,
    )


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
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise DataError(file, row, f"{node.tag} {name}", "a number", text) from None
    if not math.isfinite(value):
        raise DataError(file, row, f"{node.tag} {name}", "a finite number", text)
    return value
