"""The probe, with the real client against stand-ins that implement its protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from support.carla.standin import answering, free_ports
from support.closedloop.time_limits import with_growing_limits

from closedloop_plugin.carla.servers.probe import ServerProbeOutcome, ServerProbeResult, advice, client_version, probe

Server = Callable[[str], int]
ENOUGH_S = 60.0  # for what answers, or is refused, at once


@pytest.fixture
def server() -> Iterator[Server]:
    with ExitStack() as stack:
        yield lambda mode: stack.enter_context(contextmanager(answering)(mode))


@pytest.mark.integration
def test_a_server_of_the_clients_release_fits(server: Server) -> None:
    found = probe("127.0.0.1", server("0.9.16"), ENOUGH_S)
    assert (found.kind, found.server_version, found.fits) == (ServerProbeOutcome.ANSWERS, "0.9.16", True)
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
def test_what_answers_with_something_else_kills_the_client_and_not_us(server: Server) -> None:
    found = probe("127.0.0.1", server("http"), ENOUGH_S)
    assert found.kind is ServerProbeOutcome.FOREIGN and "SIGABRT" in found.reason
    assert "-carla-rpc-port" in advice(found)


@pytest.mark.integration
def test_silence_is_told_from_nobody(server: Server) -> None:
    silent = probe("127.0.0.1", server("hang"), 0.5)
    assert silent.kind is ServerProbeOutcome.SILENT and "time-out" in silent.reason and "restart" in advice(silent)
    (port,) = free_ports()
    nobody = probe("127.0.0.1", port, ENOUGH_S)
    assert nobody.kind is ServerProbeOutcome.NOBODY and f"--ports {port}" in advice(nobody)


@pytest.mark.integration
def test_a_name_that_is_no_host_is_nobody() -> None:
    assert probe("no.such.host.invalid", 2000, ENOUGH_S).kind is ServerProbeOutcome.NOBODY


@pytest.mark.integration
def test_a_simulation_that_hangs_behind_a_network_thread_that_answers(server: Server) -> None:
    port = server("version-only 0.9.16")
    assert probe("127.0.0.1", port, ENOUGH_S).answers
    found = with_growing_limits(
        lambda limit_s: probe("127.0.0.1", port, limit_s, simulation=True), lambda p: not p.server_version
    )
    assert found.kind is ServerProbeOutcome.SILENT and found.server_version == "0.9.16"
    assert "its simulation does not" in found.reason
    assert probe("127.0.0.1", server("0.9.16"), ENOUGH_S, simulation=True).fits


@pytest.mark.integration
def test_a_hostile_version_is_one_short_printable_line(server: Server) -> None:
    found = probe("127.0.0.1", server("\x1b[2J\n0.9.16 \u202e"), ENOUGH_S)
    assert found.answers and not found.fits
    assert found.server_version.isascii() and found.server_version.isprintable()


@pytest.mark.parametrize(
    ("server_version", "says"),
    [
        ("0.9.14", "Python 3.10"),
        ("0.10.0", "another simulator"),
        ("0.9.17", "Use a server of the client's release"),
        ("", "no known version"),
    ],
)
def test_every_mismatch_has_an_advice(server_version: str, says: str) -> None:
    assert says in advice(ServerProbeResult("h:2000", ServerProbeOutcome.ANSWERS, server_version, "0.9.16"))


@pytest.mark.parametrize("build", ["0.9.16", "0.9.16-dirty", "0.9.16-3-gabc"])
def test_a_build_of_the_same_release_fits(build: str) -> None:
    assert ServerProbeResult("h:2000", ServerProbeOutcome.ANSWERS, build, "0.9.16").fits


@pytest.mark.parametrize("other", ["0.9.161", "0.9.1", "10.9.16", "", "x"])
def test_a_version_that_only_looks_alike_does_not(other: str) -> None:
    assert not ServerProbeResult("h:2000", ServerProbeOutcome.ANSWERS, other, "0.9.16").fits
