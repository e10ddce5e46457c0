"""CarlaWorld: the World interface over a running CARLA server, through Scenic's CarlaSimulator.

The same programs, referee and records as in the embedded world; the map, the physics, the traffic and the pictures are
CARLA's. One server has one world at a time. Run it in a process of its own (runner/pool.py does): a port that answers
with something else kills the client natively. What was run against a real server and what not: docs/carla.md.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path as File
from typing import Any

import numpy as np

from closedloop_plugin.carla.maps.from_server import address
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.core.state import EgoContact
from closedloop_plugin.maps.base import RoadLayout, RoadMap
from closedloop_plugin.worlds.base import InvalidScene
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from closedloop_plugin.worlds.bridge.world import ScenicWorld
from lmms_eval_ad2.errors import Ad2Error, require

MODEL = "closedloop_plugin.carla.world.model"


class CarlaWorld(ScenicWorld):
    """`server`: host:port. `wait_s`: how long it may take until it answers. `folder`: where maps are written."""

    backend = "carla"
    model = MODEL

    def __init__(
        self, folder: File, server: str = "127.0.0.1:2000", wait_s: float = 60.0, any_version: bool = False
    ) -> None:
        require("carla", "for --world carla")
        from closedloop_plugin.carla.world.connection import CarlaConnection

        self._link = CarlaConnection(*address(server), wait_s, any_version)
        client, running = self._link.versions
        same = f"CARLA {running}" if client == running else f"CARLA {running}, client {client}"
        super().__init__(folder, f"{same} (scenic {version('scenic')})")
        self._simulator: Any = None  # Scenic's, of the episode's town
        self._town: Any = None  # its carla.Map

    def _road_for(self, route: Route, layout: RoadLayout, town: File | None) -> RoadMap:
        self._load(route.town, town)
        return self._traced(route)

    def _suite_road_for(self, route: Route, layout: RoadLayout, town: File | None) -> RoadMap:
        self._load(route.town, town)  # a town that is not there ends the run
        try:
            return self._traced(route)
        except Ad2Error as exc:  # one route that does not fit its town must not
            raise InvalidScene(str(exc)) from exc

    def _load(self, town: str, file: File | None) -> None:
        self._simulator = self._link.simulator(town, file, self._setup.timestep)
        self._town = self._simulator.world.get_map()

    def _traced(self, route: Route) -> RoadMap:
        from closedloop_plugin.carla.maps.road_map import carla_road

        return carla_road(route, self._town, self._folder)

    def _weather_of(self, scene: Any) -> Weather:
        from closedloop_plugin.carla.world.weather import stated

        self._weather = stated(scene.params.get("weather"), self._weather)
        return super()._weather_of(scene)

    def _begin(self, compiled: CompiledScene, stage: ScenarioStage) -> None:
        from closedloop_plugin.carla.maps.ground import CarlaGround, CarlaRouteGround
        from closedloop_plugin.carla.world.simulation import CarlaSimulationContext

        setup, road = self._setup, self.road
        self._ground = CarlaRouteGround(CarlaGround(self._town), road)
        around = CarlaSimulationContext(stage, self._lights, self._ground, self._weather, setup.cameras, setup.seed)
        self._simulator.around = around
        self._start_simulation(compiled, self._simulator)

    def _contacts(self) -> tuple[EgoContact, ...]:
        return self._simulation.contacts

    def _crossed(self) -> tuple[str, ...]:
        return self._simulation.crossed

    def _render(self, camera: Any) -> np.ndarray:
        return self._simulation.crew.eyes[camera.name].picture(self._simulation.current_frame)

    def close(self) -> None:
        self._link.hurry()
        super().close()
        self._link.leave()
