"""Camera frames of the embedded world: six routes in three weathers, six cameras, every frame that is kept."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path
from typing import Any

from closed_loop_runs import drive, joint_digest, pixels, routes_file
from embedded_drives import one_of_each
from workspace import Workspace

COST = "minutes"
TYPES = ("Accident", "ParkingCutIn", "PedestrianCrossing", "HighwayExit", "YieldToEmergencyVehicle", "T_Junction")
WEATHERS = {
    "noon": {"sun_altitude_angle": "60", "cloudiness": "10"},
    "rain at dusk": {
        "sun_altitude_angle": "8", "cloudiness": "80", "precipitation": "60", "precipitation_deposits": "50",
        "wetness": "70", "wind_intensity": "40", "fog_density": "5",
    },
    "fog at night": {"sun_altitude_angle": "-40", "cloudiness": "30", "fog_density": "40"},
}  # fmt: skip
ZERO = ("cloudiness", "precipitation", "precipitation_deposits", "wetness", "wind_intensity", "fog_density")
EVERY = 8  # every eighth frame (two a second are kept) is also recorded separately


def record(work: Workspace) -> dict[str, Any]:
    first = one_of_each(routes_file(work))
    routes = [first[type_] for type_ in TYPES]
    found: dict[str, Any] = {}
    for name, weather in WEATHERS.items():
        path = _routes_in(work, name.replace(" ", "_"), weather, routes)
        words = ("--agent", "expert", "--camera", "surround", "--size", "400x225", "--frames", "--workers", "2")
        folder = drive(work, f"run_{path.stem}", "--suite", path, "--decision-hz", "2", *words)
        found[name] = {type_: _frames(folder / "frames" / f"{first[type_]}_rep0") for type_ in TYPES}
    return found


def _routes_in(work: Workspace, name: str, weather: dict[str, str], routes: list[str]) -> Path:
    """A route file with these routes of Bench2Drive's, in another weather."""
    root = ElementTree.Element("routes")
    for route in ElementTree.parse(routes_file(work)).getroot().iter("route"):
        if route.attrib["id"] not in routes:
            continue
        changed = copy.deepcopy(route)
        for old in changed.findall("weathers"):
            changed.remove(old)
        weathers = ElementTree.SubElement(changed, "weathers")
        values = {**dict.fromkeys(ZERO, "0"), "sun_azimuth_angle": "120", **weather}
        ElementTree.SubElement(weathers, "weather", {"route_percentage": "0", **values})
        root.append(changed)
    path = work.folder / f"{name}.xml"
    ElementTree.ElementTree(root).write(path)
    return path


def _frames(folder: Path) -> dict[str, Any]:
    """By camera: number of frames, digest of all, and digests of some."""
    by_camera: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in sorted(folder.glob("*.jpg")):
        camera, _, number = path.stem.rpartition("_")
        by_camera[camera].append((number, pixels(path)))
    return {
        camera: {
            "frames": len(frames),
            "all": joint_digest(f"{number} {digest}" for number, digest in frames),
            "some": dict(frames[::EVERY]),
        }
        for camera, frames in by_camera.items()
    }
