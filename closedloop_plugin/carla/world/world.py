"""CarlaWorld: runs Scenic programs on a CARLA server, through Scenic's CarlaSimulator; its connection and towns.

Programs, referee and records are those of the embedded world; map, physics, traffic and pictures are CARLA's. A server
runs one world at a time. Use a separate process (as runner/pool.py does): if another service answers on the port, the
client crashes natively. docs/carla.md lists what was run against a real server.
"""

from __future__ import annotations

import contextlib
import socket
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.carla.maps.from_server import address, release
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import EgoContact
from closedloop_plugin.maps.base import RoadLayout, RoadMap
from closedloop_plugin.worlds.base import InvalidScene, WorldError
from closedloop_plugin.worlds.bridge.compiled_scene import CompiledScene
from closedloop_plugin.worlds.bridge.stage import ScenarioStage
from closedloop_plugin.worlds.bridge.world import ScenicWorld
from lmms_eval_ad2.core.errors import Ad2Error, require

MODEL = "closedloop_plugin.carla.world.model"
LOAD_S = 300.0  # timeout of loading a town: large ones take minutes from a cold disk
PROBE_S = 5.0  # timeout of one request while the server may be absent
TM_OFFSET = 6000  # of the traffic manager's port on this machine, from the server's
STREAM_M = 650.0  # radius around the ego in which a large map is loaded


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
        from closedloop_plugin.carla.maps.ground import CarlaRouteGround
        from closedloop_plugin.carla.world.simulation import CarlaSimulationContext

        setup, road = self._setup, self.road
        self._ground = CarlaRouteGround(road)
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
            from closedloop_plugin.worlds.embedded.camera.layers.effects import draw_drops

            picture = picture.copy()
            draw_drops(picture, drops, self._setup.seed, camera.name)
        return picture

    def close(self) -> None:
        self._connection.shorten_timeouts()
        super().close()
        self._connection.close()


class CarlaConnection:
    """Failed calls raise WorldError: the episode is repeated by another process or after a restart of the server."""

    def __init__(self, host: str, port: int, wait_s: float, any_version: bool) -> None:
        self._host, self._port, self.address = host, port, f"{host}:{port}"
        self._carla = require("carla", "for --world carla")
        self._simulator: Any = None  # StagedSimulator
        self._town: tuple[str, float] | None = None  # loaded map and timestep
        self._client: Any = None
        self.versions = self._connect(wait_s)
        client, server = self.versions
        if (release(client) is None or release(client) != release(server)) and not any_version:
            raise Ad2Error(
                f"{self.address}: the CARLA server is {server}, the client package here {client}; they must be the "
                f"same. Start a {client} server (ad2 carla up), or drive a {server} one with Bench2Drive's leaderboard "
                "(docs/bench2drive.md); --config any_version=true connects nevertheless"
            )

    def _connect(self, wait_s: float) -> tuple[str, str]:
        """(client, server) versions once the server answers; it may still be starting."""
        deadline = time.monotonic() + wait_s
        while True:
            # A new client each time: a disconnected one does not reconnect.
            self._client = self._carla.Client(self._host, self._port)
            self._client.set_timeout(min(PROBE_S, wait_s))
            try:
                return self._client.get_client_version(), self._client.get_server_version()
            except RuntimeError as exc:
                if time.monotonic() > deadline:
                    raise WorldError(f"{self.address}: no CARLA server answers (ad2 carla up): {_line(exc)}") from exc
                time.sleep(1.0)

    def simulator(self, town: str, file: Path | None, timestep: float) -> Any:
        """The StagedSimulator of a town, loaded if necessary; from `file` if the server has no such map."""
        if self._simulator is None or self._town != (town, timestep):
            self._simulator = None
            try:
                self._simulator = self._load(town, file, timestep)
            except RuntimeError as exc:
                raise WorldError(f"{self.address}: loading {town}: {_line(exc)}") from exc
            self._town = town, timestep
        return self._simulator

    def _load(self, town: str, file: Path | None, timestep: float) -> Any:
        from closedloop_plugin.carla.world.simulation import TICK_S, StagedSimulator

        self._client.set_timeout(LOAD_S)
        maps = {name.rsplit("/", 1)[-1] for name in self._client.get_available_maps()}
        if town not in maps and file is None:
            raise Ad2Error(
                f"{self.address}: the server has no map {town}; it has {', '.join(sorted(maps))}. Town06, 07, 11, "
                "12, 13 and 15 come with CARLA's additional maps (its ImportAssets.sh)"
            )
        self._settings(None)  # loading hangs on a server that waits for ticks
        simulator = StagedSimulator(
            town if town in maps else None,
            str(file),
            address=self._host,
            port=self._port,
            timeout=LOAD_S,
            render=False,
            timestep=timestep,
            traffic_manager_port=free_port(self._port + TM_OFFSET),
        )
        self._settings(timestep)
        for client in (simulator.client, self._client):
            client.set_timeout(TICK_S)
        return simulator

    def _settings(self, timestep: float | None) -> None:
        """Synchronous mode with this timestep (s), or asynchronous mode for None."""
        world = self._client.get_world()
        settings = world.get_settings()
        settings.synchronous_mode = timestep is not None
        settings.fixed_delta_seconds = timestep
        if timestep is not None:
            settings.deterministic_ragdolls = True
            settings.tile_stream_distance = settings.actor_active_distance = STREAM_M
        world.apply_settings(settings)

    def shorten_timeouts(self) -> None:
        """Do not wait long for a silent server, since this process is about to end."""
        if self._simulator is not None:
            self._simulator.client.set_timeout(PROBE_S)

    def close(self) -> None:
        """Return the server to asynchronous mode for other clients."""
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            with contextlib.suppress(RuntimeError):
                simulator.destroy()


def free_port(wanted: int) -> int:
    """`wanted`, or another free port if it is in use.

    Servers on two hosts may have the same port, and a traffic manager on a port that is in use becomes a client of the
    one there.
    """
    with socket.socket() as probe:
        try:
            probe.bind(("", wanted))
        except (OSError, OverflowError):
            probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:200]
