"""Town maps for tests: corridor maps of made routes under the names of towns."""

from __future__ import annotations

from pathlib import Path

from closedloop_plugin.learn.made_routes import made_routes
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.maps.layouts import LAYOUTS


def town(folder: Path, scenario: str, name: str) -> Path:
    """The corridor map of a made route as the file of a town."""
    route = made_routes(1, 1, types=[scenario])[0]
    built = road_for(route, LAYOUTS[scenario], folder=folder / "maps")
    return built.file.rename(folder / f"{name}.xodr")
