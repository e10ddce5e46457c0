"""A file is there whole, or as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.files import append_whole, whole_file


def test_the_content_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with whole_file(path) as handle:
        handle.write("é")
        assert not path.exists()
    assert path.read_text("utf-8") == "é"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ValueError, match="boom"), whole_file(path) as handle:
        handle.write("half")
        raise ValueError("boom")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_line_that_could_not_be_synced_is_taken_back(tmp_path: Path) -> None:
    def full() -> None:
        raise OSError("no space left")

    path = tmp_path / "lines"
    with path.open("ab", buffering=0) as handle:
        assert append_whole(handle, path, b"one\n", lambda: None) == 0
        with pytest.raises(OSError, match="no space"):
            append_whole(handle, path, b"two\n", full)
        assert append_whole(handle, path, b"three\n", lambda: None) == 4
    assert path.read_bytes() == b"one\nthree\n"
