"""The chance floor beside scores of the lexical judge: of an ad2_chance run, or computed from the samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.make_runs import cell, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.judge.backends.lexical import rouge_l, tokens
from lmms_eval_ad2.report import tables
from lmms_eval_ad2.report.floors import MEANING, missing_floors, with_floors

TEXTS = ("a red car turns left", "a red bus turns right")


def record(number: int) -> Record:
    return Record(
        id=f"r{number}", benchmark="coda_lm", task="general", subtask="general", form="vqa", images=("a.jpg",),
        question=BilingualText("What is there?"), answer=BilingualText(TEXTS[number]), cluster=f"r{number}",
    )  # fmt: skip


def run_folder(folder: Path, judge: str = "lexical", *, rows: int = 2, **more: Any) -> Path:
    samples = [{"id": f"r{i}", "record": json.loads(record(i).to_json())} for i in range(rows)]
    table = task("coda_lm", "general", cell(90.0, n=2, judge=judge))
    return write_run(folder, summary({"ad2_coda_general": table}, judge=judge, **more), {"ad2_coda_general": samples})


def test_the_floor_is_what_the_other_reference_gets(tmp_path: Path) -> None:
    run_folder(tmp_path / "run")
    runs = with_floors(report.load([tmp_path]))
    assert [(run.name, run.role) for run in runs] == [("toy-7b", "run"), ("random answers", "floor")]
    floor = runs[1].tasks["ad2_coda_general"]
    mark = 1 + 9 * rouge_l(*map(tokens, TEXTS))
    assert floor.score.official is not None and abs(floor.score.official - 10 * mark) < 1e-4
    assert (floor.score.n, floor.score.judge, floor.data) == (2, "lexical", runs[0].tasks["ad2_coda_general"].data)
    text = tables.render(runs)
    rows = [line.split()[0] for line in text.splitlines() if f" {10 * mark:.1f}" in line]
    assert rows == ["random"] and "no chance floor" not in text
    assert MEANING in " ".join(text.split())
    assert with_floors(runs) == runs  # nothing is missing any more


def test_a_run_of_chance_on_the_same_samples_is_the_floor(tmp_path: Path) -> None:
    run_folder(tmp_path / "run")
    run_folder(tmp_path / "chance", label="ad2_chance", model="ad2_chance")
    runs = report.load([tmp_path])
    assert with_floors(runs) == runs


def test_other_judges_have_no_computed_floor(tmp_path: Path) -> None:
    run_folder(tmp_path / "run", judge="openai:gpt-4o-2024-11-20")
    runs = with_floors(report.load([tmp_path]))
    assert len(runs) == 1 and missing_floors(runs) == []
    assert "lexical judge" not in tables.render(runs)


def test_a_floor_that_cannot_be_computed_is_named_with_its_command(tmp_path: Path) -> None:
    """One sample of two: the floor would be over other samples than the score."""
    run_folder(tmp_path / "run", rows=1, limit=2)
    runs = with_floors(report.load([tmp_path]))
    assert len(runs) == 1
    text = " ".join(tables.render(runs).split())
    command = "ad2 eval --model ad2_chance --tasks ad2_coda_general --judge lexical --limit 2 --out DIR"
    assert "toy-7b: no chance floor beside the lexical judge" in text and command in text


def test_a_run_without_samples_has_the_note_only(tmp_path: Path) -> None:
    write_run(tmp_path, summary({"t": task("coda_lm", "general", cell(90.0, n=2, judge="lexical"))}, judge="lexical"))
    runs = with_floors(report.load([tmp_path]))
    assert len(runs) == 1 and "--tasks t " in missing_floors(runs)[0]


def small_advanced(folder: Path) -> None:
    """A run on one caption and four attributes: no other caption to draw a random answer from."""
    texts = {"en": "A", "zh": ""}
    options = [{"letter": x, "text": {"en": x, "zh": ""}, "kind": "distractor"} for x in "ABCD"]
    base = {"benchmark": "ad2_bench", "task": "perception_advanced", "images": ["a.jpg"], "question": texts}
    rows = [{**base, "id": f"a{i}", "subtask": "attribute", "form": "mc", "answer": texts, "letter": "A",
             "options": options, "cluster": f"a{i}"} for i in range(4)]  # fmt: skip
    rows.append({**base, "id": "c", "subtask": "dense_caption", "form": "vqa", "answer": texts, "cluster": "c"})
    columns = {"attribute": cell(75.0, n=4), "caption_others": cell(60.0, n=1, judge="lexical")}
    score = {**cell(67.5, n=5, judge="lexical"), "columns": list(columns)}
    table = task("ad2_bench", "perception_advanced", score, columns)
    records = [Record.from_dict({**row, "mark": {"kind": "none", "coords": [], "text": ""}}) for row in rows]
    samples = [{"id": r.id, "record": json.loads(r.to_json())} for r in records]
    write_run(
        folder, summary({"ad2_perception_advanced": table}, judge="lexical"), {"ad2_perception_advanced": samples}
    )


def test_the_floor_of_small_data_names_the_true_reason_and_has_no_column_of_its_own(tmp_path: Path) -> None:
    small_advanced(tmp_path)
    runs = with_floors(report.load([tmp_path]))
    floor = runs[1].tasks["ad2_perception_advanced"]
    assert floor.reasons == {"unscored:no_other_reference": 1} and floor.score.official is None
    text = " ".join(tables.render(runs, wide=True).split())
    assert "1 unscored: the data have no other reference of that form" in text
    assert "request failed" not in text and "no judge" not in text
