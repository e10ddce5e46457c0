"""The roof: a user's mistake is one message, and what it quotes cannot rewrite the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.cli.main import main


def test_a_message_carries_no_terminal_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "absent\x1b[2J\x07.jsonl"
    assert main(["mcq", "split", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: cannot read")
    assert "absent[2J.jsonl" in said
    assert said.endswith("\n")
    assert not {"\x1b", "\x07"} & set(said)
