"""Towns for the fake CARLA: of a route whose real town nobody may ship, the corridor map, under the town's name."""

from __future__ import annotations

import shutil
from pathlib import Path

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.maps.layouts import LAYOUTS


def town_of(route: Route, folder: Path) -> Path:
    """`folder`/<town>.xodr: the route's own road, with its layout's lanes and junction."""
    road = road_for(route, LAYOUTS[route.scenario], folder=folder / "corridors")
    file = folder / f"{route.town}.xodr"
    shutil.copy(road.file, file)
    return file
