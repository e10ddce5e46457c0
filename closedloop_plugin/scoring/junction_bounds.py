"""Upper bounds of the share of a route up to its first junction, for Bench2Drive's routes, without the towns' maps.

The official ability figures of PDM-Lite's public result file (Traffic_Signs 178/190: 87 successes and 91 passed
junction tests of 95 records) count every record as passed that can pass: the four others have an infraction at a red
light or did not move. So the share of each of these 91 routes is less than what PDM-Lite drove of it: 50.37 % of one,
all of the others. A record that drove as much passes the test; for one that drove less, it needs the town's map.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import resources

import yaml

from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.ability import ShareBelow

FILE = "junction_bounds.yaml"


def known_bounds(routes: Iterable[Route]) -> dict[str, ShareBelow]:
    """Bounds by route id, of those of the routes that are Bench2Drive's, whatever their file is called."""
    table = _table()
    return {route.id: ShareBelow(table[name]) for route in routes if (name := fingerprint(route)) in table}


def fingerprint(route: Route) -> str:
    """Identifies a route by id, town and points (to 1 cm): other route files reuse ids."""
    points = " ".join(f"{x + 0.0:.2f},{y + 0.0:.2f}" for x, y in route.points)  # + 0.0: no -0.00
    return hashlib.sha256(f"{route.id} {route.town} {points}".encode()).hexdigest()[:12]


@cache
def _table() -> dict[str, float]:
    """Percentage of the route that PDM-Lite drove, by the route's fingerprint."""
    rows = yaml.safe_load(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
    return {name: float(row["percent"]) for row in rows for name in row["routes"].split()}
