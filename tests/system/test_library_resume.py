"""An import that is killed at any time resumes, and gives the same dataset."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import library_rows
from support.library_rows import items, row, store
from support.tiers import seeds

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import import_release, open_dataset, verify, write_dataset, writer
from lmms_eval_ad2.data.releases import Item

N = 100
MANY = 1000  # rows of an import that is killed, 20 in each part


def importing(home: Path, n: int, wait_at: int) -> subprocess.Popen[str]:
    """An import of `n` rows in a separate process, which pauses before row `wait_at`."""
    command = [sys.executable, library_rows.__file__, str(home), str(n), str(wait_at)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def parts_in(progress: Path) -> int:
    """Number of parts that are written, by progress.json."""
    return len(json.loads(progress.read_text("utf-8"))["parts"]) if progress.is_file() else 0


def kill_after(home: Path, parts: int, pause_s: float) -> None:
    """Kill an import (SIGKILL) `pause_s` after `parts` parts are written; it pauses before the last row."""
    progress = home / "data/d/.test.new/progress.json"
    with importing(home, MANY, MANY - 1) as process:
        while process.poll() is None and parts_in(progress) < parts:
            time.sleep(0.002)
        time.sleep(pause_s)
        process.kill()
    assert process.returncode == -signal.SIGKILL, "the import was over before it could be killed"


def bad_rows(home: Path) -> list[str]:
    return (home / "data/d/test/bad_rows.jsonl").read_text("utf-8").splitlines()


@pytest.mark.parametrize("seed", seeds(40))
def test_a_killed_import_resumes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, record_property: Callable[[str, object], None], seed: int
) -> None:
    complete = store(tmp_path / "whole", MANY)
    home, dice, kills, target = tmp_path / "killed", random.Random(seed), 1 + seed % 3, 0
    written: dict[str, int] = {}
    for _ in range(kills):
        target = min(target + dice.randint(0, 20), MANY // 20 - 1)
        kill_after(home, target, dice.uniform(0, 0.01 if target else 1.0))
        with pytest.raises(Ad2Error, match="not imported"):
            open_dataset("d", "test", home=home)
        there = modified(home / "data/d/.test.new")
        assert written.items() <= there.items(), "parts are not written again"
        written = {name: there[name] for name in sorted(there)[: parts_in(home / "data/d/.test.new/progress.json")]}
    resumed = store(home, MANY)
    assert ("continuing after" in caplog.text) == bool(written)
    assert written.items() <= modified(home / "data/d/test").items()
    for field in ("sha256", "n", "counts", "bad_rows", "left_out", "parts"):
        assert getattr(resumed, field) == getattr(complete, field), field
    assert bad_rows(home) == bad_rows(tmp_path / "whole")
    assert verify("d", "test", home=home).ok
    record_property("kills", kills)
    record_property("parts kept", len(written))


def modified(folder: Path) -> dict[str, int]:
    """Modification times of the parts in `folder`."""
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("records-*.parquet")}


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
def test_an_import_resumes_after_a_crash_at_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    complete = store(tmp_path / "whole", N)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        crash_at(patched, name, call)
        store(tmp_path / "stopped", N)
    resumed = store(tmp_path / "stopped", N)
    assert (resumed.sha256, resumed.bad_rows, resumed.parts) == (complete.sha256, complete.bad_rows, complete.parts)
    assert bad_rows(tmp_path / "stopped") == bad_rows(tmp_path / "whole")


def test_an_import_that_is_killed_after_its_last_rename_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its progress nor the dataset that it has replaced."""
    rows = tmp_path / "rows.jsonl"
    for question in ("Where?", "How many?"):
        fields = {"id": "1", "image": "a.jpg", "dimension": "relation", "subtask": "spatial", "form": "vqa"}
        rows.write_text(json.dumps({**fields, "question": question, "answer": "two"}))
        with monkeypatch.context() as patched, pytest.raises(Crash):
            crash_at(patched, "remove_traces", 1)
            import_release("ad2_bench", rows, home=tmp_path, partial=True)
    folder = tmp_path / "data/ad2_bench"
    assert (folder / "test/progress.json").exists() and (folder / ".test.old").exists()
    import_release("ad2_bench", rows, home=tmp_path, partial=True)
    assert sorted(file.name for file in (folder / "test").iterdir()) == ["manifest.json", "records-00000.parquet"]
    assert not (folder / ".test.old").exists()
    assert next(open_dataset("ad2_bench", "test", home=tmp_path).records()).question.en == "How many?"


def interrupted(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as patched, pytest.raises(Crash):
        crash_at(patched, "write_part", 4)
        store(home, N)
    return home / "data/d/.test.new"


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"source": {"release": "other"}}, "another source"), ({"part_size": 30}, "other arguments")],
)
def test_other_arguments_restart_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, changes: dict, message: str
) -> None:
    interrupted(tmp_path, monkeypatch)
    assert store(tmp_path, N, **changes).n == N
    assert message in caplog.text
    assert "starting again" in caplog.text


@pytest.mark.parametrize("damage", ["part", "missing", "progress"])
def test_damaged_progress_restarts_the_import(
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
def test_a_changed_source_is_detected_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: list) -> None:
    interrupted(tmp_path, monkeypatch)
    with pytest.raises(Ad2Error, match="run the same command again"):
        rewrite(tmp_path, changed)
    assert rewrite(tmp_path, changed) == sum(isinstance(item, Record) for item in changed)


def rewrite(home: Path, items: list[Item]) -> int:
    """Like `store`, with other items; returns the number of records."""
    arguments: dict[str, Any] = {"image_root": home, "source": library_rows.SOURCE, "skip_bad": True, "part_size": 20}
    return write_dataset("d", "test", items, home=home, **arguments).n


def test_two_simultaneous_imports_give_one_dataset(tmp_path: Path) -> None:
    """Each pauses once in its rows: the working one continues when the other has reported that it waits."""
    with importing(tmp_path, N, 50) as one, importing(tmp_path, N, 50) as other:
        ready, _, _ = select.select([one.stderr, other.stderr], [], [])
        waiting, working = (one, other) if ready[0] is one.stderr else (other, one)
        assert waiting.stderr is not None and "waiting for it" in waiting.stderr.readline()
        errors = [process.communicate("go on\n")[1] for process in (working, waiting)]
    assert [one.returncode, other.returncode] == [0, 0]
    assert "waiting for it" not in "".join(errors)
    assert verify("d", "test", home=tmp_path).ok
