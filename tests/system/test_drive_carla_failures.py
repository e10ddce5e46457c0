"""Servers that die, hang, answer nonsense or are missing, and a killed `ad2`. All in separate processes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fake_carla
import pytest
from fake_carla.server import state_of
from support.carla.fleet import (
    TESTS,
    Fleet,
    at,
    drive,
    fleet,
    is_idle,
    is_silent,
    records,
    towns,
    until,
    use_fake_carla,
)
from support.closedloop.time_limits import speed_up_clock
from support.tiers import seeds

SHORT = ("--routes-ids", "102,101", "--config", "no_traffic=true")
Recorder = Callable[[str, object], None]  # of the fixture record_property


def random_tick(seed: int) -> int:
    """A tick within the first episode: at 10 Hz the shortest has over 100."""
    return random.Random(seed).randint(10, 95)


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return towns(tmp_path_factory.mktemp("towns"))


@pytest.fixture
def servers(tmp_path: Path, maps: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    use_fake_carla(monkeypatch, maps)
    with fleet(tmp_path / "servers") as started:
        yield started


def assert_complete(out: Path, retries: int) -> None:
    """Check that every episode was completed once, with this number of retries."""
    found = records(out)
    assert [(r["route_id"], r["end"]) for r in found] == [("101", "completed"), ("102", "completed")]
    assert sum(r["counts"].get("retries", 0) for r in found) == retries


@pytest.mark.parametrize("seed", seeds(10))
def test_an_episode_whose_server_dies_is_driven_on_another(
    servers: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str], record_property: Recorder, seed: int
) -> None:
    bad, good = servers.start("--die-after", str(random_tick(seed))), servers.start()
    assert drive(tmp_path / "out", (bad, good), *SHORT, "--config", "server_wait=5") == 0
    assert_complete(tmp_path / "out", retries=1)
    assert servers.processes[bad].wait() == 3
    assert is_idle(good)
    assert f"127.0.0.1:{bad}: " in capsys.readouterr().out
    record_property("deaths of a server", 1)


@pytest.mark.parametrize("seed", seeds(10))
def test_a_server_that_is_restarted_on_its_port_is_used_again(
    servers: Fleet, tmp_path: Path, record_property: Recorder, seed: int
) -> None:
    port = servers.start("--die-after", str(random_tick(seed)))
    restart = servers.restart_when_dead(port)
    assert drive(tmp_path / "out", (port,), *SHORT) == 0
    restart.join()
    assert_complete(tmp_path / "out", retries=1)
    assert state_of(port)["ticks"] > 200 and is_idle(port)  # two episodes at 10 Hz
    record_property("deaths of a server", 1)


@pytest.mark.parametrize("seed", seeds(10))
def test_an_episode_whose_server_hangs_is_driven_on_another(
    servers: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    bad, good = servers.start("--hang-after", str(random_tick(seed))), servers.start()
    lines = tmp_path / "out/episodes.jsonl"
    speed_up_clock(monkeypatch, lambda: lines.exists() and lines.read_bytes().count(b"\n") == 1 and is_silent(bad))
    assert (
        drive(tmp_path / "out", (bad, good), *SHORT, "--config", "world_timeout=500", "--config", "server_wait=5") == 0
    )
    assert_complete(tmp_path / "out", retries=1)
    assert f"127.0.0.1:{bad}: hung: no sign of life for 500 s" in capsys.readouterr().out
    assert is_idle(good)


@pytest.mark.parametrize("seed", seeds(10))
def test_a_server_that_answers_nonsense_kills_only_its_own_worker(
    servers: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    bad, good = servers.start("--garbage-after", str(random_tick(seed))), servers.start()
    assert drive(tmp_path / "out", (bad, good), *SHORT) == 0
    assert_complete(tmp_path / "out", retries=1)
    output = capsys.readouterr().out
    assert f"127.0.0.1:{bad}: the world process died (signal 6)" in output
    assert is_idle(good)


def test_a_missing_server_is_reported_and_the_other_drives_all_episodes(
    servers: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, dead = servers.start(), 1
    assert drive(tmp_path / "out", (dead, good), *SHORT, "--config", "server_wait=5") == 0
    assert_complete(tmp_path / "out", retries=0)
    # Two episodes may end sooner than the wait for the server: then its absence is reported at the end of the run.
    reasons = ("no CARLA server answers (ad2 carla up)", "not ready when the last episode ended")
    printed = capsys.readouterr().out
    assert any(f"127.0.0.1:1: {reason}" in printed for reason in reasons)
    assert is_idle(good)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("seed", seeds(10))
def test_a_killed_run_resumes_on_the_same_server(
    servers: Fleet, tmp_path: Path, maps: Path, record_property: Recorder, seed: int
) -> None:
    port = servers.start()
    process, out = run_held_in_second_episode(servers, port, tmp_path, maps, random_tick(seed))
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
    assert_complete(out, retries=0)
    assert first[0] in records(out)
    assert is_idle(port)
    record_property("kills", 1)


def run_held_in_second_episode(
    servers: Fleet, port: int, folder: Path, maps: Path, tick: int
) -> tuple[subprocess.Popen[bytes], Path]:
    """A run whose server hangs `tick` ticks later, in its second episode, and its folder."""
    for n in range(5):
        out = folder / f"out{n}"
        process, lines = start_run(out, port, maps), out / "episodes.jsonl"
        until(lambda lines=lines: lines.exists() and lines.read_bytes().count(b"\n"))
        servers.fail(port, hang_after=state_of(port)["ticks"] + tick)
        until(lambda process=process: is_silent(port) or process.poll() is not None)
        if process.poll() is None:
            return process, out
        print(f"this machine stood still while the run went on to its end: {lines.read_text()[:200]}")
        servers.fail(port)
    raise AssertionError("every run ended before it could be held")


def start_run(out: Path, port: int, maps: Path) -> subprocess.Popen[bytes]:
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
