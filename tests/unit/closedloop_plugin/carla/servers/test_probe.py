"""The probe, with the real client against stand-ins that implement its protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from support.carla.standin import answering, free_ports
from support.closedloop.time_limits import with_growing_limits

from closedloop_plugin.carla.servers.probe import (
    ANSWERS,
    FOREIGN,
    NO_SERVER,
    SILENT,
    ServerProbeResult,
    advice,
    client_version,
)
from closedloop_plugin.carla.servers.probe import probe as probe_once

Server = Callable[[str], int]
ENOUGH_S = 60.0  # for servers that answer or refuse at once


def probe(host: str, port: int, timeout_s: float, *, simulation: bool = False) -> ServerProbeResult:
    return asyncio.run(probe_once(host, port, timeout_s, simulation=simulation))


@pytest.fixture
def server() -> Iterator[Server]:
    with ExitStack() as stack:
        yield lambda mode: stack.enter_context(contextmanager(answering)(mode))


@pytest.mark.integration
def test_a_server_of_the_clients_release_fits(server: Server) -> None:
    found = probe("127.0.0.1", server("0.9.16"), ENOUGH_S)
    assert (found.kind, found.server_version, found.fits) == (ANSWERS, "0.9.16", True)
    assert found.client_version == client_version() == "0.9.16"
    assert advice(found) == ""


@pytest.mark.integration
def test_a_server_of_another_release_answers_and_does_not_fit(server: Server) -> None:
    found = probe("127.0.0.1", server("0.9.15"), ENOUGH_S)
    assert found.answers and not found.fits
    assert (
        "0.9.15" in advice(found) and "Python 3.10" in advice(found) and "leaderboard_agent/agent.py" in advice(found)
    )


@pytest.mark.integration
def test_a_foreign_protocol_aborts_only_the_probe_process(server: Server) -> None:
    found = probe("127.0.0.1", server("http"), ENOUGH_S)
    assert found.kind == FOREIGN and "SIGABRT" in found.reason
    assert "-carla-rpc-port" in advice(found)


@pytest.mark.integration
def test_a_silent_server_is_distinguished_from_a_closed_port(server: Server) -> None:
    silent = probe("127.0.0.1", server("hang"), 0.5)
    assert silent.kind == SILENT and "time-out" in silent.reason and "restart" in advice(silent)
    (port,) = free_ports()
    closed = probe("127.0.0.1", port, ENOUGH_S)
    assert closed.kind == NO_SERVER and f"--ports {port}" in advice(closed)


@pytest.mark.integration
def test_an_unknown_host_counts_as_no_server() -> None:
    assert probe("no.such.host.invalid", 2000, ENOUGH_S).kind == NO_SERVER


@pytest.mark.integration
def test_a_hanging_simulation_behind_an_answering_network_thread_is_silent(server: Server) -> None:
    port = server("version-only 0.9.16")
    assert probe("127.0.0.1", port, ENOUGH_S).answers
    found = with_growing_limits(
        lambda limit_s: probe("127.0.0.1", port, limit_s, simulation=True), lambda p: not p.server_version
    )
    assert found.kind == SILENT and found.server_version == "0.9.16"
    assert "its simulation does not" in found.reason
    assert probe("127.0.0.1", server("0.9.16"), ENOUGH_S, simulation=True).fits


@pytest.mark.integration
def test_a_hostile_version_is_reduced_to_printable_ascii(server: Server) -> None:
    found = probe("127.0.0.1", server("\x1b[2J\n0.9.16 \u202e"), ENOUGH_S)
    assert found.answers and not found.fits
    assert found.server_version.isascii() and found.server_version.isprintable()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("script", "says"),
    [("raise SystemExit(0)", "exit code 0"), ("raise SystemExit('no libc')", "no libc"), ("x y", "SyntaxError")],
)
def test_a_client_that_ends_without_a_result_is_silent(script: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("closedloop_plugin.carla.servers.probe.CLIENT_SCRIPT", script)
    found = probe("127.0.0.1", 2000, ENOUGH_S)
    assert found.kind == SILENT and "the CARLA client failed" in found.reason and says in found.reason


@pytest.mark.parametrize(
    ("server_version", "says"),
    [
        ("0.9.14", "Python 3.10"),
        ("0.10.0", "another simulator"),
        ("0.9.17", "Use a server of the client's release"),
        ("", "no known version"),
    ],
)
def test_every_version_mismatch_has_advice(server_version: str, says: str) -> None:
    assert says in advice(ServerProbeResult("h:2000", "0.9.16", ANSWERS, server_version=server_version))


@pytest.mark.parametrize("build", ["0.9.16", "0.9.16-dirty", "0.9.16-3-gabc"])
def test_a_build_of_the_same_release_fits(build: str) -> None:
    assert ServerProbeResult("h:2000", "0.9.16", ANSWERS, server_version=build).fits


@pytest.mark.parametrize("other", ["0.9.161", "0.9.1", "10.9.16", "", "x"])
def test_a_version_that_only_looks_alike_does_not_fit(other: str) -> None:
    assert not ServerProbeResult("h:2000", "0.9.16", ANSWERS, server_version=other).fits
