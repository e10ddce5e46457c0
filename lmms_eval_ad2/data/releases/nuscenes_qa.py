"""NuScenes-QA (qiantianwen/NuScenes-QA), with the six camera files of a sample from the tables of nuScenes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, Form, Record
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.base import (
    CAMERAS,
    SIZE,
    BadRow,
    BenchmarkRelease,
    Item,
    OpenedRelease,
    existing,
    image_folder,
    six_cameras,
)
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

SCHEMA = """\
SOURCE: NuScenes_val_questions.json (or _train_): {"questions": [{"split", "sample_token", "question", "answer",
  "num_hop": 0 | 1, "template_type": exist | count | object | status | comparison}, ...]}
Images: --images DIR, the folder of nuScenes with samples/ and the tables
  v1.0-*/sample.json, sample_data.json, calibrated_sensor.json, sensor.json
--split: train or val (default: from the file name). Questions of another split are bad rows.

The release has 30 answers: yes and no become form yesno, numbers form count, all others vqa. The val split has 83,337
questions; other numbers are refused unless --partial is given.
"""

TEMPLATES = ("exist", "count", "object", "status", "comparison")
ANSWERS = frozenset(
    (
        "yes", "no", "barrier", "bicycle", "bus", "car", "construction vehicle", "motorcycle", "moving", "not standing",
        "parked", "pedestrian", "standing", "stopped", "traffic cone", "trailer", "truck", "with rider",
        "without rider", *map(str, range(11)),
    )
)  # fmt: skip
COUNTS = {"val": 83_337}
TABLES = ("sample", "sample_data", "calibrated_sensor", "sensor")


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    path = existing(source, "question file")
    named = re.search(r"(train|val)", path.stem.lower())
    split = split or (named[1] if named else None)
    if not split:
        raise Ad2Error(f"nuscenes_qa: the file name {path.name} does not contain the split: give --split")
    folder = path.parent
    root = image_folder(images, [folder, folder / "nuscenes", folder.parent / "nuscenes"], "samples")
    tables = _tables(root)
    expected = {} if options.get("partial") or split not in COUNTS else {"perception": COUNTS[split]}
    return OpenedRelease(split, root, lambda: _read(path, split, tables), [path, *tables.values()], expected)


def _tables(root: Path) -> dict[str, Path]:
    """The tables of the only version that has all of them; raises Ad2Error for none or several."""
    complete = [
        {name: folder / f"{name}.json" for name in TABLES}
        for folder in sorted([*root.glob("v1.0-*"), root])
        if all((folder / f"{name}.json").is_file() for name in TABLES)
    ]
    if len(complete) != 1:
        found = ", ".join(str(tables["sample"].parent) for tables in complete) or "none"
        names = ", ".join(f"{table}.json" for table in TABLES)
        raise Ad2Error(f"nuscenes_qa: need exactly one folder below {root} with {names}; found: {found}")
    return complete[0]


def _read(path: Path, split: str, tables: Mapping[str, Path]) -> Iterator[Item]:
    wanted = {
        str(row["sample_token"]) for row in stream.items(path, "questions.item")
        if isinstance(row, Mapping) and "sample_token" in row
    }  # fmt: skip
    cameras = _camera_files(tables, wanted)
    scenes = {
        row["token"]: str(row.get("scene_token", "")) for row in stream.items(tables["sample"], "item")
        if isinstance(row, Mapping) and row.get("token") in wanted
    }  # fmt: skip
    empty = True
    for number, data in enumerate(stream.items(path, "questions.item")):
        empty = False
        try:
            yield _record(UntrustedRow(data, path, number), number, split, cameras, scenes)
        except DataError as exc:
            yield BadRow(exc)
    if empty:
        raise DataError(path, None, "questions", "a non-empty list of questions")


def _camera_files(tables: Mapping[str, Path], wanted: set[str]) -> dict[str, dict[str, str]]:
    """sample_token -> camera -> file name of key frames; one pass over sample_data.json, by far the largest table."""
    channel = {row["token"]: row["channel"] for row in _rows(tables["sensor"], ("token", "channel"))}
    sensor = {
        row["token"]: channel.get(row["sensor_token"], "")
        for row in _rows(tables["calibrated_sensor"], ("token", "sensor_token"))
    }
    files: dict[str, dict[str, str]] = {}
    for row in _rows(tables["sample_data"], ("sample_token", "calibrated_sensor_token", "filename")):
        camera = sensor.get(row["calibrated_sensor_token"], "")
        if row["sample_token"] in wanted and row.get("is_key_frame") is True and camera in CAMERAS:
            files.setdefault(row["sample_token"], {})[camera] = row["filename"]
    return files


def _rows(path: Path, fields: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Rows of a nuScenes table; a fault in a table affects every question, so it is raised."""
    for number, data in enumerate(stream.items(path, "item")):
        row = UntrustedRow(data, path, number)
        for field in fields:
            row.string(field)
        yield row.data


def _record(
    row: UntrustedRow, number: int, split: str, cameras: Mapping[str, Mapping[str, str]], scenes: Mapping[str, str]
) -> Record:
    token = row.string("sample_token")
    if token not in cameras or token not in scenes:
        raise row.fail("sample_token", "a sample of the nuScenes tables", token)
    if (found := row.string("split", split)) != split:
        raise row.fail("split", f"'{split}'", found)
    raw = row.get("answer")
    answer = str(raw) if type(raw) is int else row.string("answer")
    if answer not in ANSWERS:
        raise row.fail("answer", "one of the release's 30 answers", raw)
    images, views = six_cameras(row, cameras[token])
    form: Form = "yesno" if answer in ("yes", "no") else "count" if answer.isdigit() else "vqa"
    return Record(
        id=f"{token}_{number}",
        benchmark="nuscenes_qa",
        task="perception",
        subtask=row.choice("template_type", TEMPLATES),
        form=form,
        images=images,
        question=BilingualText(en=row.string("question")),
        answer=BilingualText(en=answer),
        views=views,
        image_size=SIZE,
        cluster=scenes[token] or token,
        meta={"sample_token": token, "num_hop": row.integer("num_hop"), "split": split},
    )


RELEASE = BenchmarkRelease("nuscenes_qa", "NuScenes-QA (qiantianwen/NuScenes-QA)", SCHEMA, open_release)
