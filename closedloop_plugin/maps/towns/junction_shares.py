"""junction_shares: how much of a route must be driven to pass its first junction, for Bench2Drive's Traffic_Signs.

The official ability script counts the waypoints of the route (see planner_trace) up to and including the first one in a
junction, adds MARGIN and divides by all. A record passes if more than this share of its route was completed; the share
may exceed 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.opendrive_file import map_bytes
from closedloop_plugin.maps.towns.cutout import cut_out
from closedloop_plugin.maps.towns.lanes import parse_town
from closedloop_plugin.maps.towns.planner_trace import planner_waypoints
from lmms_eval_ad2.core.errors import Ad2Error

MARGIN = 8  # waypoints
AROUND = 60.0  # m from the routes within which roads are read: large towns have thousands of others


@dataclass(frozen=True)
class JunctionShares:
    """share: by route id. without_map: route ids by town without a map. unknown: route id -> why it has no share."""

    share: Mapping[str, float]
    without_map: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, str]


def junction_shares(routes: Sequence[Route], towns: Mapping[str, Path]) -> JunctionShares:
    """Shares of these routes. `towns`: OpenDRIVE files by town. Raises Ad2Error if a file cannot be read."""
    by_town: dict[str, list[Route]] = {}
    for route in routes:
        by_town.setdefault(route.town, []).append(route)
    share: dict[str, float] = {}
    unknown: dict[str, str] = {}
    for name, here in sorted(by_town.items()):
        if name in towns:
            _town_shares(here, towns[name], share, unknown)
    lacking = {name: tuple(r.id for r in here) for name, here in sorted(by_town.items()) if name not in towns}
    return JunctionShares(share, lacking, unknown)


def _town_shares(routes: Sequence[Route], file: Path, share: dict[str, float], unknown: dict[str, str]) -> None:
    points = np.array([point for route in routes for point in route.points])
    town = parse_town(cut_out(map_bytes(file), points, AROUND, name=file), file)
    for route in routes:
        try:
            found = first_junction_share(planner_waypoints(route, town, file))
        except Ad2Error as exc:
            unknown[route.id] = str(exc)
            continue
        if found is None:
            unknown[route.id] = f"{file}: route {route.id} crosses no junction; the official script stops there"
        else:
            share[route.id] = found


def first_junction_share(junction: np.ndarray) -> float | None:
    """Share for one route. `junction`: bool (N,), whether each waypoint is in one; None if none is."""
    if not junction.any():
        return None
    return (int(junction.argmax()) + 1 + MARGIN) / len(junction)
