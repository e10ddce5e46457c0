"""The life cycle of servers, with real supervisors, the real client, and a stand-in for CarlaUE4.sh."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from support.carla.standin import binary, engine, free_ports, until
from support.carla.supervised import BACKOFF_S, is_running, kill_supervisor, make_specs, starts, up
from support.closedloop.time_limits import with_growing_limits

from closedloop_plugin.carla.servers import containers, lifecycle, processes, state
from closedloop_plugin.carla.servers.lifecycle import CarlaServerStatus
from closedloop_plugin.carla.servers.probe import ServerProbeOutcome
from closedloop_plugin.carla.servers.spec import server_specs
from closedloop_plugin.carla.servers.state import CarlaServerRecord
from lmms_eval_ad2.errors import Ad2Error

IMAGE = "carlasim/carla:0.9.16"


@pytest.fixture
def carla(tmp_path: Path) -> Path:
    """The folder of the stand-in, with the files that control it."""
    binary(tmp_path / "carla")
    return tmp_path / "carla"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    lifecycle.down(tmp_path / "home")


def read(folder: Path, port: int) -> CarlaServerRecord:
    found = state.read(folder, port)
    assert found
    return found


def status_of(folder: Path, *others: str) -> dict[str, CarlaServerStatus]:
    return {s.server: s for s in lifecycle.status(folder, others, 30.0)}


def restarted(folder: Path, port: int, times: int) -> CarlaServerRecord | None:
    entry = state.read(folder, port)
    return entry if entry and entry.restarts == times and entry.stage == "answers" else None


def settled(folder: Path, port: int) -> CarlaServerRecord | None:
    entry = read(folder, port)
    return entry if entry.stage in ("answers", "failed") else None


def test_a_server_that_dies_is_restarted_until_down(carla: Path, folder: Path) -> None:
    (spec,) = make_specs(carla)
    (first,) = up([spec], folder)
    assert (first.stage, first.server_version, first.restarts) == ("answers", "0.9.16", 0)
    status = status_of(folder)[f"localhost:{spec.port}"]
    assert status.good and status.state == "answers" and status.record == read(folder, spec.port)

    os.kill(starts(carla)[0], signal.SIGKILL)  # the simulator dies below its script
    second = until(lambda: restarted(folder, spec.port, 1))
    assert second.token != first.token and second.server != first.server

    (line,) = lifecycle.down(folder, [spec.port])
    assert f"localhost:{spec.port}: ended process" in line
    assert state.read(folder, spec.port) is None and not processes.alive(second.supervisor)
    assert len(starts(carla)) == 2 and not any(is_running(pid) for pid in starts(carla))
    log = state.log_file(folder, spec.port).read_text()
    assert "died (exit code" in log and "the stand-in starts" in log


@pytest.mark.parametrize("mode", ["version-only 0.9.16", "hang", "http"])
def test_a_server_that_hangs_is_ended_and_restarted(mode: str, carla: Path, folder: Path) -> None:
    """version-only: the network thread answers, the simulation does not. Slow machines may restart it twice."""

    def records_of_a_hang(hang_s: float) -> list[CarlaServerRecord]:
        """The first and the last record. Stage "failed": this machine is too slow, three starts took too long."""
        (spec,) = make_specs(carla, hang_s=hang_s)
        starts_before = len(starts(carla))
        (first,) = up([spec], folder)
        if first.stage == "failed":
            return [first, first]
        (carla / "mode").write_text(mode)
        until(
            lambda: len(starts(carla)) > starts_before + first.restarts + 1 or read(folder, spec.port).stage == "failed"
        )
        (carla / "mode").unlink()
        return [first, until(lambda: settled(folder, spec.port))]

    first, last = with_growing_limits(
        records_of_a_hang, lambda entries: entries[-1].stage == "failed", (1.5, 6.0, 24.0)
    )
    assert last.stage == "answers" and processes.server_processes(first.server, first.token) == []
    assert "hung: no answer for" in state.log_file(folder, last.port).read_text()


def test_two_servers_are_ended_one_by_one(carla: Path, folder: Path) -> None:
    specs = make_specs(carla, 2)
    assert sorted(e.port for e in up(specs, folder)) == sorted(j.port for j in specs)
    lifecycle.down(folder, [specs[0].port])
    left = status_of(folder)
    assert list(left) == [f"localhost:{specs[1].port}"] and all(s.good for s in left.values())
    assert lifecycle.down(folder, [specs[0].port]) == lifecycle.down(folder, []) == []
    with pytest.raises(Ad2Error, match="one of your servers uses it"):
        up(specs, folder)
    assert len(lifecycle.down(folder)) == 1 and lifecycle.down(folder) == []


def test_a_server_that_cannot_start_fails_with_the_reason_in_its_log(carla: Path, folder: Path) -> None:
    (carla / "stillborn").touch()
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder)
    assert entry.stage == "failed" and "exit code 7" in entry.reason and "3 starts without an answer" in entry.reason
    until(lambda: not processes.alive(entry.supervisor))
    assert "no GPU for the stand-in" in lifecycle.tail(state.log_file(folder, spec.port))
    status = status_of(folder)[entry.server_name]
    assert status.state == "failed" and not status.good
    (carla / "stillborn").unlink()
    assert up([spec], folder)[0].stage == "answers"  # the same command, once it is fixed


def test_up_returns_after_its_wait_and_the_server_may_still_answer(carla: Path, folder: Path) -> None:
    (carla / "wait").touch()
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder, wait_s=0.1)
    assert entry.stage == "starting"
    assert status_of(folder)[entry.server_name].state == "starting"
    (carla / "listen").touch()
    until(lambda: read(folder, spec.port).stage == "answers")


def test_an_interrupted_up_leaves_no_server(carla: Path, folder: Path) -> None:
    (carla / "wait").touch()

    def interrupt(answering: int, seconds: float) -> None:
        if len(starts(carla)) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lifecycle.up(make_specs(carla, 2), folder, 60.0, interrupt)
    assert state.read_all(folder) == [] and not any(is_running(pid) for pid in starts(carla))


def test_a_foreign_process_on_a_port_is_not_touched(carla: Path, folder: Path) -> None:
    specs = make_specs(carla, 2)
    with socket.create_server(("127.0.0.1", specs[1].port + 1)) as foreign:
        with pytest.raises(Ad2Error, match=rf"port {specs[1].port + 1} \(streaming of the server on {specs[1].port}\)"):
            up(specs, folder)
        assert not (carla / "starts").exists(), "nothing starts if not all can"
        assert lifecycle.down(folder) == []
        socket.create_connection(foreign.getsockname()).close()


def test_the_restart_waits_for_a_port_that_another_process_took(carla: Path, folder: Path) -> None:
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder)
    (carla / "wait").touch()  # the next start would not listen by itself
    with socket.create_server(("0.0.0.0", spec.port + 2)):
        (carla / "die").touch()
        until(lambda: "in use by another process" in read(folder, spec.port).reason)
        assert status_of(folder)[entry.server_name].state == "restarting" and read(folder, spec.port).server is None
        assert len(starts(carla)) == 1
    (carla / "listen").touch()
    until(lambda: restarted(folder, spec.port, 1))


def test_the_server_of_a_killed_supervisor_is_found_and_ended(carla: Path, folder: Path) -> None:
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder)
    kill_supervisor(entry)
    status = status_of(folder)[entry.server_name]
    assert status.state == "unwatched" and status.probe.answers and not status.good
    with pytest.raises(Ad2Error, match=rf"its supervisor, which was killed; ad2 carla down --port {spec.port}"):
        up([spec], folder)
    (line,) = lifecycle.down(folder)
    assert all(f"process {pid}" in line for pid in starts(carla))
    assert not any(is_running(pid) for pid in starts(carla)) and state.read_all(folder) == []


def test_the_server_of_a_supervisor_killed_before_it_recorded_the_pid_is_found(carla: Path, folder: Path) -> None:
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder)
    kill_supervisor(entry)
    state.write(folder, replace(entry, server=None))
    lifecycle.down(folder)
    assert not any(is_running(pid) for pid in starts(carla))


def test_a_process_with_a_reused_pid_is_not_touched(carla: Path, folder: Path) -> None:
    (spec,) = make_specs(carla)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        now = processes.identity_of(stranger.pid)
        assert now
        before = replace(now, start=now.start - 1)
        entry = CarlaServerRecord(
            port=spec.port, token="0" * 32, stage="answers", supervisor=before, what="/carla/CarlaUE4.sh", server=before
        )
        state.write(folder, entry)
        assert status_of(folder)[entry.server_name].state == "gone"
        assert lifecycle.down(folder) == [f"localhost:{spec.port}: no process of it was running"]
        assert stranger.poll() is None and state.read_all(folder) == []
        state.write(folder, entry)
        assert up([spec], folder)[0].stage == "answers"  # such a record does not prevent a start
        assert stranger.poll() is None
        stranger.kill()


def test_a_broken_record_is_one_error_and_nothing_is_touched(carla: Path, folder: Path) -> None:
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder)
    file = folder / f"{spec.port}.json"
    good = file.read_text()
    file.write_text(json.dumps({**asdict(entry), "server": {"pid": -1, "start": 0, "boot": "0"}}))
    for command in (
        lambda: lifecycle.down(folder),
        lambda: lifecycle.status(folder, (), 1.0),
        lambda: up([spec], folder),
    ):
        with pytest.raises(Ad2Error, match=f"{spec.port}.json: not a record"):
            command()
    assert all(is_running(pid) for pid in starts(carla))
    file.write_text(good)


def test_two_simultaneous_ups_give_one_server(carla: Path, folder: Path) -> None:
    """The second supervisor finds the lock held: it touches neither the record nor the server."""
    (carla / "wait").touch()  # it does not listen yet, so that its ports look free
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder, wait_s=0.1)
    second = lifecycle.supervise(spec, folder)
    assert second.wait() == 1
    assert "another supervisor is running" in (folder / f"{spec.port}.fault").read_text()
    assert read(folder, spec.port).token == entry.token and processes.alive(entry.supervisor)


def test_sigterm_to_the_supervisor_ends_its_server(carla: Path, folder: Path) -> None:
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder)
    processes.terminate(entry.supervisor)
    until(lambda: state.read(folder, spec.port) is None)
    assert not any(is_running(pid) for pid in starts(carla))


def test_a_server_of_another_release_is_kept_and_reported(carla: Path, folder: Path) -> None:
    (carla / "mode").write_text("0.9.15")
    (spec,) = make_specs(carla)
    (entry,) = up([spec], folder)
    assert (entry.stage, entry.server_version) == ("answers", "0.9.15")
    status = status_of(folder)[entry.server_name]
    assert status.state == "answers" and not status.good


def test_status_probes_other_servers_and_down_does_not_touch_them(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        (found,) = lifecycle.status(folder, (server,), 0.5)
        assert (found.state, found.probe.kind, found.record) == ("silent", ServerProbeOutcome.SILENT, None)
        assert lifecycle.down(folder) == []


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_container_is_started_restarted_and_ended(
    name: str, carla: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(carla, name)
    monkeypatch.setenv("PATH", f"{carla}:{os.environ['PATH']}")
    (spec,) = server_specs(free_ports(), [1], image=IMAGE, engine=name, backoff_s=BACKOFF_S)
    (entry,) = up([spec], folder)
    assert entry.stage == "answers" and entry.container in (carla / "run").read_text()
    os.kill(starts(carla)[0], signal.SIGKILL)
    again = until(lambda: restarted(folder, spec.port, 1))
    assert again.container != entry.container
    (line,) = lifecycle.down(folder)
    assert again.container in line and not any(is_running(pid) for pid in starts(carla))
    assert f"stop -t 5 {again.container}" in (carla / "calls").read_text()


def test_a_container_outlives_its_supervisor_and_client_and_is_still_found(
    carla: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(carla)
    monkeypatch.setenv("PATH", f"{carla}:{os.environ['PATH']}")
    (spec,) = server_specs(free_ports(), [], image=IMAGE)
    (entry,) = up([spec], folder)
    kill_supervisor(entry)
    processes.end(entry.server, entry.token, 5.0)  # the engine's client; the container is not its child
    assert is_running(starts(carla)[0])
    (carla / "broken").touch()
    with pytest.raises(Ad2Error, match="docker does not list its containers"):
        lifecycle.down(folder)
    (carla / "broken").unlink()
    assert status_of(folder)[entry.server_name].state == "unwatched"
    assert lifecycle.down(folder) == [f"localhost:{spec.port}: ended container {entry.container}"]
    assert not is_running(starts(carla)[0])


def test_a_server_that_does_not_end_does_not_block_the_others(
    carla: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(carla)
    monkeypatch.setenv("PATH", f"{carla}:{os.environ['PATH']}")
    first, second = sorted(free_ports(2))
    (in_container,) = up(server_specs([first], [], image=IMAGE), folder)
    (plain,) = up(server_specs([second], [], binary=str(carla / "CarlaUE4.sh")), folder)
    kill_supervisor(in_container)
    kill_supervisor(plain)
    (carla / "broken").touch()
    with pytest.raises(
        Ad2Error, match=rf"localhost:{first}: docker does not list .*; localhost:{second}: ended process"
    ):
        lifecycle.down(folder)
    assert [entry.port for entry in state.read_all(folder)] == [first]
    assert processes.server_processes(plain.server, plain.token) == []
    (carla / "broken").unlink()


def test_a_container_that_is_being_removed_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker run --rm` removes by itself after `stop`; until then `rm` fails and `ps -a` has the name."""
    script = tmp_path / "docker"
    script.write_text(
        '#!/bin/sh\ncd "$(dirname "$0")"\ncase $1 in\n'
        "ps) [ -e gone ] || echo box\n"
        "    [ -e going ] && echo >> looks && [ $(wc -l < looks) = 3 ] && touch gone; exit 0;;\n"
        "rm) touch going; exit 1;;\nesac\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert containers.end("docker", "box") is True
    assert containers.end("docker", "box") is False


def test_a_removed_log_does_not_stop_the_supervision(carla: Path, folder: Path) -> None:
    (spec,) = make_specs(carla, hang_s=6.0)
    up([spec], folder)
    state.log_file(folder, spec.port).unlink()
    (carla / "mode").write_text("http")
    until(lambda: read(folder, spec.port).stage != "answers")  # it was probed again, without its log
    (carla / "mode").unlink()
    until(lambda: read(folder, spec.port).stage == "answers")


def test_a_missing_image_is_not_pulled(carla: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine(carla)
    monkeypatch.setenv("PATH", f"{carla}:{os.environ['PATH']}")
    with pytest.raises(Ad2Error, match=r"docker pull carlasim/carla:0\.9\.15"):
        up(server_specs(free_ports(), [], image="carlasim/carla:0.9.15"), folder)
    assert state.read_all(folder) == []
