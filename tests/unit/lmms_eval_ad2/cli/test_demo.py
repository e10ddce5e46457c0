"""Why a run of the demo failed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lmms_eval_ad2.cli import demo
from lmms_eval_ad2.core.errors import Ad2Error


def printing(text: str, code: int) -> Callable[..., Any]:
    def run(command: list[str], stdout: Any, **_: Any) -> Any:
        stdout.write(text)
        return SimpleNamespace(returncode=code)

    return run


@pytest.mark.parametrize(
    ("output", "free", "message"),
    [
        ("a\nerror: first\nerror: no space here\nlast\n", 10**9, "ended with code 2: no space here; its output: "),
        ("a\nKilled\n", 10**9, "ended with code 2: Killed; its output: "),
        ("", 10**9, "ended with code 2: it printed nothing; its output: "),
        ("", 4096, "ended with code 2: the disk of .* is full; free some space, then the same command resumes; its"),
    ],
)
def test_a_run_that_fails_is_one_line_with_its_reason(
    output: str, free: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", printing(output, 2))
    monkeypatch.setattr(demo.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    with pytest.raises(Ad2Error, match=rf"^ad2_chance {message}") as caught:
        demo.evaluate(tmp_path, "ad2_chance")
    assert "\n" not in str(caught.value)
