"""kill -9 of the parent or of a world at any moment loses at most the episodes in flight."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.closedloop import runs
from support.closedloop.runs import essence, plan, run_into, tasks

from closedloop_plugin.runner.store import read_records


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The records of the same run, undisturbed."""
    return essence(run_into(tmp_path_factory.mktemp("quiet"), tasks(2), plan()))


def started(folder: Path) -> subprocess.Popen[bytes]:
    """It does not end before `hold(folder)` is removed."""
    hold(folder).touch()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([p for p in sys.path if p])}
    return subprocess.Popen([sys.executable, runs.__file__, folder], env=environment)


def hold(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.hold")


def worlds_of(parent: int) -> list[int]:
    """World processes of one parent, by /proc: (pid, name, state, ppid ...)."""
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


def wait_for(what: object, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("lines", [0, 3])
def test_a_killed_parent_takes_its_worlds_along_and_the_same_run_goes_on(
    tmp_path: Path, quiet: list[dict[str, object]], lines: int
) -> None:
    folder, pause = tmp_path / "run", random.Random(lines).uniform(0, 0.3)
    process = started(folder)
    episodes = folder / "episodes.jsonl"
    assert wait_for(lambda: len(worlds_of(process.pid)) == 2)
    assert wait_for(lambda: episodes.exists() and episodes.read_bytes().count(b"\n") >= lines)
    time.sleep(pause)
    process.kill()
    process.wait()
    assert wait_for(lambda: not worlds_of(process.pid))
    before = read_records(folder)
    assert len(before) < 12
    for record in before:  # a line implies its files
        json.loads((folder / "metric_info" / f"{record.route_id}_rep{record.repetition}.json").read_text())
    resumed = run_into(folder, tasks(2), plan())
    assert essence(resumed) == quiet
    assert len(read_records(folder)) == len(resumed) == 12
    assert read_records(folder)[: len(before)] == before


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_killed_worlds_are_replaced_and_the_run_is_none_the_worse(
    tmp_path: Path, quiet: list[dict[str, object]]
) -> None:
    folder = tmp_path / "run"
    process, dice, killed = started(folder), random.Random(7), 0
    assert wait_for((folder / "metric_info").exists)
    while process.poll() is None and killed < 3:
        time.sleep(dice.uniform(0.1, 0.5))
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
    assert essence(records) == quiet


def test_ctrl_c_ends_worlds_and_keeps_what_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = started(folder)
    episodes = folder / "episodes.jsonl"
    assert wait_for(lambda: episodes.exists() and episodes.read_bytes().count(b"\n") >= 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) != 0
    assert not worlds_of(process.pid)
    assert (folder / "results.json").exists()
    assert 1 <= len(read_records(folder)) < 12
