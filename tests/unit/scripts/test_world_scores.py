"""scripts/world_scores.py: the table of reference scores between its marks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.make_runs import cell, task
from support.scripts import script

from lmms_eval_ad2.data.releases.world import TASKS
from lmms_eval_ad2.errors import Ad2Error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tasks = {f"ad2x_world_{part}": task("world", part, cell(25.0, ci=(20.0, 31.5), n=40)) for part in TASKS}
    about = {"schema": "ad2-run/1", "model": "ad2_chance"}
    (tmp_path / "summary.json").write_text(json.dumps({"schema": "ad2-run/1", "run": about, "tasks": tasks}))
    return tmp_path


def test_the_table_replaces_the_last_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = folder / "README.md"
    world_scores = script("world_scores")
    page.write_text("before\n<!-- scores: begin -->\nold\n<!-- scores: end -->\nafter\n")
    monkeypatch.setattr(sys, "argv", ["x", f"floor={folder}", "--label", "2 drives:", "--page", str(page)])
    assert world_scores.main() == world_scores.main() == 0
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "ad2x_" in line]
    assert rows == [[f"ad2x_world_{part}", "40", "25.0 (20.0 to 31.5)"] for part in TASKS]
    page.write_text("without marks")
    with pytest.raises(Ad2Error, match="no lines '<!-- scores: begin -->'"):
        world_scores.main()
