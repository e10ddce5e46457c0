"""Compile programs with Scenic's CARLA model, without a server: does a program for the embedded world play in CARLA?"""

from __future__ import annotations

from pathlib import Path

from closedloop_plugin.maps.build import road_for
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.bridge.compiled_scene import scene_for
from closedloop_plugin.worlds.bridge.faults.maps import map_of
from closedloop_plugin.worlds.bridge.program_setup import params_for, program_of, stage_for
from closedloop_plugin.worlds.bridge.session import close_running

MODEL = "closedloop_plugin.carla.world.model"


def compile_for_carla(setup: EpisodeSetup, maps: Path) -> None:
    """Compile the episode's program with CARLA's model and sample a scene. `maps`: folder of made maps.

    Needs the package carla. Raises Ad2Error and InvalidScene as scene_for.
    """
    layout, file = program_of(setup)
    road = road_for(setup.route, layout, town=setup.town, folder=maps) if setup.route else None
    params = params_for(setup, road, stage_for(setup, road))
    close_running()
    with map_of(setup):
        scene_for(file, MODEL, params, setup.seed, setup.values)
