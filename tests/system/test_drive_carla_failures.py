"""Servers that die, hang, babble or never were there; and an `ad2` that is killed. Each in its own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fake_carla
import pytest
from fake_carla.server import state_of
from support.carla.fleet import TESTS, Fleet, as_worker, at, drive, fleet, is_silent, left_alone, records, towns, until
from support.closedloop.time_limits import speed_up_clock

SHORT = ("--routes-ids", "102,101", "--no-traffic")
IN_AN_EPISODE = 60  # ticks: the shortest episode has over 200


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return towns(tmp_path_factory.mktemp("towns"))


@pytest.fixture
def servers(tmp_path: Path, maps: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    as_worker(monkeypatch, maps)
    with fleet(tmp_path / "servers") as made:
        yield made


def assert_whole(out: Path, retries: int) -> None:
    """Every episode once, driven to its end; so many were tried again."""
    found = records(out)
    assert [(r["route_id"], r["end"]) for r in found] == [("101", "completed"), ("102", "completed")]
    assert sum(r["counts"].get("retries", 0) for r in found) == retries


def test_an_episode_whose_server_dies_is_driven_on_another(
    servers: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = servers.start("--die-after", str(IN_AN_EPISODE)), servers.start()
    assert drive(tmp_path / "out", (bad, good), *SHORT, "--server-wait", 5) == 0
    assert_whole(tmp_path / "out", retries=1)
    assert servers.processes[bad].wait() == 3
    assert left_alone(good)
    assert f"127.0.0.1:{bad}: " in capsys.readouterr().out


def test_a_server_that_is_started_again_on_its_port_goes_on(servers: Fleet, tmp_path: Path) -> None:
    port = servers.start("--die-after", str(IN_AN_EPISODE))
    again = servers.restart_when_dead(port)
    assert drive(tmp_path / "out", (port,), *SHORT) == 0
    again.join()
    assert_whole(tmp_path / "out", retries=1)
    assert state_of(port)["ticks"] > 400 and left_alone(port)


def test_a_server_that_hangs_is_left_for_another(
    servers: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = servers.start("--hang-after", str(IN_AN_EPISODE)), servers.start()
    lines = tmp_path / "out/episodes.jsonl"
    speed_up_clock(monkeypatch, lambda: lines.exists() and lines.read_bytes().count(b"\n") == 1 and is_silent(bad))
    assert drive(tmp_path / "out", (bad, good), *SHORT, "--world-timeout", 500, "--server-wait", 5) == 0
    assert_whole(tmp_path / "out", retries=1)
    assert f"127.0.0.1:{bad}: hung: no sign of life for 500 s" in capsys.readouterr().out
    assert left_alone(good)


def test_a_server_that_answers_nonsense_kills_only_its_own_client(
    servers: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = servers.start("--garbage-after", str(IN_AN_EPISODE)), servers.start()
    assert drive(tmp_path / "out", (bad, good), *SHORT) == 0
    assert_whole(tmp_path / "out", retries=1)
    said = capsys.readouterr().out
    assert f"127.0.0.1:{bad}: the world process died (signal 6)" in said
    assert left_alone(good)


def test_a_server_that_never_was_there_is_told_and_done_without(
    servers: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, dead = servers.start(), 1
    assert drive(tmp_path / "out", (dead, good), *SHORT, "--server-wait", 5) == 0
    assert_whole(tmp_path / "out", retries=0)
    # Two episodes may end sooner than the wait for the server: then its absence is reported at the end of the run.
    reasons = ("no CARLA server answers (ad2 carla up)", "not ready when the last episode ended")
    printed = capsys.readouterr().out
    assert any(f"127.0.0.1:1: {reason}" in printed for reason in reasons)
    assert left_alone(good)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_run_goes_on_and_its_server_is_of_use_again(servers: Fleet, tmp_path: Path, maps: Path) -> None:
    port = servers.start()
    process, out = held_in_its_second(servers, port, tmp_path, maps)
    children = (Path("/proc") / str(process.pid) / "task" / str(process.pid) / "children").read_text().split()
    process.kill()
    process.wait()
    until(lambda: not any(alive(pid) for pid in children))
    servers.fail(port)
    first = records(out)
    assert [r["route_id"] for r in first] == ["102"]
    left = state_of(port)
    assert left["synchronous"] and left["actors"]
    assert drive(out, (port,), *SHORT) == 0
    assert_whole(out, retries=0)
    assert first[0] in records(out)
    assert left_alone(port)


def held_in_its_second(servers: Fleet, port: int, folder: Path, maps: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """A run whose server hangs in the middle of its second episode, and its folder."""
    for n in range(5):
        out = folder / f"out{n}"
        process, lines = killed_later(out, port, maps), out / "episodes.jsonl"
        until(lambda lines=lines: lines.exists() and lines.read_bytes().count(b"\n"))
        servers.fail(port, hang_after=state_of(port)["ticks"] + IN_AN_EPISODE)
        until(lambda process=process: is_silent(port) or process.poll() is not None)
        if process.poll() is None:
            return process, out
        print(f"this machine stood still while the run went on to its end: {lines.read_text()[:200]}")
        servers.fail(port)
    raise AssertionError("every run ended before it could be held")


def killed_later(out: Path, port: int, maps: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lmms_eval_ad2.cli.main", "drive", "run", "--world", "carla"]
    words = ["--suite", "demo", *SHORT, "--agent", "expert", "--servers", at(port), "--out", str(out)]
    path = os.pathsep.join(p for p in (str(fake_carla.SITE), str(TESTS), *sys.path) if p)
    env = {**os.environ, "FAKE_CARLA_MAPS": str(maps), "PYTHONPATH": path}
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*command, *words], env=env, stdout=quiet, stderr=quiet)


def alive(pid: str) -> bool:
    try:
        return (Path("/proc") / pid / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
