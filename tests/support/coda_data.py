"""CODA-LM's layout with drawn images, imported into the data home of the running test, and rows of its answer files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from support.coda_layout import write_layout
from support.training_sets import picture

from lmms_eval_ad2.data.home import import_release
from lmms_eval_ad2.data.releases.coda_answers import FILES

QUESTIONS = {"general": "What matters?", "suggestion": "What to do?", "region": "What is this?"}


def import_coda(folder: Path, *, split: str = "test", n: int = 3, regions: int = 2) -> None:
    """Import `n` images of a split with `regions` regions each."""
    photos = folder / "photos"
    for number in range(n):
        picture(photos / f"{number}.jpg", 40 * number)
    root = write_layout(folder / f"coda_{split}", photos, split=split.title(), n=n, regions=regions)
    import_release("coda_lm", root, split=split, partial=True)


def images(part: str, n: int = 3, regions: int = 2) -> list[str]:
    """The images of the imported test split, in the order of question_id."""
    if part != "region":
        return [f"test/images/{k:04d}.jpg" for k in range(1, n + 1)]
    return [
        f"test/images_w_boxes/{k:04d}_object_{key}.jpg" for k in range(1, n + 1) for key in range(1, regions + 1)
    ]  # fmt: skip


def answer_rows(part: str, n: int = 3, regions: int = 2) -> list[dict[str, Any]]:
    """One row per record, each with another answer."""
    return [
        {"question_id": number, "image": image, "question": QUESTIONS[part], "answer": f"{part} {number + 1} en, a bus"}
        for number, image in enumerate(images(part, n, regions))
    ]


def write_answers(folder: Path, rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> Path:
    """A folder with the answer file of each part in `rows`."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, content in rows.items():
        (folder / FILES[part]).write_text("".join(json.dumps(row) + "\n" for row in content), "utf-8")
    return folder
