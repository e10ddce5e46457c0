"""The output of a course: records, table, published figures, picture."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.report.top_view import robot_heading, robot_view
from closedloop_plugin.robots.course.records import SegmentRunRecord, SegmentRunStore, by_course, read_records
from closedloop_plugin.robots.course.report import course, published, render
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.identity import RESULTS

RECORD = SegmentRunRecord(
    "route1", 1, "straight", "completed", "", 100.0, 1.15, 1.2, 7.5, {"name": "limo"}, {"name": "model"},
    {"name": "rules"}, "bench2advlm", 0, (1.0, 2.0, 0.5), {"cycles": 14, "unparsed": 2},
    {"thinking_median_s": 0.1}, {"python": "3.11"},
)  # fmt: skip
DRIVE: dict[str, Any] = {
    "format": 1, "floor": [4.0, 3.0], "lines": [[[0.1, 0.1], [3.9, 0.1]], [[0.1, 0.5], [3.9, 0.5]]],
    "obstacles": [[[1.0, 0.6], [1.2, 0.6], [1.2, 0.8], [1.0, 0.8]]], "planned": [[0.3, 0.3], [1.5, 0.3]],
    "footprint": [0.322, 0.22, 0.0], "poses": [[0.05 * i, 0.3 + 0.01 * i, 0.3, 0.0, 0.2] for i in range(100)],
    "cycles": [
        {"t": 0.0, "pose": [0.3, 0.3, 0.0], "texts": {"action": "go"}, "sent": {"vx": 0.2, "vy": 0.0, "wz": 0.1}},
        {"t": 0.5, "pose": [0.4, 0.3, 0.0], "texts": {"action": "turn"}, "sent": {"word": "left"}},
    ],
    "result": json.loads(RECORD.to_json()),
}  # fmt: skip


def run_of(
    segment: str, run: int, end: str = "completed", completion: float = 100.0, what: str = ""
) -> SegmentRunRecord:
    return replace(RECORD, segment=segment, run=run, end=end, completion=completion, what=what)


def test_a_record_round_trips() -> None:
    assert SegmentRunRecord.from_json(RECORD.to_json()) == RECORD


def test_simulated_runs_of_older_versions_are_read() -> None:
    """Their records name the transport; a run with a real vehicle is no simulated one."""
    raw = json.loads(RECORD.to_json())
    for transport in ("local", "ros"):
        assert SegmentRunRecord.from_json(json.dumps({**raw, "transport": transport})) == RECORD
    with pytest.raises(ValueError, match="transport"):
        SegmentRunRecord.from_json(json.dumps({**raw, "transport": "vehicle"}))


@pytest.mark.parametrize(
    "change",
    (
        {"completion": "100"}, {"completion": True}, {"end": "flew away"}, {"segment": 1}, {"run": "1"},
        {"agent": "model"}, {"surprise": 1}, {"time_s": None},
        {"counts": {"cycles": "4"}}, {"counts": []}, {"what": None}, {"interpreter": "rules"},
    ),
)  # fmt: skip
def test_an_edited_line_is_refused_with_its_number(tmp_path: Path, change: dict[str, Any]) -> None:
    raw = {**json.loads(RECORD.to_json()), **change}
    (tmp_path / RESULTS).write_text(RECORD.to_json() + "\n" + json.dumps(raw) + "\n")
    with pytest.raises(DataError, match="row 2"):
        read_records(tmp_path)


@given(st.text(max_size=60))
def test_any_line_is_read_or_raises_value_error(text: str) -> None:
    with suppress(ValueError):
        SegmentRunRecord.from_json(text)


def test_an_incomplete_last_line_is_cut_off_and_the_rest_kept(tmp_path: Path) -> None:
    """A write that was interrupted by kill -9, at any byte."""
    line = RECORD.to_json() + "\n"
    second = run_of("route2", 1)
    for cut in (1, 30, len(line) - 1):
        (tmp_path / RESULTS).write_text(line + line[:cut])
        run_store = SegmentRunStore(tmp_path)
        assert run_store.records == [RECORD]
        run_store.add(second)
        assert read_records(tmp_path) == [RECORD, second]


def test_the_later_of_two_lines_for_one_run_counts(tmp_path: Path) -> None:
    run_store = SegmentRunStore(tmp_path)
    failed = run_of("route1", 1, "agent failed", 0.0)
    for record in (failed, RECORD):
        run_store.add(record)
    assert SegmentRunStore(tmp_path).records == [RECORD] and len(read_records(tmp_path)) == 2


def test_records_are_ordered_as_in_the_course() -> None:
    records = [run_of("route10", 1), run_of("route2", 2), run_of("route2", 1)]
    assert [r.key for r in by_course(records, ["route2", "route10"])] == [("route2", 1), ("route2", 2), ("route10", 1)]


# The table.


def test_counts_and_means_match_hand_computed_values() -> None:
    records = [
        run_of("a", 1), run_of("a", 2, "crossed line", 50.0), run_of("b", 1, "hit obstacle", 20.0),
        run_of("b", 2, "agent failed", 0.0),
    ]  # fmt: skip
    found = course(records, ["a", "b", "c"])
    assert [(c.completed, c.runs, c.completion) for c in found.cells] == [(1, 2, 75.0), (0, 1, 20.0), (0, 0, None)]
    assert found.completed == (1, 3) and found.completion == pytest.approx(47.5)


def test_the_table_has_the_papers_form_with_its_figures_below() -> None:
    text = render([run_of("route1", 1), run_of("route1", 2, "crossed line", 40.0)], ["route1", "route2"], published())
    ours, paper = text.split("Bench2ADVLM")
    lines = ours.splitlines()
    assert "limo, model + rules" in lines[0]
    assert next(line for line in lines if "Average" in line).split() == ["route1", "route2", "Average"]
    assert next(line for line in lines if line.startswith("completed ")).split()[1:] == [
        "1/2",
        "–",
        "1/2",
        "=",
        "50",
        "%",
    ]
    assert next(line for line in lines if line.startswith("completion, %")).split()[2:] == ["70.0", "–", "70.0"]
    assert "4 of 28 replies could not be read" in ours and "route1: crossed line" in ours
    assert paper.count("/10") >= 40 and "86 %" in paper and "JetBot outperforms LIMO" in paper


def test_markdown_cells_are_escaped() -> None:
    text = render([run_of("route1", 1, "hit obstacle", 3.0, "hit obstacle:a|b")], ["route1"], None, markdown=True)
    assert "| completed" in text and "a\\|b" in text


def test_a_table_without_records_reports_nothing_driven() -> None:
    assert "nothing driven yet" in render([], ["route1"], None)


def test_the_published_averages_follow_from_the_printed_counts() -> None:
    table = published()
    assert len(table.rows) == 8 and len(table.routes) == 5
    for _, _, *counts, average in table.rows:
        assert 100 * sum(counts) / (table.of * len(counts)) == pytest.approx(average)


def test_the_reported_contradictions_follow_from_the_published_figures() -> None:
    table = published()
    mean = {v: sum(row[-1] for row in table.rows if row[0] == v) / 4 for v in table.vehicles}
    assert list(mean.values()) == [55.5, 54.5]
    by_agent = {a: [row[-1] for row in table.rows if row[1] == a] for a in {row[1] for row in table.rows}}
    assert sum(jetbot > limo for jetbot, limo in by_agent.values()) == 2
    assert len(table.notes) == 1 + 2


# The picture.


def test_the_top_view_marks_the_end_of_a_failed_run(tmp_path: Path) -> None:
    from PIL import Image

    pictures = {}
    for end in ("completed", "crossed line"):
        drive = {**DRIVE, "result": {**DRIVE["result"], "end": end}}
        with Image.open(robot_view(drive, tmp_path / f"{end}.png")) as image:
            pictures[end] = np.asarray(image.convert("RGB"))
    assert min(pictures["completed"].shape[:2]) > 300
    red = [int(((p[..., 0] > 170) & (p[..., 1] < 60)).sum()) for p in pictures.values()]
    assert red[0] == 0 and red[1] > 100  # the marker of a failed run


def test_a_run_without_poses_and_decisions_can_be_drawn(tmp_path: Path) -> None:
    assert robot_view({**DRIVE, "poses": [], "cycles": []}, tmp_path / "x.png").stat().st_size > 1000


def test_the_heading_names_driver_segment_and_end() -> None:
    text = robot_heading({**DRIVE["result"], "end": "hit obstacle", "what": "hit obstacle:box"})
    assert all(part in text for part in ("route1", "straight", "limo", "model + rules", "hit obstacle:box", "100.0 %"))
