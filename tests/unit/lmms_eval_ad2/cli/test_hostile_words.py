"""Control and bidirectional characters in the words of a command have no effect on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.cli.main import main

EVIL = "\x1b[31m\u202ex"
COMMANDS: dict[str, list[str]] = {
    "command": [EVIL],
    "unknown argument": ["data", "list", EVIL],
    "tasks": ["tasks", EVIL],
    "data verify": ["data", "verify", EVIL],
    "data import": ["data", "import", "records", EVIL, "--as", EVIL],
    "eval": ["eval", "--model", EVIL, "--tasks", EVIL, "--out", "OUT", "--dry-run"],
    "merge": ["merge", "OUT", EVIL],
    "rescore": ["rescore", EVIL],
    "report": ["report", EVIL],
    "report compare": ["report", "compare", EVIL, EVIL],
    "judge agree": ["judge", "agree", EVIL, EVIL],
    "mcq check": ["mcq", "check", EVIL],
    "drive score": ["drive", "score", EVIL],
    "drive show": ["drive", "show", EVIL],
    "drive run": ["drive", "run", "--suite", EVIL, "--agent", EVIL, "--out", "OUT", "--dry-run"],
    "drive routes": ["drive", "routes", EVIL, "--name", EVIL],
    "robot": ["robot", "plan", "--robot", EVIL, "--agent", EVIL],
}


# The dry run starts a process that imports lmms-eval.
NAMES = [pytest.param(name, marks=pytest.mark.integration) if name == "eval" else name for name in COMMANDS]


@pytest.mark.parametrize("name", NAMES)
def test_words_are_shown_as_escapes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "home"))
    try:
        code = main(COMMANDS[name])
    except SystemExit as exc:  # of argparse
        code = exc.code if isinstance(exc.code, int) else 1
    shown = "".join(capsys.readouterr())
    assert code in (1, 2) and shown and "Traceback" not in shown and " failed: " not in shown, shown
    assert "\x1b" not in shown and "\u202e" not in shown
