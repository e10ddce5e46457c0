"""Bench2Drive's routes in the embedded world, driven by two built-in drivers: shared by drive_embedded_*."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from closed_loop_runs import drive, files, routes_file, run_content, score
from workspace import Workspace

AGENTS = ("expert", "steer-only")


def driven_routes(work: Workspace, routes: Sequence[str] = ()) -> dict[str, Any]:
    """Run folders and scores of both drivers on these routes (none: all)."""
    added = work.run("ad2", "drive", "routes", "add", routes_file(work))
    assert added.stdout, "routes add says how many routes there are"
    types = route_types(routes_file(work))
    found: dict[str, Any] = {}
    for agent in AGENTS:
        selection = ["--routes-ids", ",".join(routes)] if routes else []
        words = ["--suite", "embedded220", *selection, "--agent", agent, "--seed", "0", "--workers", "2"]
        folder = drive(work, agent, *words)
        found[agent] = run_content(work, folder)
        for name, row in found[agent]["episodes"].items():
            row["type"] = types[name.partition("_")[0]]
        found[agent]["score"] = score(work, agent, "--routes", "embedded220")
    found["files"] = files(work.home)
    return found


def route_types(path: Path) -> dict[str, str]:
    """Scenario type by route id."""
    root = ElementTree.parse(path).getroot()
    return {r.attrib["id"]: r.findall("./scenarios/scenario")[0].attrib["type"] for r in root.iter("route")}


def one_of_each(path: Path) -> dict[str, str]:
    """The first route of each scenario type, by type."""
    found: dict[str, str] = {}
    for route, type_ in route_types(path).items():
        found.setdefault(type_, route)
    return found


def scored_official(work: Workspace, path: Path, *words: str) -> dict[str, Any]:
    """The scores of an official result file."""
    return score(work, path, "--routes", routes_file(work), *words)
