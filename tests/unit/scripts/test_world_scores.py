"""scripts/world_scores.py: the table of reference scores between its marks."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.collected import example_rows, write_collection
from support.make_runs import cell, task
from support.scripts import script

from closedloop_plugin.learn.questions.collection import label_folder
from lmms_eval_ad2.data.releases.world import TASKS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_summary(tmp_path, dict.fromkeys(TASKS, 40))
    return tmp_path


def write_summary(folder: Path, counts: Mapping[str, int]) -> None:
    tasks = {f"ad2x_world_{part}": task("world", part, cell(25.0, ci=(20.0, 31.5), n=counts[part])) for part in TASKS}
    about = {"schema": "ad2-run/1", "model": "ad2_chance"}
    (folder / "summary.json").write_text(json.dumps({"schema": "ad2-run/1", "run": about, "tasks": tasks}))


def test_what_is_right_without_the_picture_is_a_column(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, drives = tmp_path / "page.md", write_collection(tmp_path / "drives", example_rows())
    for limit in (2, None):
        counts = {one.task: one.kept for one in label_folder(drives, per_frame=9, per_task=limit)}
        write_summary(folder, counts)
        page.write_text("<!-- scores: begin -->\n<!-- scores: end -->\n")
        words = ["x", f"floor={folder}", "--label", "L", "--page", str(page), "--collection", str(drives)]
        monkeypatch.setattr(sys, "argv", [*words, *(["--limit", str(limit)] if limit else [])])
        (drives / "questions.jsonl").write_text("those that were asked\n")
        assert script("world_scores").main() == 0
        assert (drives / "questions.jsonl").read_text() == "those that were asked\n"
    rows = {
        line.split("|")[1].strip(): line.split("|")[3].strip() for line in page.read_text().splitlines() if "|" in line
    }
    assert rows["task"] == "without the picture"
    assert rows["ad2x_world_existence"] == rows["ad2x_world_relation"] == "50.0"  # one of two answers
    assert rows["ad2x_world_location"] == rows["ad2x_world_cot"] == "–"


def test_chinese_tasks_have_a_block_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = {f"ad2x_world_{part}_zh": task("world", part, cell(25.0)) for part in TASKS}
    about = {"schema": "ad2-run/1", "model": "ad2_chance"}
    (tmp_path / "summary.json").write_text(json.dumps({"schema": "ad2-run/1", "run": about, "tasks": tasks}))
    page = tmp_path / "page.md"
    page.write_text("<!-- scores_zh: begin -->\n<!-- scores_zh: end -->\n")
    words = ["x", f"floor={tmp_path}", "--label", "L", "--language", "zh", "--page", str(page)]
    monkeypatch.setattr(sys, "argv", words)
    assert script("world_scores").main() == 0
    assert "| ad2x_world_planning_zh" in page.read_text()


def test_the_table_replaces_the_last_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert world_scores.main() == 2
    assert "no lines '<!-- scores: begin -->'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ("floor", "floor: expected TITLE=FOLDER, for example floor=runs/chance"),
        ("=runs", "=runs: expected TITLE=FOLDER"),
        ("floor=", "floor=: expected TITLE=FOLDER"),
        ("floor=/nonexist", "/nonexist"),
        (
            "floor={folder} --language zh",
            "no score of ad2x_world_existence_zh; run ad2 eval",
        ),
        ("floor={folder} --collection /nonexist", "/nonexist"),
        ("floor={folder} --collection {drives}", "40 in the runs; give the --limit of their ad2 drive label"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    run: str,
    line: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, drives = folder / "README.md", write_collection(tmp_path / "drives", example_rows())
    page.write_text(marks := "<!-- scores: begin -->\n<!-- scores: end -->\n")
    monkeypatch.setattr(
        sys, "argv", ["x", *run.format(folder=folder, drives=drives).split(), "--label", "L", "--page", str(page)]
    )
    assert script("world_scores").main() == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith("error: ") and line in printed
    assert page.read_text() == marks
