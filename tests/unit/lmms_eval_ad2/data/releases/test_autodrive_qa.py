"""AutoDrive-QA in our schema: kinds of options, and faults with their fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.data.releases import RELEASES, BadRow
from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, record_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

OPTIONS: list[dict[str, Any]] = [
    {"letter": "A", "text": "stop", "kind": ERRORS[0]},
    {"letter": "B", "text": "go on", "kind": "correct"},
    {"letter": "C", "text": {"en": "turn", "zh": "转弯"}, "kind": ERRORS[1]},
]
BASE: dict[str, Any] = {
    "id": "q1", "task": "planning", "source": "drivelm", "question": "What now?", "options": OPTIONS, "answer": "B",
    "images": ["samples/a.jpg", "samples/b.jpg"], "views": ["CAM_FRONT", "CAM_BACK"],
}  # fmt: skip


def test_a_row_keeps_kinds_views_and_reference() -> None:
    record = record_of(UntrustedRow(BASE, "f", 1))
    assert [(o.letter, o.kind) for o in record.options] == [("A", ERRORS[0]), ("B", "correct"), ("C", ERRORS[1])]
    assert (record.letter, record.answer.en, record.cluster) == ("B", "go on", "samples/a.jpg")
    assert (record.views, record.meta) == (("CAM_FRONT", "CAM_BACK"), {"source": "drivelm"})
    full = record_of(
        UntrustedRow({**BASE, "open_answer": "Keep going.", "cluster": "s1", "subtask": "goal_action"}, "f", 1)
    )
    assert (full.answer.en, full.cluster, full.subtask) == ("Keep going.", "s1", "goal_action")


def option(index: int, **changes: Any) -> list[dict[str, Any]]:
    return [{**o, **changes} if i == index else o for i, o in enumerate(OPTIONS)]


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"task": "driving"}, "task"),
    ({"source": ""}, "source"),
    ({"answer": "D"}, "answer"),
    ({"answer": "A"}, "answer"),
    ({"options": None}, "options"),
    ({"options": OPTIONS[1:]}, "options"),
    ({"options": option(0, kind="correct")}, "options"),
    ({"options": option(1, kind=ERRORS[2])}, "options"),
    ({"options": option(0, kind="silly")}, "options[0].kind"),
    ({"options": option(0, text="GO ON")}, "options"),
    ({"options": option(2, text="")}, "options[2].text"),
    ({"options": option(2, why="x")}, "options[2].why"),
    ({"images": ["../../etc/passwd"]}, "images"),
    ({"views": ["CAM_FRONT"]}, "views"),
    ({"question": None}, "question"),
    ({"meta": "x"}, "meta"),
    ({"extra": 1}, "extra"),
]


@pytest.mark.parametrize(("changes", "field"), FAULTS, ids=[f"{f}-{i}" for i, (_, f) in enumerate(FAULTS)])
def test_faults_are_reported_with_their_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(DataError) as caught:
        record_of(UntrustedRow({**BASE, **changes}, "f", 3))
    assert (caught.value.row, caught.value.field) == (3, field)


def test_reader_continues_after_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "mcq.jsonl"
    path.write_text("\n".join([json.dumps(BASE), "{", json.dumps({**BASE, "task": "x"})]), encoding="utf-8")
    found = list(RELEASES["autodrive_qa"].open(path, split="dev", images=tmp_path, options={}).records())
    assert [isinstance(item, BadRow) for item in found] == [False, True, True]
