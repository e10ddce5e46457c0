"""The packaged sample equals the output of scripts/sample."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scripts.sample.write import GENERATOR, PACKAGE_DATA, drawn_with, write_package_data

MEAN_DIFFERENCE = 0.1  # of a picture's 8-bit values; Pillow 10.4 and 12.3 differ by 0.002, two scenes by 24


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("package_data")
    write_package_data(out)
    return out


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob(pattern))


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), np.int16)


@pytest.mark.integration
def test_generated_records_equal_the_packaged_ones(drawn: Path) -> None:
    assert len(files(drawn, "*.jsonl")) == 3
    assert files(drawn, "*.jsonl") == files(PACKAGE_DATA, "*.jsonl")
    for file in files(drawn, "*.jsonl"):
        assert (drawn / file).read_bytes() == (PACKAGE_DATA / file).read_bytes(), file


@pytest.mark.integration
def test_generated_images_equal_the_packaged_ones(drawn: Path) -> None:
    """Equal bytes with the libraries that drew the packaged images; with others, no visible difference."""
    version = json.loads((PACKAGE_DATA / "version.json").read_text("utf-8"))
    assert version["generator"] == GENERATOR
    assert len(files(drawn, "*.jpg")) == 21 + 12 + 4 * 6
    assert files(drawn, "*.jpg") == files(PACKAGE_DATA, "*.jpg")
    for file in files(drawn, "*.jpg"):
        if drawn_with() == version["drawn_with"]:
            assert (drawn / file).read_bytes() == (PACKAGE_DATA / file).read_bytes(), file
        else:
            assert np.abs(pixels(drawn / file) - pixels(PACKAGE_DATA / file)).mean() < MEAN_DIFFERENCE, file
