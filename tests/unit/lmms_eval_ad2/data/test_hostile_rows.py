"""Rows of a release that a reader must refuse: doubled keys, deep nesting, and values beyond the bounds of a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.data.home import import_release, writer
from lmms_eval_ad2.data.home import parts as parts_module
from lmms_eval_ad2.data.home.dataset import load_dataset

GOOD: dict[str, Any] = {"id": "1", "benchmark": "b", "images": ["a.jpg"], "question": "q", "answer": "a"}


def load(folder: Path, text: str, release: str = "records", name: str = "val.json") -> Any:
    path = folder / name
    path.write_text(text, "utf-8")
    return import_release(release, path, images=folder, split="val", partial=True)


def doubled(row: dict[str, Any], key: str) -> str:
    """The JSON of a row in which `key` occurs a second time."""
    return json.dumps(row).replace(f'"{key}":', f'"{key}": "first", "{key}":')


def test_a_doubled_key_in_a_line_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 2.*'answer' occurs twice"):
        load(tmp_path, json.dumps(GOOD) + "\n" + doubled({**GOOD, "id": "2"}, "answer"))


def test_a_doubled_key_anywhere_in_an_array_is_an_error(tmp_path: Path) -> None:
    row = {**GOOD, "meta": {"deep": [{"x": 1}]}}
    for key in ("answer", "x"):
        with pytest.raises(DataError, match=f"field '{key}': expected each key once"):
            load(tmp_path, f"[{json.dumps(GOOD)}, {doubled(row, key)}]")


def test_a_doubled_key_in_a_scene_of_drivelm_is_an_error(tmp_path: Path) -> None:
    qa = {"Q": "What?", "A": "A car."}
    frame = {"QA": {"perception": [qa]}, "image_paths": {"CAM_FRONT": "a.jpg"}}
    text = json.dumps({"scene": {"key_frames": {"1": frame}}})
    with pytest.raises(DataError, match="field 'A': expected each key once"):
        load(tmp_path, text.replace('"A":', '"A": "No.", "A":'), release="drivelm", name="v1_1_val.json")


def test_deep_nesting_is_an_error(tmp_path: Path) -> None:
    deep = json.dumps(GOOD)[:-1] + ', "meta": {"x": ' + "[" * 70 + "]" * 70 + "}}"
    with pytest.raises(DataError, match=r"row 1.*64 levels"):
        load(tmp_path, deep)
    with pytest.raises(DataError, match="64 levels"):
        load(tmp_path, f"[{deep}]")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": "x" * 501}, "'id': expected at most 500 characters, found '501'"),
        ({"id": "x" * 100_000}, "'id': expected at most 20,000 characters"),
        ({"subtask": "x" * 501}, "'subtask': expected at most 500"),
        ({"cluster": "x" * 501}, "'cluster': expected at most 500"),
        ({"question": "x" * 20_001}, "'question': expected at most 20,000"),
        ({"answer": {"en": "a", "zh": "长" * 20_001}}, "'answer': expected at most 20,000"),
        ({"images": ["a.jpg"] * 101}, "'images': expected at most 100"),
        ({"image_size": [10**400, 5]}, "'image_size': expected .*1 to 100,000"),
        ({"image_size": [100_001, 5]}, "'image_size'"),
        ({"subtask_id": 10**400}, "'subtask_id': expected a whole number"),
        ({"meta": {"x": "y" * (1 << 20)}}, "'record': expected at most 1,048,576 characters"),
        ({"meta": {"x": float("inf")}}, "Infinity is not a JSON number"),
    ],
)
def test_values_beyond_the_bounds(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        load(tmp_path, json.dumps({**GOOD, **change}))
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_numbers_too_large_for_a_float(tmp_path: Path, number: str) -> None:
    with pytest.raises(DataError, match="too large"):
        load(tmp_path, json.dumps({**GOOD, "meta": {"x": 12345}}).replace("12345", number))


def test_a_part_is_bounded_by_its_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "\n".join(json.dumps({**GOOD, "id": str(i), "answer": "a" * 1_000}) for i in range(50))
    one = load(tmp_path, rows)
    monkeypatch.setattr(writer, "PART_CHARACTERS", 10_000)
    several = import_release("records", tmp_path / "val.json", images=tmp_path, split="val", name="other", partial=True)
    assert len(one.parts) == 1 and len(several.parts) > 3
    assert several.sha256 == one.sha256
    assert [record.id for record in load_dataset("other", "val").records()] == [str(i) for i in range(50)]
    assert parts_module.PART_CHARACTERS == 32 << 20
