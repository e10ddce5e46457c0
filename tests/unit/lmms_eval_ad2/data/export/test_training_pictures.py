"""Training images: unmarked ones by path, marked ones written once, all as in the evaluation."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from PIL import Image
from support.builders import chain
from support.training_sets import MCQ, MOSAIC, SIZE, mcq, picture, six_views

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import VisualPrompt
from lmms_eval_ad2.data.export.training import TrainingImages
from lmms_eval_ad2.scoring.variant import TaskVariant

BOXED = mcq(1, benchmark="coda_lm", mark=VisualPrompt("box", ((5.0, 5.0, 30.0, 20.0),)))


def test_turns_have_the_mark_of_their_step(tmp_path: Path) -> None:
    Image.new("RGB", (100, 50)).save(tmp_path / "a.jpg")
    one = chain(steps=2)
    dot = dataclasses.replace(one.steps[1], mark=VisualPrompt("point", ((50.0, 25.0),)))
    one = dataclasses.replace(one, steps=(one.steps[0], dot))
    images = TrainingImages(tmp_path / "out")
    rounds = TaskVariant("ad2_bench", "cot", rounds=True)
    assert images.of(one, tmp_path, rounds, 0) == [str(tmp_path / "a.jpg")]
    (file,) = images.of(one, tmp_path, rounds, 1)
    assert file.startswith(str(tmp_path / "out"))
    assert images.of(one, tmp_path, TaskVariant("ad2_bench", "cot", style="chain")) == [str(tmp_path / "a.jpg")]


def test_unmarked_image_is_the_original_file(tmp_path: Path) -> None:
    picture(tmp_path / "1.png", 1)
    images = TrainingImages(tmp_path / "out")
    assert images.of(mcq(1), tmp_path, MCQ.variant) == [str(tmp_path / "1.png")]
    as_text = TaskVariant("coda_lm", "region", coords=True)  # coordinates in the prompt: nothing is drawn
    assert images.of(BOXED, tmp_path, as_text) == [str(tmp_path / "1.png")]
    assert not images.folder.exists()


def test_a_mark_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture(tmp_path / "1.png", 1)
    images = TrainingImages(tmp_path / "out")
    (file,) = images.of(BOXED, tmp_path, TaskVariant("coda_lm", "region"))
    with Image.open(file) as image:
        assert (image.format, image.size) == ("JPEG", SIZE)
        red, green, _ = image.getpixel((17, 5))
        assert red > green + 120
    before = Path(file).stat().st_mtime_ns
    monkeypatch.setattr("lmms_eval_ad2.data.export.training.atomic_write_bytes", None)  # a second writing would fail
    assert images.of(BOXED, tmp_path, TaskVariant("coda_lm", "region")) == [file]
    assert TrainingImages(tmp_path / "out").of(BOXED, tmp_path, TaskVariant("coda_lm", "region")) == [file]
    assert Path(file).stat().st_mtime_ns == before


def test_mosaic_is_one_image_for_all_questions_of_its_frame(tmp_path: Path) -> None:
    first, other = six_views(1), six_views(1, id="q1b")
    for position, image in enumerate(first.images):
        picture(tmp_path / image, 30 * position)
    images = TrainingImages(tmp_path / "out")
    assert images.of(first, tmp_path, MOSAIC.variant) == images.of(other, tmp_path, MOSAIC.variant)
    assert len(images.drawn) == 1
    assert images.of(first, tmp_path, MCQ.variant) == [str(tmp_path / "CAM_FRONT/1.png")]


def test_image_with_exif_orientation_is_written_as_in_the_evaluation(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.linear_gradient("L").resize(SIZE).convert("RGB").save(tmp_path / "1.png", exif=exif)
    images = TrainingImages(tmp_path / "out")
    (file,) = images.of(dataclasses.replace(mcq(1), image_size=SIZE[::-1]), tmp_path, MCQ.variant)
    with Image.open(file) as image:
        assert image.size == SIZE[::-1]
        assert not image.getexif()
    assert Path(file).is_relative_to(tmp_path / "out")


def test_images_that_training_programs_may_show_otherwise_are_written(tmp_path: Path) -> None:
    Image.new("RGBA", SIZE, (255, 0, 0, 0)).save(tmp_path / "1.png")
    (file,) = TrainingImages(tmp_path / "out").of(mcq(1), tmp_path, MCQ.variant)
    with Image.open(file) as image:
        assert image.getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("content", [None, b"", b"not an image", b"\x89PNG\r\n\x1a\n cut off"])
def test_unreadable_image_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "1.png").write_bytes(content)
    with pytest.raises(DataError, match=r"1\.png"):
        TrainingImages(tmp_path / "out").of(mcq(1), tmp_path, MCQ.variant)
