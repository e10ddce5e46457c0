"""Servers from up to down, with real supervisors, the real client, and a stand-in for CarlaUE4.sh."""

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
from support.closedloop.time_limits import with_growing_limits

from closedloop_plugin.carla.servers import containers, lifecycle, processes, state
from closedloop_plugin.carla.servers.lifecycle import CarlaServerStatus
from closedloop_plugin.carla.servers.probe import ServerProbeOutcome
from closedloop_plugin.carla.servers.spec import CarlaServerSpec, server_specs
from closedloop_plugin.carla.servers.state import CarlaServerRecord
from lmms_eval_ad2.errors import Ad2Error

BACKOFF_S = 0.2
IMAGE = "carlasim/carla:0.9.16"


@pytest.fixture
def carla(tmp_path: Path) -> Path:
    """The folder of the stand-in, where it is steered."""
    binary(tmp_path / "carla")
    return tmp_path / "carla"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    lifecycle.down(tmp_path / "home")


def order(carla: Path, number: int = 1, **more: float) -> list[CarlaServerSpec]:
    return server_specs(free_ports(number), [], binary=str(carla / "CarlaUE4.sh"), backoff_s=BACKOFF_S, **more)


def up(some: list[CarlaServerSpec], folder: Path, wait_s: float = 60.0) -> list[CarlaServerRecord]:
    return lifecycle.up(some, folder, wait_s, lambda answering, seconds: None)


def read(folder: Path, port: int) -> CarlaServerRecord:
    found = state.read(folder, port)
    assert found
    return found


def starts(carla: Path) -> list[int]:
    """Pids of the simulators that were started, in order."""
    file = carla / "starts"
    return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


def kill_supervisor(entry: CarlaServerRecord) -> None:
    os.kill(entry.supervisor.pid, signal.SIGKILL)
    until(lambda: not processes.alive(entry.supervisor))


def runs(pid: int) -> bool:
    found = processes.identity_of(pid)
    return found is not None and processes.alive(found)


def stands(folder: Path, *others: str) -> dict[str, CarlaServerStatus]:
    return {s.server: s for s in lifecycle.status(folder, others, 30.0)}


def restarted(folder: Path, port: int, times: int) -> CarlaServerRecord | None:
    entry = state.read(folder, port)
    return entry if entry and entry.restarts == times and entry.stage == "answers" else None


def settled(folder: Path, port: int) -> CarlaServerRecord | None:
    entry = read(folder, port)
    return entry if entry.stage in ("answers", "failed") else None


def test_what_dies_comes_back_until_down(carla: Path, folder: Path) -> None:
    (job,) = order(carla)
    (first,) = up([job], folder)
    assert (first.stage, first.server_version, first.restarts) == ("answers", "0.9.16", 0)
    standing = stands(folder)[f"localhost:{job.port}"]
    assert standing.good and standing.state == "answers" and standing.record == read(folder, job.port)

    os.kill(starts(carla)[0], signal.SIGKILL)  # the simulator dies below its script
    second = until(lambda: restarted(folder, job.port, 1))
    assert second.token != first.token and second.server != first.server

    (line,) = lifecycle.down(folder, [job.port])
    assert f"localhost:{job.port}: ended process" in line
    assert state.read(folder, job.port) is None and not processes.alive(second.supervisor)
    assert len(starts(carla)) == 2 and not any(runs(pid) for pid in starts(carla))
    log = state.log_file(folder, job.port).read_text()
    assert "died (exit code" in log and "the stand-in starts" in log


@pytest.mark.parametrize("mode", ["version-only 0.9.16", "hang", "http"])
def test_what_hangs_is_ended_and_started_anew(mode: str, carla: Path, folder: Path) -> None:
    """version-only: the network thread answers, the simulation does not. Slow machines may restart it twice."""

    def ended(hang_s: float) -> list[CarlaServerRecord]:
        """As it was first and last; "failed" is one that this machine is too slow for: three starts took too long."""
        (job,) = order(carla, hang_s=hang_s)
        begun = len(starts(carla))
        (first,) = up([job], folder)
        if first.stage == "failed":
            return [first, first]
        (carla / "mode").write_text(mode)
        until(lambda: len(starts(carla)) > begun + first.restarts + 1 or read(folder, job.port).stage == "failed")
        (carla / "mode").unlink()
        return [first, until(lambda: settled(folder, job.port))]

    first, last = with_growing_limits(ended, lambda entries: entries[-1].stage == "failed", (1.5, 6.0, 24.0))
    assert last.stage == "answers" and processes.server_processes(first.server, first.token) == []
    assert "hung: no answer for" in state.log_file(folder, last.port).read_text()


def test_two_servers_are_ended_one_by_one(carla: Path, folder: Path) -> None:
    some = order(carla, 2)
    assert sorted(e.port for e in up(some, folder)) == sorted(j.port for j in some)
    lifecycle.down(folder, [some[0].port])
    left = stands(folder)
    assert list(left) == [f"localhost:{some[1].port}"] and all(s.good for s in left.values())
    assert lifecycle.down(folder, [some[0].port]) == lifecycle.down(folder, []) == []
    with pytest.raises(Ad2Error, match="one of your servers uses it"):
        up(some, folder)
    assert len(lifecycle.down(folder)) == 1 and lifecycle.down(folder) == []


def test_a_server_that_cannot_start_is_given_up_and_its_log_says_why(carla: Path, folder: Path) -> None:
    (carla / "stillborn").touch()
    (job,) = order(carla)
    (entry,) = up([job], folder)
    assert entry.stage == "failed" and "exit code 7" in entry.reason and "3 starts without an answer" in entry.reason
    until(lambda: not processes.alive(entry.supervisor))
    assert "no GPU for the stand-in" in lifecycle.tail(state.log_file(folder, job.port))
    standing = stands(folder)[entry.server_name]
    assert standing.state == "failed" and not standing.good
    (carla / "stillborn").unlink()
    assert up([job], folder)[0].stage == "answers"  # the same command, once it is mended


def test_up_returns_when_its_time_is_over_and_the_server_may_still_come(carla: Path, folder: Path) -> None:
    (carla / "wait").touch()
    (job,) = order(carla)
    (entry,) = up([job], folder, wait_s=0.1)
    assert entry.stage == "starting"
    assert stands(folder)[entry.server_name].state == "starting"
    (carla / "listen").touch()
    until(lambda: read(folder, job.port).stage == "answers")


def test_an_interrupted_up_leaves_nothing(carla: Path, folder: Path) -> None:
    (carla / "wait").touch()

    def interrupt(answering: int, seconds: float) -> None:
        if len(starts(carla)) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lifecycle.up(order(carla, 2), folder, 60.0, interrupt)
    assert state.read_all(folder) == [] and not any(runs(pid) for pid in starts(carla))


def test_a_foreign_process_on_a_port_is_untouched(carla: Path, folder: Path) -> None:
    some = order(carla, 2)
    with socket.create_server(("127.0.0.1", some[1].port + 1)) as foreign:
        with pytest.raises(Ad2Error, match=rf"port {some[1].port + 1} \(streaming of the server on {some[1].port}\)"):
            up(some, folder)
        assert not (carla / "starts").exists(), "nothing starts if not all can"
        assert lifecycle.down(folder) == []
        socket.create_connection(foreign.getsockname()).close()


def test_a_port_that_a_stranger_took_meanwhile_is_waited_for(carla: Path, folder: Path) -> None:
    (job,) = order(carla)
    (entry,) = up([job], folder)
    (carla / "wait").touch()  # the next start would not listen by itself
    with socket.create_server(("0.0.0.0", job.port + 2)):
        (carla / "die").touch()
        until(lambda: "in use by another process" in read(folder, job.port).reason)
        assert stands(folder)[entry.server_name].state == "restarting" and read(folder, job.port).server is None
        assert len(starts(carla)) == 1
    (carla / "listen").touch()
    until(lambda: restarted(folder, job.port, 1))


def test_a_killed_supervisor_leaves_no_orphan_unseen(carla: Path, folder: Path) -> None:
    (job,) = order(carla)
    (entry,) = up([job], folder)
    kill_supervisor(entry)
    standing = stands(folder)[entry.server_name]
    assert standing.state == "unwatched" and standing.probe.answers and not standing.good
    with pytest.raises(Ad2Error, match=rf"its supervisor, which was killed; ad2 carla down --port {job.port}"):
        up([job], folder)
    (line,) = lifecycle.down(folder)
    assert all(f"process {pid}" in line for pid in starts(carla))
    assert not any(runs(pid) for pid in starts(carla)) and state.read_all(folder) == []


def test_a_supervisor_killed_before_it_noted_the_pid_is_found_too(carla: Path, folder: Path) -> None:
    (job,) = order(carla)
    (entry,) = up([job], folder)
    kill_supervisor(entry)
    state.write(folder, replace(entry, server=None))
    lifecycle.down(folder)
    assert not any(runs(pid) for pid in starts(carla))


def test_a_record_with_a_pid_that_was_given_out_anew_touches_nobody(carla: Path, folder: Path) -> None:
    (job,) = order(carla)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        now = processes.identity_of(stranger.pid)
        assert now
        before = replace(now, start=now.start - 1)
        entry = CarlaServerRecord(job.port, "0" * 32, "answers", before, "/carla/CarlaUE4.sh", server=before)
        state.write(folder, entry)
        assert stands(folder)[entry.server_name].state == "gone"
        assert lifecycle.down(folder) == [f"localhost:{job.port}: no process of it was running"]
        assert stranger.poll() is None and state.read_all(folder) == []
        state.write(folder, entry)
        assert up([job], folder)[0].stage == "answers"  # such a record is no obstacle
        assert stranger.poll() is None
        stranger.kill()


def test_a_broken_record_is_one_error_and_nothing_is_touched(carla: Path, folder: Path) -> None:
    (job,) = order(carla)
    (entry,) = up([job], folder)
    file = folder / f"{job.port}.json"
    good = file.read_text()
    file.write_text(json.dumps({**asdict(entry), "server": {"pid": -1, "start": 0, "boot": "0"}}))
    for act in (lambda: lifecycle.down(folder), lambda: lifecycle.status(folder, (), 1.0), lambda: up([job], folder)):
        with pytest.raises(Ad2Error, match=f"{job.port}.json: not a record"):
            act()
    assert all(runs(pid) for pid in starts(carla))
    file.write_text(good)


def test_two_ups_at_once_give_one_server(carla: Path, folder: Path) -> None:
    """The second supervisor finds the lock held: it touches neither the record nor the server."""
    (carla / "wait").touch()  # it does not listen yet, so that its ports look free
    (job,) = order(carla)
    (entry,) = up([job], folder, wait_s=0.1)
    second = lifecycle.supervise(job, folder)
    assert second.wait() == 1
    assert "another supervisor is running" in (folder / f"{job.port}.fault").read_text()
    assert read(folder, job.port).token == entry.token and processes.alive(entry.supervisor)


def test_sigterm_to_the_supervisor_ends_its_server(carla: Path, folder: Path) -> None:
    (job,) = order(carla)
    (entry,) = up([job], folder)
    processes.terminate(entry.supervisor)
    until(lambda: state.read(folder, job.port) is None)
    assert not any(runs(pid) for pid in starts(carla))


def test_a_server_of_another_release_is_kept_and_named(carla: Path, folder: Path) -> None:
    (carla / "mode").write_text("0.9.15")
    (job,) = order(carla)
    (entry,) = up([job], folder)
    assert (entry.stage, entry.server_version) == ("answers", "0.9.15")
    standing = stands(folder)[entry.server_name]
    assert standing.state == "answers" and not standing.good


def test_status_asks_those_of_others_and_down_does_not_touch_them(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        (found,) = lifecycle.status(folder, (server,), 0.5)
        assert (found.state, found.probe.kind, found.record) == ("silent", ServerProbeOutcome.SILENT, None)
        assert lifecycle.down(folder) == []


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_container_from_up_to_down(name: str, carla: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine(carla, name)
    monkeypatch.setenv("PATH", f"{carla}:{os.environ['PATH']}")
    (job,) = server_specs(free_ports(), [1], image=IMAGE, engine=name, backoff_s=BACKOFF_S)
    (entry,) = up([job], folder)
    assert entry.stage == "answers" and entry.container in (carla / "run").read_text()
    os.kill(starts(carla)[0], signal.SIGKILL)
    again = until(lambda: restarted(folder, job.port, 1))
    assert again.container != entry.container
    (line,) = lifecycle.down(folder)
    assert again.container in line and not any(runs(pid) for pid in starts(carla))
    assert f"stop -t 5 {again.container}" in (carla / "calls").read_text()


def test_a_container_outlives_its_supervisor_and_client_and_is_still_found(
    carla: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(carla)
    monkeypatch.setenv("PATH", f"{carla}:{os.environ['PATH']}")
    (job,) = server_specs(free_ports(), [], image=IMAGE)
    (entry,) = up([job], folder)
    kill_supervisor(entry)
    processes.end(entry.server, entry.token, 5.0)  # the engine's client; the container is not its child
    assert runs(starts(carla)[0])
    (carla / "broken").touch()
    with pytest.raises(Ad2Error, match="docker does not list its containers"):
        lifecycle.down(folder)
    (carla / "broken").unlink()
    assert stands(folder)[entry.server_name].state == "unwatched"
    assert lifecycle.down(folder) == [f"localhost:{job.port}: ended container {entry.container}"]
    assert not runs(starts(carla)[0])


def test_one_that_does_not_end_holds_up_no_other(carla: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine(carla)
    monkeypatch.setenv("PATH", f"{carla}:{os.environ['PATH']}")
    first, second = sorted(free_ports(2))
    (boxed,) = up(server_specs([first], [], image=IMAGE), folder)
    (plain,) = up(server_specs([second], [], binary=str(carla / "CarlaUE4.sh")), folder)
    kill_supervisor(boxed)
    kill_supervisor(plain)
    (carla / "broken").touch()
    with pytest.raises(
        Ad2Error, match=rf"localhost:{first}: docker does not list .*; localhost:{second}: ended process"
    ):
        lifecycle.down(folder)
    assert [entry.port for entry in state.read_all(folder)] == [first]
    assert processes.server_processes(plain.server, plain.token) == []
    (carla / "broken").unlink()


def test_a_container_whose_removal_is_under_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_log_that_its_user_removed_ends_nothing(carla: Path, folder: Path) -> None:
    (job,) = order(carla, hang_s=6.0)
    up([job], folder)
    state.log_file(folder, job.port).unlink()
    (carla / "mode").write_text("http")
    until(lambda: read(folder, job.port).stage != "answers")  # it was judged once more, without its log
    (carla / "mode").unlink()
    until(lambda: read(folder, job.port).stage == "answers")


def test_an_image_that_is_not_here_is_not_pulled(carla: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine(carla)
    monkeypatch.setenv("PATH", f"{carla}:{os.environ['PATH']}")
    with pytest.raises(Ad2Error, match=r"docker pull carlasim/carla:0\.9\.15"):
        up(server_specs(free_ports(), [], image="carlasim/carla:0.9.15"), folder)
    assert state.read_all(folder) == []
