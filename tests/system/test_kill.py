"""kill -9 of the parent or of a world at any moment loses at most the episodes in flight."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.closedloop import runs
from support.closedloop.runs import comparable, run_into, tasks, worker_config
from support.tiers import seeds

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.decision_files import decision_file, read_decisions
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.store import read_records

COMPLETED = 10  # episodes; the two others are held


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The records of the same run, undisturbed."""
    return comparable(run_into(tmp_path_factory.mktemp("quiet"), tasks(2), worker_config()))


def start_run(folder: Path) -> subprocess.Popen[bytes]:
    """Start a run that does not end before `hold(folder)` is removed."""
    hold(folder).touch()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([p for p in sys.path if p])}
    return subprocess.Popen([sys.executable, runs.__file__, folder], env=environment)


def hold(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.hold")


def worlds_of(parent: int) -> list[int]:
    """World processes of one parent, read from /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if b"closedloop_plugin.runner" in line and line[-2] == str(parent).encode() and state != "Z":
                found.append(int(entry.name))
    return found


def decisions(folder: Path, record: EpisodeRecord) -> int:
    """Number of kept decisions of an episode, without repetition."""
    return len({one.tick for one in read_decisions(decision_file(folder, f"{record.route_id}_rep{record.repetition}"))})


def wait_for(condition: object, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def kill_parent(folder: Path, lines: int, pause_s: float) -> None:
    """Start the run, kill it `pause_s` after `lines` episodes are stored (0: after its start), wait for its worlds."""
    process = start_run(folder)
    episodes = folder / "episodes.jsonl"
    assert lines == 0 or wait_for(lambda: episodes.exists() and episodes.read_bytes().count(b"\n") >= lines)
    time.sleep(pause_s)
    assert process.poll() is None, "the run ended before it could be killed"
    process.kill()
    process.wait()
    assert wait_for(lambda: not worlds_of(process.pid)), "its worlds did not end with it"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("seed", seeds(50))
def test_a_run_that_is_killed_again_and_again_ends_with_the_records_of_an_undisturbed_one(
    tmp_path: Path, undisturbed: list[dict[str, object]], record_property: Callable[[str, object], None], seed: int
) -> None:
    folder, rng, kills = tmp_path / "run", random.Random(seed), 0
    before: list[EpisodeRecord] = []
    for _ in range(rng.randint(1, 4)):
        lines = min(len(before) + rng.randint(0, 3), COMPLETED)
        kill_parent(folder, lines, rng.uniform(0, 0.3 if lines else 1.5))
        kills += 1
        now = read_records(folder) if folder.exists() else []
        assert now[: len(before)] == before and len(now) < len(undisturbed)
        for record in now:  # a record is written after its files
            key = f"{record.route_id}_rep{record.repetition}"
            json.loads((folder / "metric_info" / f"{key}.json").read_text())
            assert decisions(folder, record) == record.counts["decisions"]
        before = now
    resumed = run_into(folder, tasks(2), worker_config())
    assert comparable(resumed) == undisturbed
    assert len(read_records(folder)) == len(resumed) == 12
    assert read_records(folder)[: len(before)] == before
    assert [decisions(folder, record) for record in resumed] == [r.counts["decisions"] for r in resumed]
    assert len(list((folder / "decisions").iterdir())) == 12  # no leftovers
    record_property("kills", kills)
    record_property("episodes stored before the last kill", len(before))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("seed", seeds(20))
def test_killed_worlds_are_replaced_and_the_records_are_the_same(
    tmp_path: Path, undisturbed: list[dict[str, object]], record_property: Callable[[str, object], None], seed: int
) -> None:
    folder = tmp_path / "run"
    process, rng, killed = start_run(folder), random.Random(seed), 0
    assert wait_for((folder / "metric_info").exists)
    while process.poll() is None and killed < PoolLimits.retries:  # one more kill may fail an episode
        time.sleep(rng.uniform(0.1, 0.5))
        for pid in worlds_of(process.pid)[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                continue
        if killed:
            hold(folder).unlink(missing_ok=True)
    assert process.wait() == 0
    records = read_records(folder)
    assert killed
    assert comparable(records) == undisturbed
    assert [decisions(folder, record) for record in records] == [r.counts["decisions"] for r in records]
    record_property("killed worlds", killed)


def test_ctrl_c_ends_worlds_and_keeps_finished_episodes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start_run(folder)
    episodes = folder / "episodes.jsonl"
    assert wait_for(lambda: episodes.exists() and episodes.read_bytes().count(b"\n") >= 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    assert not worlds_of(process.pid)
    assert (folder / "results.json").exists()
    assert 1 <= len(read_records(folder)) < 12
