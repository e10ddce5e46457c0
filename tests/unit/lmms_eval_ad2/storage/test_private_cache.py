"""PrivateCache reads only what this user alone could have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmms_eval_ad2.storage.private_cache import PrivateCache


@pytest.fixture
def cache(tmp_path: Path) -> PrivateCache:
    cache = PrivateCache(tmp_path / "home" / "cache", most=3)
    cache.write("a", b"first")
    return cache


def test_an_entry_is_read_and_replaced(cache: PrivateCache) -> None:
    assert cache.read("a") == b"first" and cache.read("b") is None
    cache.write("a", b"second")
    assert cache.read("a") == b"second"
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert PrivateCache(cache.folder / "none", 3).read("a") is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o702])
def test_a_folder_that_others_may_enter_is_not_used(cache: PrivateCache, mode: int) -> None:
    cache.folder.chmod(mode)
    assert cache.read("a") is None
    cache.write("b", b"more")
    assert not (cache.folder / "b").exists()


def test_a_folder_or_entry_of_another_user_is_not_used(cache: PrivateCache, monkeypatch: pytest.MonkeyPatch) -> None:
    real, mine = os.fstat, os.geteuid()
    for which in (0, 1):  # the folder, then the entry
        owners = [mine, mine]
        owners[which] = mine + 1
        answers = iter(owners)

        def fstat(descriptor: int, answers: object = answers) -> os.stat_result:
            values = list(real(descriptor))
            values[4] = next(answers)  # type: ignore[call-overload]
            return os.stat_result(values)

        monkeypatch.setattr("lmms_eval_ad2.storage.private_cache.os.fstat", fstat)
        assert cache.read("a") is None
        monkeypatch.undo()
    assert cache.read("a") == b"first"


def test_links_and_special_files_are_not_entries(cache: PrivateCache, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"planted")
    (cache.folder / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(cache.folder / "pipe")
    (cache.folder / "folder").mkdir()
    assert [cache.read(name) for name in ("link", "pipe", "folder")] == [None] * 3
    linked = tmp_path / "linked"
    linked.symlink_to(cache.folder)
    assert PrivateCache(linked, 3).read("a") is None


def test_the_oldest_entries_are_deleted(cache: PrivateCache) -> None:
    for age, name in enumerate("bcd"):
        cache.write(name, b"")
        os.utime(cache.folder / name, (age, age))
    cache.write("e", b"")
    assert sorted(entry.name for entry in cache.folder.iterdir()) == ["a", "d", "e"]


def test_a_failure_to_write_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    PrivateCache(tmp_path / "file" / "cache", 3).write("a", b"x")
