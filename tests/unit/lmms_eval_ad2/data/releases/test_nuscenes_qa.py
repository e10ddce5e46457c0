"""NuScenes-QA over small tables of nuScenes' form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import import_release
from lmms_eval_ad2.data.releases import RELEASES, BadRow
from lmms_eval_ad2.data.releases.base import CAMERAS
from lmms_eval_ad2.data.releases.nuscenes_qa import ANSWERS

QUESTION = {
    "split": "val", "sample_token": "t1", "question": "Any cars?", "answer": "yes", "num_hop": 0,
    "template_type": "exist",
}  # fmt: skip


def tables(root: Path, cameras: tuple[str, ...] = CAMERAS) -> None:
    folder = root / "v1.0-trainval"
    folder.mkdir()
    (root / "samples").mkdir()
    channels = [*cameras, "LIDAR_TOP"]
    data = {
        "sample": [{"token": t, "scene_token": f"scene-{t}"} for t in ("t1", "t2")],
        "sensor": [{"token": f"s{c}", "channel": c} for c in channels],
        "calibrated_sensor": [{"token": f"k{c}", "sensor_token": f"s{c}"} for c in channels],
        "sample_data": [
            {
                "sample_token": t, "calibrated_sensor_token": f"k{c}", "is_key_frame": key,
                "filename": f"{'samples' if key else 'sweeps'}/{c}/{t}.jpg",
            }
            for t in ("t1", "t2") for c in channels for key in (True, False)
        ],
    }  # fmt: skip
    for name, rows in data.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))


def items(root: Path, *questions: Any, split: str | None = None) -> list[Any]:
    path = root / "NuScenes_val_questions.json"
    path.write_text(json.dumps({"info": {}, "questions": list(questions)}))
    return list(RELEASES["nuscenes_qa"].open(path, split=split, images=None, options={"partial": "1"}).records())


def test_samples_have_images_of_six_cameras(tmp_path: Path) -> None:
    tables(tmp_path)
    yes, count, thing = items(
        tmp_path,
        QUESTION,
        {**QUESTION, "sample_token": "t2", "answer": 3, "template_type": "count", "num_hop": 1},
        {**QUESTION, "answer": "construction vehicle", "template_type": "object"},
    )
    assert yes.images == tuple(f"samples/{c}/t1.jpg" for c in CAMERAS)
    assert set(CAMERAS) == {f"CAM_{way}{side}" for way in ("FRONT", "BACK") for side in ("", "_LEFT", "_RIGHT")}
    assert (yes.form, yes.answer.en, yes.views, yes.cluster) == ("yesno", "yes", CAMERAS, "scene-t1")
    assert (count.form, count.answer.en, count.subtask, count.cluster) == ("count", "3", "count", "scene-t2")
    assert (thing.form, thing.id) == ("vqa", "t1_2")
    assert len(ANSWERS) == 30


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"answer": "lorry"}, "answer"),
        ({"answer": 11}, "answer"),
        ({"answer": None}, "answer"),
        ({"template_type": "why"}, "template_type"),
        ({"sample_token": "t9"}, "sample_token"),
        ({"sample_token": None}, "sample_token"),
        ({"split": "train"}, "split"),
        ({"question": " "}, "question"),
        ({"num_hop": "0"}, "num_hop"),
    ],
)
def test_faults_are_reported_with_their_field(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    tables(tmp_path)
    bad, good = items(tmp_path, {**QUESTION, **changes}, QUESTION)
    assert isinstance(bad, BadRow)
    assert (bad.error.field, bad.error.row) == (field, 0)
    assert isinstance(good, Record)


def test_invalid_tables_and_question_lists_are_reported(tmp_path: Path) -> None:
    tables(tmp_path, CAMERAS[:5])
    (bad,) = items(tmp_path, QUESTION)
    assert "none for CAM_BACK_RIGHT" in str(bad.error)
    with pytest.raises(DataError, match="non-empty list of questions"):
        items(tmp_path)
    (tmp_path / "v1.0-trainval/sensor.json").write_text('[{"token": "a"}]')
    with pytest.raises(DataError, match="field 'channel'"):
        items(tmp_path, QUESTION)
    (tmp_path / "v1.0-trainval/sensor.json").unlink()
    with pytest.raises(Ad2Error, match="found: none"):
        items(tmp_path, QUESTION)


def test_incomplete_val_split_is_refused(tmp_path: Path) -> None:
    tables(tmp_path)
    items(tmp_path, QUESTION, QUESTION)
    path = tmp_path / "NuScenes_val_questions.json"
    with pytest.raises(DataError, match="83337 records in all, found '2'"):
        import_release("nuscenes_qa", path)
    assert import_release("nuscenes_qa", path, partial=True).n == 2
