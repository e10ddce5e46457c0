"""The life cycle of servers, with real supervisors, the real client, and a stand-in for CarlaUE4.sh."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.carla.standin import binary, until
from support.carla.supervised import is_running, kill_supervisor, make_record, make_records, server_pids, starts, up
from support.closedloop.time_limits import with_growing_limits

from closedloop_plugin.carla.servers import lifecycle, record
from closedloop_plugin.carla.servers.lifecycle import CarlaServerStatus, is_watched
from closedloop_plugin.carla.servers.probe import SILENT
from closedloop_plugin.carla.servers.record import CarlaServerRecord, end, read_all
from lmms_eval_ad2.core.errors import Ad2Error


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
    found = record.read(folder, port)
    assert found
    return found


def log_of(folder: Path, port: int) -> str:
    return (folder / f"{port}.log").read_text()


def status_of(folder: Path, *others: str) -> dict[str, CarlaServerStatus]:
    return {s.server: s for s in lifecycle.status(folder, others, 30.0)}


def restarted(folder: Path, port: int, times: int) -> CarlaServerRecord | None:
    entry = record.read(folder, port)
    return entry if entry and entry.restarts == times and entry.stage == "answers" else None


def settled(folder: Path, port: int) -> CarlaServerRecord | None:
    entry = read(folder, port)
    return entry if entry.stage in ("answers", "failed") else None


def test_a_server_that_dies_is_restarted_until_down(carla: Path, folder: Path) -> None:
    (asked,) = make_records(carla)
    (first,) = up([asked], folder)
    assert (first.stage, first.server_version, first.restarts) == ("answers", "0.9.16", 0)
    status = status_of(folder)[f"localhost:{asked.port}"]
    assert status.good and status.state == "answers" and status.record == read(folder, asked.port)

    before = server_pids(first)
    assert starts(carla)[0] in before
    os.kill(starts(carla)[0], signal.SIGKILL)  # the simulator dies below its script
    second = until(lambda: restarted(folder, asked.port, 1))
    assert server_pids(second) and not set(server_pids(second)) & set(before)

    (line,) = lifecycle.down(folder, [asked.port])
    assert f"localhost:{asked.port}: ended process" in line
    assert record.read(folder, asked.port) is None and not is_watched(second)
    assert len(starts(carla)) == 2 and not any(is_running(pid) for pid in starts(carla))
    log = log_of(folder, asked.port)
    assert "died (exit code" in log and "the stand-in starts" in log


@pytest.mark.parametrize("mode", ["version-only 0.9.16", "hang", "http"])
def test_a_server_that_hangs_is_ended_and_restarted(mode: str, carla: Path, folder: Path) -> None:
    """version-only: the network thread answers, the simulation does not. Slow machines may restart it twice."""

    def record_after_a_hang(hang_s: float) -> CarlaServerRecord:
        """Stage "failed": this machine is too slow, three starts took too long."""
        (asked,) = make_records(carla, hang_s=hang_s)
        starts_before = len(starts(carla))
        (first,) = up([asked], folder)
        if first.stage == "failed":
            return first
        (carla / "mode").write_text(mode)
        until(
            lambda: (
                len(starts(carla)) > starts_before + first.restarts + 1 or read(folder, asked.port).stage == "failed"
            )
        )
        (carla / "mode").unlink()
        return until(lambda: settled(folder, asked.port))

    last = with_growing_limits(record_after_a_hang, lambda entry: entry.stage == "failed", (1.5, 6.0, 24.0))
    assert last.stage == "answers"
    assert [pid for pid in starts(carla) if is_running(pid)] == starts(carla)[-1:]
    assert "hung: no answer for" in log_of(folder, last.port)


def test_two_servers_are_ended_one_by_one(carla: Path, folder: Path) -> None:
    records = make_records(carla, 2)
    assert sorted(e.port for e in up(records, folder)) == sorted(j.port for j in records)
    lifecycle.down(folder, [records[0].port])
    left = status_of(folder)
    assert list(left) == [f"localhost:{records[1].port}"] and all(s.good for s in left.values())
    assert lifecycle.down(folder, [records[0].port]) == lifecycle.down(folder, []) == []
    with pytest.raises(Ad2Error, match="one of your servers uses it"):
        up(records, folder)
    assert len(lifecycle.down(folder)) == 1 and lifecycle.down(folder) == []


def test_a_server_that_cannot_start_fails_with_the_reason_in_its_log(carla: Path, folder: Path) -> None:
    (carla / "stillborn").touch()
    (asked,) = make_records(carla)
    (entry,) = up([asked], folder)
    assert entry.stage == "failed" and "exit code 7" in entry.reason and "3 starts without an answer" in entry.reason
    until(lambda: not is_watched(entry))
    assert "no GPU for the stand-in" in log_of(folder, asked.port)
    status = status_of(folder)[entry.server_name]
    assert status.state == "failed" and not status.good
    (carla / "stillborn").unlink()
    assert up([asked], folder)[0].stage == "answers"  # the same command, once it is fixed


def test_up_returns_after_its_wait_and_the_server_may_still_answer(carla: Path, folder: Path) -> None:
    (carla / "wait").touch()
    (asked,) = make_records(carla)
    (entry,) = up([asked], folder, wait_s=0.1)
    assert entry.stage == "starting"
    assert status_of(folder)[entry.server_name].state == "starting"
    (carla / "listen").touch()
    until(lambda: read(folder, asked.port).stage == "answers")


def test_an_interrupted_up_leaves_no_server(carla: Path, folder: Path) -> None:
    (carla / "wait").touch()

    def interrupt(answering: int, seconds: float) -> None:
        if len(starts(carla)) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lifecycle.up(make_records(carla, 2), folder, 60.0, interrupt)
    assert read_all(folder) == [] and not any(is_running(pid) for pid in starts(carla))


def test_a_foreign_process_on_a_port_is_not_touched(carla: Path, folder: Path) -> None:
    records = make_records(carla, 2)
    with socket.create_server(("127.0.0.1", records[1].port + 1)) as foreign:
        with pytest.raises(
            Ad2Error, match=rf"port {records[1].port + 1} \(streaming of the server on {records[1].port}\)"
        ):
            up(records, folder)
        assert not (carla / "starts").exists(), "nothing starts if not all can"
        assert lifecycle.down(folder) == []
        socket.create_connection(foreign.getsockname()).close()


def test_the_restart_waits_for_a_port_that_another_process_took(carla: Path, folder: Path) -> None:
    (asked,) = make_records(carla)
    (entry,) = up([asked], folder)
    (carla / "wait").touch()  # the next start would not listen by itself
    with socket.create_server(("0.0.0.0", asked.port + 2)):
        (carla / "die").touch()
        until(lambda: "in use by another process" in read(folder, asked.port).reason)
        assert status_of(folder)[entry.server_name].state == "restarting"
        assert len(starts(carla)) == 1
    (carla / "listen").touch()
    until(lambda: restarted(folder, asked.port, 1))


def test_the_server_of_a_killed_supervisor_is_found_and_ended(carla: Path, folder: Path) -> None:
    (asked,) = make_records(carla)
    (entry,) = up([asked], folder)
    kill_supervisor(entry)
    status = status_of(folder)[entry.server_name]
    assert status.state == "unwatched" and status.probe.answers and not status.good
    with pytest.raises(Ad2Error, match=rf"one of your servers uses it .*; ad2 carla down --port {asked.port}"):
        up([asked], folder)
    (line,) = lifecycle.down(folder)
    assert all(f"process {pid}" in line for pid in starts(carla))
    assert not any(is_running(pid) for pid in starts(carla)) and read_all(folder) == []


def test_a_record_whose_processes_are_gone_does_not_prevent_a_start(carla: Path, folder: Path) -> None:
    """As after a reboot: other processes may have their pids, none has the token."""
    (asked,) = make_records(carla)
    asked.model_copy(update={"stage": "answers"}).write(folder)
    assert status_of(folder)[asked.server_name].state == "gone"
    assert lifecycle.down(folder) == [f"localhost:{asked.port}: no process of it was running"]
    assert read_all(folder) == []
    asked.write(folder)
    assert up([make_record(port=asked.port, binary=asked.binary)], folder)[0].stage == "answers"


def test_a_broken_record_is_one_error_and_nothing_is_touched(carla: Path, folder: Path) -> None:
    (asked,) = make_records(carla)
    (entry,) = up([asked], folder)
    file = folder / f"{asked.port}.json"
    good = file.read_text()
    file.write_text(good.replace(entry.token, "no token"))
    for command in (
        lambda: lifecycle.down(folder),
        lambda: lifecycle.status(folder, (), 1.0),
        lambda: up([asked], folder),
    ):
        with pytest.raises(Ad2Error, match=f"{asked.port}.json: not a record"):
            command()
    assert all(is_running(pid) for pid in starts(carla))
    file.write_text(good)


def test_two_simultaneous_ups_give_one_server(carla: Path, folder: Path) -> None:
    """The second one finds the lock held: it touches neither the record nor the server."""
    (carla / "wait").touch()  # it does not listen yet, so that its ports look free
    (asked,) = make_records(carla)
    (entry,) = up([asked], folder, wait_s=0.1)
    with pytest.raises(Ad2Error, match="another supervisor is running"):
        lifecycle.supervise(make_record(port=asked.port, binary=asked.binary), folder)
    assert read(folder, asked.port).token == entry.token and is_watched(entry)


def test_sigterm_to_the_supervisor_ends_its_server(carla: Path, folder: Path) -> None:
    (asked,) = make_records(carla)
    (entry,) = up([asked], folder)
    end(entry.supervisor, 60.0)
    assert record.read(folder, asked.port) is None
    assert not any(is_running(pid) for pid in starts(carla))


def test_a_server_of_another_release_is_kept_and_reported(carla: Path, folder: Path) -> None:
    (carla / "mode").write_text("0.9.15")
    (asked,) = make_records(carla)
    (entry,) = up([asked], folder)
    assert (entry.stage, entry.server_version) == ("answers", "0.9.15")
    status = status_of(folder)[entry.server_name]
    assert status.state == "answers" and not status.good


def test_status_probes_other_servers_and_down_does_not_touch_them(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        (found,) = lifecycle.status(folder, (server,), 0.5)
        assert (found.state, found.probe.kind, found.record) == ("silent", SILENT, None)
        assert lifecycle.down(folder) == []
