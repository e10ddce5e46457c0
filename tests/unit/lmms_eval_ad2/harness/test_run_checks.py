"""Checks before a run starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.harness import run_checks


def test_a_wrong_table_of_sub_tasks_is_found_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "subtasks.yaml"
    file.write_text("intent: {part: relations, column: intent}\n")
    monkeypatch.setenv("AD2_SUBTASKS", str(file))
    (fault,) = run_checks.faults(None)
    assert fault.startswith(f"{file}, row intent: field 'part': expected one of perception_base")
    assert run_checks.faults(None, ours=False) == []
