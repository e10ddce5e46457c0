"""Killed at any time, the same call goes on and ends with the same dataset."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support import library_rows
from support.library_rows import items, row, store

from lmms_eval_ad2.data.home import open_dataset, verify, write_dataset, writer
from lmms_eval_ad2.data.releases import Item
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.records import Record

N = 100


def importing(home: Path, wait_at: int) -> subprocess.Popen[str]:
    """An import in a process of its own, which stands still before row `wait_at`."""
    command = [sys.executable, library_rows.__file__, str(home), str(N), str(wait_at)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_after(home: Path, parts: int) -> None:
    """Kill an import (SIGKILL) once `parts` parts are written, in the middle of the next."""
    progress = home / "data/d/.test.new/progress.json"
    with importing(home, 20 * parts + 15) as process:
        while process.poll() is None:
            if progress.is_file() and len(json.loads(progress.read_text("utf-8"))["parts"]) >= parts:
                break
            time.sleep(0.002)
        process.kill()
    assert process.returncode == -signal.SIGKILL, "the import was over before it could be killed"


def bad_rows(home: Path) -> list[str]:
    return (home / "data/d/test/bad_rows.jsonl").read_text("utf-8").splitlines()


def test_kill_9_and_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = store(tmp_path / "whole", N)
    home = tmp_path / "killed"
    for parts in (1, 3):
        kill_after(home, parts)
        with pytest.raises(Ad2Error, match="not imported"):
            open_dataset("d", "test", home=home)
    first = home / "data/d/.test.new/records-00000.parquet"
    written = first.stat().st_mtime_ns
    resumed = store(home, N)
    assert "continuing after" in caplog.text
    assert (home / "data/d/test" / first.name).stat().st_mtime_ns == written  # not written again
    for field in ("sha256", "n", "counts", "bad_rows", "left_out", "parts"):
        assert getattr(resumed, field) == getattr(whole, field), field
    assert bad_rows(home) == bad_rows(tmp_path / "whole")
    assert verify("d", "test", home=home).ok


class Crash(Exception):
    pass


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str, call: int) -> None:
    """Let the `call`-th call of the writer's `name` fail, before it does anything."""
    real, calls = getattr(writer, name), []

    def failing(*args: object) -> object:
        calls.append(1)
        if len(calls) == call:
            raise Crash
        return real(*args)

    monkeypatch.setattr(writer, name, failing)


@pytest.mark.parametrize("name", ["write_part", "atomic_write"])
@pytest.mark.parametrize("call", [1, 2, 5])
def test_a_stop_between_any_two_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int) -> None:
    whole = store(tmp_path / "whole", N)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        crash_at(patched, name, call)
        store(tmp_path / "stopped", N)
    resumed = store(tmp_path / "stopped", N)
    assert (resumed.sha256, resumed.bad_rows, resumed.parts) == (whole.sha256, whole.bad_rows, whole.parts)
    assert bad_rows(tmp_path / "stopped") == bad_rows(tmp_path / "whole")


def interrupted(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as patched, pytest.raises(Crash):
        crash_at(patched, "write_part", 4)
        store(home, N)
    return home / "data/d/.test.new"


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"source": {"release": "other"}}, "another source"), ({"part_size": 30}, "other arguments")],
)
def test_other_arguments_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, changes: dict, message: str
) -> None:
    interrupted(tmp_path, monkeypatch)
    assert store(tmp_path, N, **changes).n == N
    assert message in caplog.text
    assert "starting again" in caplog.text


@pytest.mark.parametrize("damage", ["part", "missing", "progress"])
def test_damaged_progress_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    folder = interrupted(tmp_path, monkeypatch)
    part = folder / "records-00001.parquet"
    if damage == "part":
        part.write_bytes(part.read_bytes()[:-1] + b"x")
    elif damage == "missing":
        part.unlink()
    else:
        (folder / "progress.json").write_text("{")
    assert store(tmp_path, N).sha256 == store(tmp_path / "whole", N).sha256
    assert "starting again" in caplog.text


@pytest.mark.parametrize("changed", [[row(0, task="other"), *list(items(N))[1:]], list(items(N))[:10]])
def test_a_source_that_changed_unseen_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: list
) -> None:
    interrupted(tmp_path, monkeypatch)
    with pytest.raises(Ad2Error, match="run the same command again"):
        rewrite(tmp_path, changed)
    assert rewrite(tmp_path, changed) == sum(isinstance(item, Record) for item in changed)


def rewrite(home: Path, items: list[Item]) -> int:
    """As `store` does, with other items; gives the number of records."""
    arguments: dict[str, Any] = {"image_root": home, "source": library_rows.SOURCE, "skip_bad": True, "part_size": 20}
    return write_dataset("d", "test", items, home=home, **arguments).n


def test_two_imports_at_a_time_give_one_dataset(tmp_path: Path) -> None:
    """Each stands still once in its rows: the one at work goes on when the other has said that it waits."""
    with importing(tmp_path, 50) as one, importing(tmp_path, 50) as other:
        ready, _, _ = select.select([one.stderr, other.stderr], [], [])
        waiting, working = (one, other) if ready[0] is one.stderr else (other, one)
        assert waiting.stderr is not None and "waiting for it" in waiting.stderr.readline()
        said = [process.communicate("go on\n")[1] for process in (working, waiting)]
    assert [one.returncode, other.returncode] == [0, 0]
    assert "waiting for it" not in "".join(said)
    assert verify("d", "test", home=tmp_path).ok
