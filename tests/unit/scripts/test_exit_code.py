"""scripts/exit_code.py: how the scripts of developers end."""

from __future__ import annotations

import sys

import pytest
from support.scripts import script

from lmms_eval_ad2.core.errors import Ad2Error


@pytest.mark.parametrize(
    ("exc", "code", "line"),
    [
        (None, 0, ""),
        (Ad2Error("no model in it"), 2, "error: no model in it\n"),
        (FileNotFoundError(2, "No such file or directory", "given/page.md"), 2, "error: given/page.md: No such file"),
        (KeyError("a"), 1, "error: tool.py failed: KeyError: 'a' (test_exit_code.py, line "),
        (KeyboardInterrupt(), 130, "interrupted; "),
    ],
)
def test_every_end_is_one_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], exc: BaseException | None, code: int, line: str
) -> None:
    def work() -> None:
        if exc is not None:
            raise exc

    monkeypatch.setattr(sys, "argv", ["scripts/tool.py", "--page", "given/page.md"])
    assert script("exit_code").exit_code(work) == code
    written = capsys.readouterr().err
    assert written.startswith(line) and written.count("\n") == (code != 0)
