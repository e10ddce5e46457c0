"""Small data sets of a training and an evaluation split, in the data home of the running test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Record
from lmms_eval_ad2.data.export.leaks import ExportTask
from lmms_eval_ad2.data.home import open_dataset, write_dataset
from lmms_eval_ad2.data.home.dataset import Dataset
from lmms_eval_ad2.scoring.variant import TaskVariant

SIZE = (64, 36)
CAMERAS = ("CAM_FRONT", "CAM_FRONT_LEFT", "CAM_FRONT_RIGHT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT")
MCQ = ExportTask(
    "ad2x_mcq_planning_front", "autodrive_qa", "test", TaskVariant("autodrive_qa", "planning", views="front")
)
MOSAIC = ExportTask(
    "ad2x_mcq_planning_mosaic", "autodrive_qa", "test", TaskVariant("autodrive_qa", "planning", layout="mosaic")
)
TESTED = {"autodrive_qa": {"test"}}


def picture(path: Path, shade: int, tint: int = 0) -> Path:
    """A picture that depends on shade and tint only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    grey = Image.linear_gradient("L").resize(SIZE).point(lambda v: (v + shade) % 256)
    Image.merge("RGB", (grey, grey, Image.new("L", SIZE, tint))).save(path, "PNG")
    return path


def mcq(number: int, **changes: Any) -> Record:
    """A planning question about picture `<number>.png` with correct option B."""
    texts = {"A": "Turn left.", "B": f"Brake for car {number}.", "C": "Speed up.", "D": "Stop."}
    data: dict[str, Any] = {
        "id": f"q{number}",
        "benchmark": "autodrive_qa",
        "task": "planning",
        "subtask": "goal_action",
        "form": "mc",
        "images": (f"{number}.png",),
        "question": BilingualText(f"What should car {number} do?"),
        "answer": BilingualText(texts["B"]),
        "letter": "B",
        "image_size": SIZE,
        "cluster": f"scene {number}",
        "options": tuple(
            AnswerOption(k, BilingualText(v), "correct" if k == "B" else "naive") for k, v in texts.items()
        ),
    }
    return Record(**{**data, **changes})


def six_views(number: int, **changes: Any) -> Record:
    images = tuple(f"{camera}/{number}.png" for camera in CAMERAS)
    return mcq(number, images=images, views=CAMERAS, **changes)


def store(name: str, split: str, records: Iterable[Record], root: Path) -> Dataset:
    """Write the data set and its missing pictures, which differ by number and split."""
    rows = list(records)
    for row in rows:
        for index, image in enumerate(row.images):
            if not (root / image).exists():
                picture(root / image, int(Path(image).stem), 20 * index + (130 if split == "train" else 0))
    write_dataset(name, split, iter(rows), image_root=root, source={"release": name, "files": []})
    return open_dataset(name, split)
