"""CODA-LM's file layout with our photos: a few images, with the original names and keys."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

TEXT = "description and explanation"


def annotation(number: int, regions: int, lang: str = "en") -> dict[str, Any]:
    lists: dict[str, Any] = {
        name: [{}]
        for name in (
            "vehicles", "vulnerable_road_users", "traffic signs", "traffic lights", "traffic cones", "barriers",
            "other objects",
        )
    }  # fmt: skip
    label = f"{number} {lang}"
    region = {"box": [10.5, 20.0, 100.0, 50.25], "category_name": "bus"}
    return {
        "general_perception": {**lists, TEXT: f"general {label}"},
        "region_perception": {str(k): {**region, TEXT: f"region {k} {label}"} for k in range(1, regions + 1)},
        "driving_suggestion": f"suggestion {label}",
    }


def write_layout(
    root: Path, photos: Path, *, split: str = "Mini", n: int = 3, regions: int = 2, chinese: bool = True
) -> Path:
    """A root with `n` images of `split`, each with `regions` regions, in English and, if asked, Chinese."""
    folder = "val" if split == "Train" else "test"
    (root / folder / "images").mkdir(parents=True)
    sources = sorted(photos.glob("*.jpg"))
    for number in range(1, n + 1):
        image = root / folder / "images" / f"{number:04d}.jpg"
        if number <= len(sources):
            shutil.copy(sources[number - 1], image)
        else:
            image.symlink_to(f"{number % len(sources) + 1:04d}.jpg")
        for ann, lang in (("CODA-LM", "en"), ("CODA-LM-chinese", "zh")):
            if lang == "zh" and not chinese:
                continue
            path = root / ann / split / f"{folder}_{number:04d}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(annotation(number, regions, lang)), encoding="utf-8")
    return root
