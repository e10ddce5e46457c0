"""CarlaWorld: runs Scenic programs on a CARLA server, through Scenic's CarlaSimulator.

Programs, referee and records are those of the embedded world; map, physics, traffic and pictures are CARLA's. A server
runs one world at a time. Use a separate process (as runner/pool.py does): if another service answers on the port, the
client crashes natively. docs/carla.md lists what was run against a real server.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.carla.maps.from_server import address
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import EgoContact
from closedloop_plugin.maps.base import RoadLayout, RoadMap
from closedloop_plugin.worlds.base import InvalidScene
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from closedloop_plugin.worlds.bridge.world import ScenicWorld
from lmms_eval_ad2.core.errors import Ad2Error, require

MODEL = "closedloop_plugin.carla.world.model"


class CarlaWorld(ScenicWorld):
    """`server`: host:port. `wait_s`: seconds until it must answer. `folder`: maps are written there."""

    backend = "carla"
    in_town = True
    model = MODEL
    shown = ("lens_drops",)  # drawn over CARLA's pictures; it has no worn markings, leaves or further signs to place

    def __init__(
        self, folder: Path, server: str = "127.0.0.1:2000", wait_s: float = 60.0, any_version: bool = False
    ) -> None:
        require("carla", "for --world carla")
        from closedloop_plugin.carla.world.connection import CarlaConnection

        self._connection = CarlaConnection(*address(server), wait_s, any_version)
        client, running = self._connection.versions
        release_text = f"CARLA {running}" if client == running else f"CARLA {running}, client {client}"
        super().__init__(folder, f"{release_text} (scenic {version('scenic')})")
        self._simulator: Any = None  # Scenic's, of the episode's town
        self._town: Any = None  # its carla.Map

    def _road_for(self, route: Route, layout: RoadLayout, town: Path | None) -> RoadMap:
        self._load(route.town, town)
        return self._trace_route(route)

    def _suite_road_for(self, route: Route, layout: RoadLayout, town: Path | None) -> RoadMap:
        self._load(route.town, town)  # a missing town ends the run
        try:
            return self._trace_route(route)
        except Ad2Error as exc:  # a route that does not fit its town is one invalid episode
            raise InvalidScene(str(exc)) from exc

    def _load(self, town: str, file: Path | None) -> None:
        self._simulator = self._connection.simulator(town, file, self._setup.timestep)
        self._town = self._simulator.world.get_map()

    def _trace_route(self, route: Route) -> RoadMap:
        from closedloop_plugin.carla.maps.road_map import carla_road

        return carla_road(route, self._town, self._folder)

    def _begin(self, compiled: CompiledScene, stage: ScenarioStage) -> None:
        from closedloop_plugin.carla.maps.ground import CarlaGround, CarlaRouteGround
        from closedloop_plugin.carla.world.simulation import CarlaSimulationContext

        setup, road = self._setup, self.road
        self._ground = CarlaRouteGround(CarlaGround(self._town), road)
        context = CarlaSimulationContext(
            stage=stage,
            lights=self._lights,
            ground=self._ground,
            weather=self._weather,
            cameras=setup.cameras,
            seed=setup.seed,
        )
        self._simulator.context = context
        self._start_simulation(compiled, self._simulator)

    def _contacts(self) -> tuple[EgoContact, ...]:
        return self._simulation.contacts

    def _crossed(self) -> tuple[str, ...]:
        return self._simulation.crossed

    def _render(self, camera: Any) -> np.ndarray:
        picture = self._simulation.actors.cameras[camera.name].picture(self._simulation.current_frame)
        drops = self._perception.lens_drops
        if drops:
            from closedloop_plugin.worlds.embedded.camera.layers.lens_drops import draw_drops

            picture = picture.copy()
            draw_drops(picture, drops, self._setup.seed, camera.name)
        return picture

    def close(self) -> None:
        self._connection.shorten_timeouts()
        super().close()
        self._connection.close()
