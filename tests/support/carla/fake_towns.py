"""Towns for the fake CARLA: corridor maps under the names of real towns, which may not be distributed."""

from __future__ import annotations

import shutil
from pathlib import Path

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.maps.layouts import LAYOUTS


def town_of(route: Route, folder: Path) -> Path:
    """Write `folder`/<town>.xodr: the corridor of the route, with the lanes and the junction of its layout."""
    road = road_for(route, LAYOUTS[route.scenario], folder=folder / "corridors")
    file = folder / f"{route.town}.xodr"
    shutil.copy(road.file, file)
    return file
