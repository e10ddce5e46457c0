"""One process at a time in a folder; what differs between two starts is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.folders import differences, locked


def test_differences_name_nested_settings() -> None:
    there = {"a": {"b": 1, "c": 2}, "d": [1]}
    assert differences(there, {"a": {"b": 1, "c": 3}, "d": [1], "e": None}) == ["a.c is 2 there and 3 here"]
    assert differences(there, there) == []


def test_long_values_are_cut() -> None:
    (said,) = differences({"a": "x" * 200}, {"a": "y"})
    assert said.endswith('... there and "y" here') and len(said) < 120


@pytest.mark.integration
def test_another_process_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    code = "import sys, pathlib; from lmms_eval_ad2.folders import locked; locked(pathlib.Path(sys.argv[1]))"
    other = [sys.executable, "-c", code, str(tmp_path / "new" / "out")]
    with locked(tmp_path / "new" / "out"):
        refused = subprocess.run(other, capture_output=True, text=True, timeout=60)
        assert refused.returncode and "another process" in refused.stderr
    assert subprocess.run(other, timeout=60).returncode == 0


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(Ad2Error, match="a file, and a folder is needed"):
        locked(tmp_path / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(Ad2Error, match="mend its permissions"):
            locked(tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)
