"""Courses of several vehicles and models in one table: `ad2 report rs1 rs2`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.cli.robot.run_kind import RUN_KIND
from closedloop_plugin.robots.course.records import SegmentRunRecord
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core import plugins
from lmms_eval_ad2.storage.identity import RESULTS, write_run

RECORD = SegmentRunRecord(
    "route1", 1, "straight", "completed", "", 100.0, 1.15, 1.2, 7.5, {"name": "jetbot"}, {"name": "A"},
    {"name": "rules", "mode": "rules"}, "bench2advlm", 0, (1.0, 2.0, 0.5), {"cycles": 14, "unparsed": 2},
)  # fmt: skip


def course_folder(folder: Path, vehicle: str, model: str, *runs: tuple[str, int, str, float], **more: Any) -> Path:
    """A folder of `ad2 robot run`; runs: segment, number, end, completion in percent."""
    folder.mkdir()
    identity = {
        "course": "sandbox", "robot": {"name": vehicle}, "agent": {"name": model}, "seed": 0,
        "interpreter": {"name": "llama", "mode": "cng"}, "profile": "bench2advlm", **more,
    }  # fmt: skip
    write_run(folder, identity, {"segments": "all", "runs": 3})
    records = [replace(RECORD, segment=s, run=k, end=end, completion=done) for s, k, end, done in runs]
    (folder / RESULTS).write_text("".join(record.to_json() + "\n" for record in records))
    return folder


@pytest.fixture
def courses(tmp_path: Path) -> list[Path]:
    return [
        course_folder(
            tmp_path / "a", "limo", "A", ("route2", 1, "completed", 100.0), ("route10", 1, "completed", 100.0)
        ),
        course_folder(
            tmp_path / "b", "jetbot", "A", ("route2", 1, "completed", 100.0), ("route2", 2, "crossed line", 41.0)
        ),
        course_folder(tmp_path / "c", "jetbot", "B", ("route2", 1, "agent failed", 0.0)),
    ]


def cells(table: Any) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in table.rows]


def test_vehicles_by_models_as_in_the_papers_table(courses: list[Path]) -> None:
    section = RUN_KIND.report(courses, routes=None, published=True)
    (table,) = section.tables
    assert table.headers == ["vehicle", "model", "route2", "route10", "Average"]
    assert cells(table) == [
        ["jetbot", "A + llama cng", "70.5\n1/2", "–", "70.5\n1/2"],
        ["jetbot", "B + llama cng", "–", "–", "–"],
        ["limo", "A + llama cng", "100.0\n1/1", "100.0\n1/1", "100.0\n2/2"],
    ]
    assert section.data["runs"][1]["completion"] == 70.5
    text = section.render()
    assert "a simulated vehicle; NOT comparable with real ones" in " ".join(text.split())
    assert "jetbot, A + llama cng: route2: crossed line" in text
    assert "AGILE-X sandbox" in text and "AGILE-X" not in section.render(published=False)
    assert "### Route completion in percent" in section.render(markdown=True)


def test_two_runs_of_one_vehicle_and_model_are_distinguished(tmp_path: Path) -> None:
    folders = [course_folder(tmp_path / n, "limo", "A", ("route1", 1, "completed", 100.0), seed=n) for n in "xy"]
    (table,) = RUN_KIND.report(folders, routes=None, published=False).tables
    assert [row[1] for row in cells(table)] == ["A + llama cng (x)", "A + llama cng (y)"]


def test_folders_are_found_and_others_left_alone(courses: list[Path], tmp_path: Path) -> None:
    assert RUN_KIND.find(tmp_path) == courses and RUN_KIND.find(courses[0]) == courses[:1]
    assert RUN_KIND.find(tmp_path / "a" / "run.json") == []
    write_run(tmp_path, {"suite": "demo"}, {})
    (tmp_path / RESULTS).touch()
    assert not RUN_KIND.recognises(tmp_path)


def test_the_command(courses: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(plugins, "loaded", lambda group: (RUN_KIND,))
    words = [str(path) for path in courses]
    assert main(["report", *words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["robot"]["runs"]) == 3
    assert main(["report", *words, "--unparsed"]) == 0
    assert "robot course, jetbot" in " ".join(capsys.readouterr().out.split())
    assert main(["report", "compare", *words[:2]]) == 2
    assert capsys.readouterr().err == (
        f"error: courses are not tested against each other; both in one table: ad2 report {words[0]} {words[1]}\n"
    )
