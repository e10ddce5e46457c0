"""carla.Client: each call that crosses the network in the real client makes a round trip to the fake server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import carla

from fake_carla import towns
from fake_carla.commands import Response, respond
from fake_carla.pilot import Manager
from fake_carla.stage import Stage
from fake_carla.traffic_manager import TrafficManager
from fake_carla.wire import Wire
from fake_carla.world import World

STAGES: dict[str, Stage] = {}  # by the server's token: clients of one server share its stage


class Client:
    """Connects at the first call."""

    def __init__(self, host: str = "127.0.0.1", port: int = 2000, worker_threads: int = 0) -> None:
        self._wire = Wire(host, port)
        self._token = ""

    def _stage(self) -> Stage:
        if not self._token:
            hello = self._wire.rpc("hello")
            self._token = hello["token"]
            if hello["version"] != self.get_client_version():
                sys.stderr.write(
                    "WARNING: Version mismatch detected: You are trying to connect to a simulator that ..."
                )
            if self._token not in STAGES:
                STAGES[self._token] = Stage(hello, self._wire)
        stage = STAGES[self._token]
        stage.wire = self._wire
        return stage

    def set_timeout(self, seconds: float) -> None:
        self._wire.timeout_s = seconds

    def get_client_version(self) -> str:
        return version("carla")

    def get_server_version(self) -> str:
        return str(self._wire.rpc("hello")["version"])

    def get_available_maps(self) -> list[str]:
        self._wire.rpc("ask")
        return towns.available()

    def get_required_files(self, folder: str = "", download: bool = True) -> list[str]:
        """Returns no files. The real server answers this call between ticks, so a hanging simulation does not."""
        self._wire.rpc("ask")
        return []

    def get_world(self) -> World:
        hello, stage = self._wire.rpc("hello"), self._stage()
        if hello["episode"] != stage.episode:  # another process has loaded a world meanwhile
            stage.begin(hello, reset=False)
        return World(stage)

    def load_world(
        self, map_name: str, reset_settings: bool = True, map_layers: carla.MapLayer = carla.MapLayer.All
    ) -> World:
        stage = self._stage()
        if towns.file_of(map_name) is None:
            self._wire.rpc("ask")
            raise RuntimeError("map not found")
        town = map_name.rsplit("/", 1)[-1]
        stage.begin(self._wire.rpc("load", town=town, reset=bool(reset_settings)), bool(reset_settings))
        return World(stage)

    def load_world_if_different(
        self, map_name: str, reset_settings: bool = True, map_layers: carla.MapLayer = carla.MapLayer.All
    ) -> None:
        if towns.plain(self._stage().name) != towns.plain(map_name):
            self.load_world(map_name, reset_settings)

    def reload_world(self, reset_settings: bool = True) -> World:
        stage = self._stage()
        hello = self._wire.rpc("load", town=stage.name, opendrive=stage.opendrive, reset=bool(reset_settings))
        stage.begin(hello, bool(reset_settings))
        return World(stage)

    def generate_opendrive_world(
        self,
        opendrive: str,
        parameters: carla.OpendriveGenerationParameters | None = None,
        reset_settings: bool = True,
    ) -> World:
        stage = self._stage()
        towns.town_map("OpenDriveMap", opendrive)  # RuntimeError if it is not a map
        hello = self._wire.rpc("load", town="OpenDriveMap", opendrive=opendrive, reset=bool(reset_settings))
        stage.begin(hello, bool(reset_settings))
        return World(stage)

    def get_trafficmanager(self, port: int = 8000) -> TrafficManager:
        stage = self._stage()
        self._wire.rpc("ask")
        return TrafficManager(stage, stage.managers.setdefault(port, Manager(port)))

    def apply_batch(self, commands: Sequence[Any], do_tick: bool = False) -> None:
        self.apply_batch_sync(commands, do_tick)

    def apply_batch_sync(self, commands: Sequence[Any], do_tick: bool = False) -> list[Response]:
        stage = self._stage()
        self._wire.rpc("ask")
        with stage.lock:
            responses = [respond(command, stage) for command in commands]
        if do_tick:
            stage.tick()
        return responses

    def start_recorder(self, name: str, additional_data: bool = False) -> str:
        self._wire.rpc("record", file=name)
        return name

    def stop_recorder(self) -> None:
        self._wire.rpc("record", file="")
