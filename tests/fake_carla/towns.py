"""Towns of the fake server: the .xodr files of one folder, read by the real carla.Map."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import carla

FOLDER = "FAKE_CARLA_MAPS"  # environment variable, which workers inherit
SPAWN_M = 25.0  # between spawn points along a lane


class TownMap(carla.Map):
    """The real map; spawn points come from a server, so here they are every 25 m of lane."""

    def get_spawn_points(self) -> list[carla.Transform]:
        points = []
        for waypoint in self.generate_waypoints(SPAWN_M):
            if not waypoint.is_junction:
                transform = waypoint.transform
                transform.location.z += 0.6
                points.append(transform)
        return points


def plain(town: str) -> str:
    """ "/Game/Carla/Maps/Town01_Opt" -> "Town01"; a town's layered variant has the same roads."""
    return town.rsplit("/", 1)[-1].removesuffix("_Opt")


def file_of(town: str) -> Path | None:
    folder = os.environ.get(FOLDER)
    file = Path(folder) / f"{plain(town)}.xodr" if folder else None
    return file if file and file.is_file() else None


def available() -> list[str]:
    folder = os.environ.get(FOLDER)
    return [f"/Game/Carla/Maps/{file.stem}" for file in sorted(Path(folder).glob("*.xodr"))] if folder else []


@cache
def town_map(town: str, opendrive: str = "") -> TownMap:
    """Map of a town, or of the OpenDRIVE text of a generated world. RuntimeError if there is none."""
    file = file_of(town)
    if not opendrive and file is None:
        raise RuntimeError(f"map not found: {town} ({FOLDER} names the folder with the towns)")
    text = opendrive or (file.read_text("utf-8") if file else "")
    return TownMap(f"Carla/Maps/{town.rsplit('/', 1)[-1]}", text)
