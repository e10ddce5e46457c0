"""Locks: one process at a time writes to a folder."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage import lock
from lmms_eval_ad2.storage.lock import lock_folder, lock_in_turn, try_lock, unlock, wait_for_lock

LOCK = "import sys, pathlib; from lmms_eval_ad2.storage.lock import lock_folder; "
HOLD = LOCK + "held = lock_folder(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the folder's lock until its standard input is closed."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system such as Lustre without the mount option flock."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(lock.fcntl, "flock", flock)


@pytest.mark.integration
def test_another_process_is_refused_until_the_lock_is_closed(tmp_path: Path) -> None:
    other = [sys.executable, "-c", LOCK + "lock_folder(pathlib.Path(sys.argv[1]))", str(tmp_path / "new" / "out")]
    with lock_folder(tmp_path / "new" / "out"):
        refused = subprocess.run(other, capture_output=True, text=True, timeout=60)
        assert refused.returncode and "another process" in refused.stderr
    assert subprocess.run(other, timeout=60).returncode == 0


@pytest.mark.integration
def test_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(Ad2Error, match="another process is writing to this folder"):
            lock_folder(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        lock_folder(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_second_writer_of_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(Ad2Error, match="another process is writing to this folder"):
        lock_folder(tmp_path)
    lock_folder(tmp_path).close()


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(Ad2Error, match="is a file; a folder is needed"):
        lock_folder(tmp_path / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(Ad2Error, match="fix its permissions"):
            lock_folder(tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)


def test_a_file_system_without_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(monkeypatch)
    with pytest.raises(Ad2Error, match=r"cannot be locked \(Function not implemented\)"):
        lock_folder(tmp_path)


def test_full_disk_error_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space left"):
        lock_folder(tmp_path)


def test_an_open_file_is_locked_and_unlocked(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("kept")
    with path.open("ab") as one, path.open("ab") as two:
        assert try_lock(one) and not try_lock(two)
        unlock(one)
        wait_for_lock(two)
        assert not try_lock(one)
    assert path.read_text() == "kept"


def test_second_user_of_a_lock_waits_and_is_notified(tmp_path: Path) -> None:
    path, order = tmp_path / ".lock", []
    inside, may_finish = threading.Event(), threading.Event()

    def first() -> None:
        with lock_in_turn(path) as waited:
            order.append(f"first, waited {waited}")
            inside.set()
            assert may_finish.wait(60)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)

    def busy() -> None:
        order.append("busy")
        may_finish.set()

    with lock_in_turn(path, busy) as waited:
        order.append(f"second, waited {waited}")
    thread.join()
    assert order == ["first, waited False", "busy", "second, waited True"]
