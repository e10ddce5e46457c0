"""Runs with free-text answers, and studies of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image
from support.make_runs import cell, summary, task, write_run

from lmms_eval_ad2.core.records import BilingualText, Record

TASK = "ad2_coda_general"


def row(id: str, answer: str, score: float | None = 5.0, **more: Any) -> dict[str, Any]:
    """A row of a samples file."""
    text = BilingualText("ref")
    record = Record(id, "coda_lm", "general", "general", "vqa", ("a.png",), text, text, image_size=(32, 16))
    judge = [{"rubric": "coda_general", "part": "0", "score": score, "reason": None if score else "timeout"}]
    return {"id": id, "form": "vqa", "raw": answer, "prompt": f"Question {id}?", "status": "ok", "judge": judge,
            "record": json.loads(record.to_json()), **more}  # fmt: skip


def write_answers(
    folder: Path, label: str, answers: Mapping[str, tuple[str, float | None]], *, judge: str = "lexical", **more: Any
) -> Path:
    """A run folder whose answers and marks are given by id; `more`: fields of the task's table."""
    Image.new("RGB", (32, 16), (90, 90, 90)).save(folder.parent / "a.png")
    table = task("coda_lm", "general", cell(50.0, judge=judge), image_root=str(folder.parent), **more)
    rows = [row(id, answer, score) for id, (answer, score) in answers.items()]
    return write_run(folder, summary({TASK: table}, label=label, judge=judge), {TASK: rows})
