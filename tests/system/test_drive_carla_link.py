"""The connection to one server, in this process: leftovers of a dead client, and a server that is restarting."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import fake_carla
import pytest
from fake_carla import server as server_module
from fake_carla.server import Server
from support.carla.fleet import towns

from closedloop_plugin.carla.world.world import PROBE_S, TM_OFFSET, CarlaConnection, free_port
from closedloop_plugin.worlds.base import WorldError


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with fake_carla.installed(towns(tmp_path)) as started:
        yield started


def test_a_server_left_in_synchronous_mode_is_reset_before_a_town_is_loaded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed client leaves the server in this mode, in which a real server would load a town indefinitely."""
    server.state.synchronous, server.state.fixed_delta_seconds = True, 0.05
    server.state.actors["1"] = {"type_id": "vehicle.audi.tt", "pose": [0.0] * 6}
    at_load: list[bool] = []
    load = server_module._CALLS["load"]
    watched = lambda target, **kwargs: at_load.append(target.state.synchronous) or load(target, **kwargs)  # noqa: E731
    monkeypatch.setitem(server_module._CALLS, "load", watched)
    link = CarlaConnection("127.0.0.1", server.port, 30.0, False)
    link.simulator("Demo101", None, 0.05)
    assert (at_load, server.state.synchronous, server.state.actors) == ([False], True, {})
    link.close()
    assert not server.state.synchronous


def test_a_town_is_loaded_only_if_town_or_timestep_changes(server: Server) -> None:
    link = CarlaConnection("127.0.0.1", server.port, 30.0, False)
    first = link.simulator("Demo101", None, 0.05)
    assert link.simulator("Demo101", None, 0.05) is first
    assert link.simulator("Demo101", None, 0.1) is not first
    link.simulator("Demo102", None, 0.05)
    assert (server.state.town, server.state.calls["load"]) == ("Demo102", 3)


def test_a_connection_that_is_cut_while_the_server_starts_is_repeated(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as early, contextlib.ExitStack() as late:
        port = early.getsockname()[1]

        def cut_and_restart() -> None:
            early.accept()[0].close()
            early.close()
            late.enter_context(Server(port))

        restart = threading.Thread(target=cut_and_restart)
        restart.start()
        with fake_carla.installed(tmp_path):
            assert CarlaConnection("127.0.0.1", port, 60.0, False).versions == ("0.9.16", "0.9.16")
        restart.join()


def test_a_server_that_dies_during_a_load_is_a_world_error_with_its_address(server: Server) -> None:
    link = CarlaConnection("127.0.0.1", server.port, 30.0, False)
    server.kill()
    with pytest.raises(WorldError, match=f"127.0.0.1:{server.port}: loading Demo101: the connection"):
        link.simulator("Demo101", None, 0.05)


def test_the_timeout_is_shortened_at_the_end(server: Server) -> None:
    link = CarlaConnection("127.0.0.1", server.port, 30.0, False)
    simulator = link.simulator("Demo101", None, 0.05)
    assert simulator.client._wire.timeout_s > PROBE_S
    link.shorten_timeouts()
    assert simulator.client._wire.timeout_s == PROBE_S


def test_the_traffic_manager_takes_the_usual_port_or_a_free_one() -> None:
    """Taken: two servers on two hosts may have equal ports. Too large: the server's port may be near 65535."""
    with socket.socket() as other:
        other.bind(("", 0))
        taken = other.getsockname()[1]
        assert free_port(taken) not in (0, taken)
    assert free_port(taken) == taken
    assert 0 < free_port(65535 + TM_OFFSET) <= 65535


def test_the_traffic_manager_of_the_simulator_has_the_usual_port(server: Server) -> None:
    simulator = CarlaConnection("127.0.0.1", server.port, 30.0, False).simulator("Demo101", None, 0.05)
    usual = server.port + TM_OFFSET
    assert simulator.tm.get_port() == usual or usual > 65535
