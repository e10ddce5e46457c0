"""The way to one CARLA server: reached, of the right version, with the right town loaded, and left as it was found."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path as File
from typing import Any

from closedloop_plugin.carla.maps.from_server import release
from closedloop_plugin.carla.world.simulation import TICK_S, StagedSimulator
from closedloop_plugin.worlds.base import WorldError
from lmms_eval_ad2.errors import Ad2Error, require

LOAD_S = 300.0  # for a town: the large ones take minutes from a cold disk
KNOCK_S = 5.0  # for one answer of a server that may not be there
TM_OFFSET = 6000  # the traffic manager's port on this machine, from the server's
STREAM_M = 650.0  # of a large map that is kept loaded around the ego


class CarlaConnection:
    """Calls that fail are WorldErrors: another process, or the same server after its restart, tries again."""

    def __init__(self, host: str, port: int, wait_s: float, any_version: bool) -> None:
        self._host, self._port = host, port
        self._carla = require("carla", "for --world carla")
        self._simulator: StagedSimulator | None = None
        self._town: tuple[str, float] | None = None  # what is loaded: map, timestep
        self._client: Any = None
        self.versions = self._reach(wait_s)
        client, server = self.versions
        if (release(client) is None or release(client) != release(server)) and not any_version:
            raise Ad2Error(
                f"{self.address}: the CARLA server is {server}, the client package here {client}; they must be the "
                f"same. Start a {client} server (ad2 carla up), or drive a {server} one with Bench2Drive's leaderboard "
                "(docs/bench2drive.md); --any-version tries nevertheless"
            )

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def _reach(self, wait_s: float) -> tuple[str, str]:
        """(client, server) versions once the server answers; it may be on its way up."""
        until = time.monotonic() + wait_s
        while True:
            self._client = self._carla.Client(self._host, self._port)  # anew: one that was cut off stays so
            self._client.set_timeout(min(KNOCK_S, wait_s))
            try:
                return self._client.get_client_version(), self._client.get_server_version()
            except RuntimeError as exc:
                if time.monotonic() > until:
                    raise WorldError(f"{self.address}: no CARLA server answers (ad2 carla up): {_line(exc)}") from exc
                time.sleep(1.0)

    def simulator(self, town: str, file: File | None, timestep: float) -> StagedSimulator:
        """The simulator of a town, loaded where it is not yet; from the file where the server has no such map."""
        if self._simulator is None or self._town != (town, timestep):
            self._simulator = None
            try:
                self._simulator = self._load(town, file, timestep)
            except RuntimeError as exc:
                raise WorldError(f"{self.address}: loading {town}: {_line(exc)}") from exc
            self._town = town, timestep
        return self._simulator

    def _load(self, town: str, file: File | None, timestep: float) -> StagedSimulator:
        self._client.set_timeout(LOAD_S)
        maps = {name.rsplit("/", 1)[-1] for name in self._client.get_available_maps()}
        if town not in maps and file is None:
            raise Ad2Error(
                f"{self.address}: the server has no map {town}; it has {', '.join(sorted(maps))}. Town06, 07, 11, "
                "12, 13 and 15 come with CARLA's additional maps (its ImportAssets.sh)"
            )
        self._settings(None)  # loading never ends on a server that waits for somebody else's ticks
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
        """In step with our ticks, or (None) by itself."""
        world = self._client.get_world()
        settings = world.get_settings()
        settings.synchronous_mode = timestep is not None
        settings.fixed_delta_seconds = timestep
        if timestep is not None:
            settings.deterministic_ragdolls = True
            settings.tile_stream_distance = settings.actor_active_distance = STREAM_M
        world.apply_settings(settings)

    def hurry(self) -> None:
        """From here on a silent server is not waited for: this process is about to end."""
        if self._simulator is not None:
            self._simulator.client.set_timeout(KNOCK_S)

    def leave(self) -> None:
        """The server goes on by itself, as others expect it."""
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            with contextlib.suppress(RuntimeError):
                simulator.destroy()


def free_port(wanted: int) -> int:
    """`wanted`, or another one where it is taken: servers on two hosts may have the same number, and a traffic manager
    on a port where one is already would become its client."""
    with socket.socket() as probe:
        try:
            probe.bind(("", wanted))
        except (OSError, OverflowError):
            probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:200]
