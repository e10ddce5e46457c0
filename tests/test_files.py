"""A file is there whole, or as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.files import whole_file


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
