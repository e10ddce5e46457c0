"""Training files: rows grouped by picture, and one error for each kind of faulty row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.learn.training_file import TrainingFile, TrainingTurn
from lmms_eval_ad2.core.errors import Ad2Error, DataError


def row(image: str = "a.jpg", asked: str = "<image>What?", answer: str = "That.", **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return {"id": "x", "messages": messages, "images": [image], **more}


def write(folder: Path, *rows: Any) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    return file


def test_consecutive_rows_of_one_picture_are_a_group(tmp_path: Path) -> None:
    file = write(tmp_path, row(), row(asked="<image>\nWhy?"), row("/b.jpg"), row(), row(group="1"), row(group="2"))
    found = TrainingFile.read([file])
    assert [(str(group.image), len(group.turns)) for group in found.groups] == [
        (str(tmp_path / "a.jpg"), 2), ("/b.jpg", 1), (str(tmp_path / "a.jpg"), 1), (str(tmp_path / "a.jpg"), 1),
        (str(tmp_path / "a.jpg"), 1),
    ]  # fmt: skip
    assert found.groups[0].turns == (TrainingTurn("What?", "That."), TrainingTurn("Why?", "That."))
    assert len(list(found.turns())) == 6


@pytest.mark.parametrize(
    ("faulty", "said"),
    [
        ("text", "a JSON object"),
        ({"images": ["a.jpg"]}, "'messages'"),
        ({**row(), "images": ["a.jpg", "b.jpg"]}, "'images'"),
        ({**row(), "images": [1]}, "'images'"),
        (row(asked="What?"), "<image>"),
        (row(asked="<image>What <image>?"), "<image>"),
        (row(answer=""), "'content'"),
        (row(answer="An <image>."), "no <image> in the answer"),
        (row(answer="\ud800"), "'content'"),
        (row(image="\ud800.jpg"), "'images'"),
        (row(asked="<image>" + "lane " * 5000), "at most 20,000 characters"),
        ({**row(), "messages": [{"role": "user"}, {"role": "user"}]}, "'messages'"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, faulty: Any, said: str) -> None:
    file = write(tmp_path, row(), faulty)
    with pytest.raises(DataError, match=r"rows\.jsonl, row 2") as caught:
        TrainingFile.read([file])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [("{", "Expecting"), ("[" * 200_000, "nested more than 64 levels"), ('{"id": 1, "id": 2}', "occurs twice")],
)
def test_a_line_that_is_no_row_is_one_error(tmp_path: Path, line: str, said: str) -> None:
    file = write(tmp_path, row())
    file.write_text(file.read_text("utf-8") + line + "\n", "utf-8")
    with pytest.raises(DataError, match=r"rows\.jsonl, row 2: field 'row': expected a JSON object") as caught:
        TrainingFile.read([file])
    assert said in str(caught.value) and "Export it again" in str(caught.value)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="ad2 export swift --drives"):
        TrainingFile.read([tmp_path / "none.jsonl"])
    with pytest.raises(Ad2Error, match="no rows"):
        TrainingFile.read([write(tmp_path)])
