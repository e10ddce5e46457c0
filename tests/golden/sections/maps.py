"""OpenDRIVE maps: corridors of the demo and of each scenario type, routes on real towns, and drives there."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from closed_loop_runs import drive, episodes, pixels, routes_file, run_json, short
from embedded_drives import one_of_each
from workspace import Workspace, digest

COST = "minutes"
TOWNS = ("Town01", "Town02", "Town10HD")
DRIVEN = ("24211", "28048", "24240")  # one on each town


def record(work: Workspace) -> dict[str, Any]:
    types = one_of_each(routes_file(work))
    towns = work.data / "opendrive"
    found: dict[str, Any] = {"corridors": {}, "towns": {}}
    names = {route: type_ for type_, route in types.items()}
    for route, entry in _written_maps(work, "corridors", routes_file(work), list(names)).items():
        found["corridors"][f"{names[route]} {route}"] = entry
    found["demo"] = _written_maps(work, "demo", _demo_routes(work), [])
    for town in TOWNS:
        routes = _routes_of(routes_file(work), town)
        found["towns"][town] = _written_maps(work, town, routes_file(work), routes, "--town", towns / f"{town}.xodr")
    work.run("ad2", "drive", "routes", "add", routes_file(work))
    words = ("--suite", "embedded220", "--routes-ids", ",".join(DRIVEN), "--agent", "expert", "--towns", towns)
    folder = drive(work, "on_towns", *words)
    found["driven on towns"] = {"episodes": episodes(work, folder, full=True), "run": run_json(work, folder)}
    return found


def _demo_routes(work: Workspace) -> Path:
    """The demo suite's route file: docs/scenarios.md says where it is."""
    named = re.search(r"ad2 drive map --routes (\S+)", (work.repo / "docs" / "scenarios.md").read_text("utf-8"))
    assert named, "docs/scenarios.md shows `ad2 drive map`"
    return work.repo / named.group(1)


def _routes_of(path: Path, town: str) -> list[str]:
    return [r.attrib["id"] for r in ElementTree.parse(path).getroot().iter("route") if r.attrib["town"] == town]


def _written_maps(work: Workspace, out: str, file: Path, routes: list[str], *words: str | Path) -> dict[str, Any]:
    """Output of `ad2 drive map` by route (none given: all of the file): map, digests of map and picture, numbers."""
    chosen = routes or [r.attrib["id"] for r in ElementTree.parse(file).getroot().iter("route")]
    options = [word for route in chosen for word in ("--route", route)]
    output = work.run("ad2", "drive", "map", "--routes", file, *options, *words, "--out", out).stdout
    folder = work.folder / out
    named = dict(re.findall(r"^(\d+): \S*?([^/\s]+\.xodr)", output, re.MULTILINE))
    assert sorted(named) == sorted(chosen), output
    numbers = {line.partition(":")[0]: re.findall(r"[\d.]+ m\b", line) for line in output.splitlines()}
    return {
        route: {
            "map": name, "text": short(digest(folder / name)), "picture": pixels(folder / f"{route}.png"),
            "numbers": numbers[route],
        }
        for route, name in named.items()
    }  # fmt: skip
