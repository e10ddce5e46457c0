"""Atomic files: complete, or unchanged."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.disk import files_of_at_most

from lmms_eval_ad2.storage import files
from lmms_eval_ad2.storage.files import (
    DISK_FULL,
    atomic_path,
    atomic_write,
    atomic_write_bytes,
    atomic_write_json,
    file_sha256,
    remove_abandoned,
    remove_leftovers,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 21) + 3])
def test_sha256_of_a_file_of_any_number_of_chunks(size: int, tmp_path: Path) -> None:
    content = bytes(i % 251 for i in range(size))
    (tmp_path / "a").write_bytes(content)
    assert file_sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with atomic_write(path) as handle:
        handle.write("é")
        assert not path.exists()
    assert path.read_text("utf-8") == "é"
    assert names(path.parent) == ["a.txt"]


def test_failure_keeps_the_previous_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ValueError, match="boom"), atomic_write(path) as handle:
        handle.write("half")
        raise ValueError("boom")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_full_disk_keeps_the_previous_content(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(OSError) as caught, files_of_at_most(10_000):
        atomic_write_bytes(path, bytes(20_000))
    assert caught.value.errno in DISK_FULL
    assert path.read_bytes() == b"old" and names(tmp_path) == ["a.bin"]
    atomic_write_bytes(path, bytes(20_000))
    assert path.read_bytes() == bytes(20_000)


def test_json_is_indented_utf_8_with_a_line_end(tmp_path: Path) -> None:
    value = {"ä": [1, None], "b": {"c": 0.1}}
    atomic_write_json(tmp_path / "a.json", value)
    assert (tmp_path / "a.json").read_text("utf-8") == json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    with pytest.raises(UnicodeEncodeError):
        atomic_write_json(tmp_path / "b.json", "\ud800")
    atomic_write_json(tmp_path / "b.json", "\ud800", errors="backslashreplace")
    assert (tmp_path / "b.json").read_text("utf-8") == '"\\ud800"\n'


def test_atomic_path_replaces_the_file_written_by_a_library(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.bin"
    with atomic_path(path) as temporary:
        assert temporary.parent == path.parent and not temporary.exists()
        temporary.write_bytes(b"x")
        assert not path.exists()
    assert path.read_bytes() == b"x" and names(path.parent) == ["a.bin"]
    with pytest.raises(FileNotFoundError), atomic_path(path):
        pass  # nothing was written: the file must not be replaced
    assert path.read_bytes() == b"x" and names(path.parent) == ["a.bin"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_write_bytes(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_content_is_synced_before_the_rename_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    real = os.fsync

    def fsync(number: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file"
        seen.append(re.sub(r"-[0-9a-f]{8}\.", "-RANDOM.", f"{kind} {names(tmp_path)}"))
        real(number)

    monkeypatch.setattr(files.os, "fsync", fsync)
    atomic_write_bytes(tmp_path / "a", b"x")
    atomic_write_bytes(tmp_path / "b", b"x", durable=False)
    assert seen == [
        f"file ['.a.{os.getpid()}-RANDOM.tmp']",
        "folder ['a']",
        f"file ['.b.{os.getpid()}-RANDOM.tmp', 'a']",
    ]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_a_file_system_that_cannot_sync_folders_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real = os.fsync

    def fsync(number: int) -> None:
        if stat.S_ISDIR(os.fstat(number).st_mode):
            raise OSError(code, os.strerror(code))
        real(number)

    monkeypatch.setattr(files.os, "fsync", fsync)
    if code == errno.EIO:  # a faulty disk is not a missing feature
        with pytest.raises(OSError, match=os.strerror(code)):
            atomic_write_bytes(tmp_path / "a", b"x")
    else:
        atomic_write_bytes(tmp_path / "a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    for name in (".a.json.1.tmp", ".b.2.tmp", "a.json", ".lock", "c.tmp"):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".lock", "a.json", "c.tmp"]


@pytest.mark.integration
def test_temporary_files_of_one_path_differ_and_those_of_dead_writers_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, path = ended.pid, tmp_path / "a[1].json"
    gone = (f".a[1].json.{dead}.tmp", f".a[1].json.{dead}-0123abcd.tmp")
    kept = (  # of a running process, of other files, of another program
        f".a[1].json.{os.getppid()}-0123abcd.tmp",
        f".a1.json.{dead}.tmp",
        f".b.json.{dead}.tmp",
        ".a[1].json.x.tmp",
    )
    for name in gone + kept:
        (tmp_path / name).write_text("")
    with atomic_write(path) as first, atomic_write(path) as second:
        first.write("1")
        second.write("2")
    assert path.read_text() == "1" and names(tmp_path) == sorted([path.name, *kept])
    remove_abandoned(tmp_path)
    assert names(tmp_path) == sorted([path.name, kept[0], kept[3]])


def test_threads_may_write_the_same_path(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: atomic_write_bytes(tmp_path / "a", bytes([n]) * 100), range(200)))
    assert len(set((tmp_path / "a").read_bytes())) == 1 and names(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_device_is_not_replaced(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "pipe":
        os.mkfifo(target)
    else:
        target.symlink_to(os.devnull)
    with pytest.raises(OSError, match="not a regular file"), atomic_write(target) as handle:
        handle.write("x")
    assert not target.is_file() and [path.name for path in tmp_path.iterdir()] == ["target"]
