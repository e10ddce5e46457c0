"""Collected frames -> ad2 drive label -> ad2 data import -> ad2 eval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.collected import example_rows, write_collection
from support.running import BIN, run

pytestmark = pytest.mark.integration


def test_from_frames_to_scores(tmp_path: Path) -> None:
    write_collection(tmp_path / "set", example_rows())
    assert "right without the picture" in run(BIN / "ad2", "drive", "label", "set", "--limit", "5", cwd=tmp_path).stdout
    run(BIN / "ad2", "data", "import", "world", "set", "--config", "check_images=true", cwd=tmp_path)
    tasks = "ad2x_world_planning,ad2x_world_cot_zh"
    run(BIN / "ad2", "eval", "--model", "ad2_oracle", "--tasks", tasks, "--out", "runs", cwd=tmp_path)
    (summary,) = (tmp_path / "runs").rglob("summary.json")
    scores = {name: task["score"] for name, task in json.loads(summary.read_text("utf-8"))["tasks"].items()}
    assert {name: score["official"] for name, score in scores.items()} == dict.fromkeys(tasks.split(","), 100.0)
    assert all(score["n"] == 5 for score in scores.values())
