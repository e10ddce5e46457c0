"""Drawn pixels, and refused files."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFile, ImageOps
from support.prompt_records import SIX, ad2, coda, mcq

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, ReasoningStep, VisualPrompt
from lmms_eval_ad2.prompts.task_prompt import can_ask
from lmms_eval_ad2.prompts.text import build, build_round
from lmms_eval_ad2.prompts.views import shown
from lmms_eval_ad2.prompts.visual import effective_mark, render
from lmms_eval_ad2.scoring.variant import TaskVariant

RED, BLACK = (255, 0, 0), (0, 0, 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    Image.new("RGB", (960, 540), BLACK).save(tmp_path / "a.png")
    for k, view in enumerate(SIX):
        Image.new("RGB", (320, 180), (40 * k, 0, 255 - 40 * k)).save(tmp_path / f"{view}.png")
    return tmp_path


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image)


def test_coda_rectangle_is_red_two_pixels_inside_its_box(root: Path) -> None:
    picture = pixels(render(coda("region"), root)[0])
    red = (picture == RED).all(-1)
    rows, columns = np.nonzero(red)
    assert (columns.min(), rows.min(), columns.max(), rows.max()) == (96, 54, 480, 270)
    middle = red[162]
    assert np.flatnonzero(middle).tolist() == [96, 97, 479, 480]
    assert np.flatnonzero(red[:, 288]).tolist() == [54, 55, 269, 270]
    assert (picture[~red] == 0).all(), "nothing else is drawn, and nothing cropped"


def test_coda_rectangle_is_what_pil_draws_for_float_boxes(root: Path) -> None:
    x, y, w, h = 100.4, 60.7, 200.3, 99.9
    record = replace(coda("region"), mark=VisualPrompt("box", ((x, y, x + w, y + h),)))
    expected = Image.open(root / "a.png")
    ImageDraw.Draw(expected).rectangle([x, y, x + w, y + h], outline="red", width=2)
    assert (pixels(render(record, root)[0]) == pixels(expected)).all()


def test_coda_width_does_not_grow_with_the_image(tmp_path: Path) -> None:
    Image.new("RGB", (3840, 2160)).save(tmp_path / "a.png")
    record = replace(coda("region"), image_size=(3840, 2160), mark=VisualPrompt("box", ((400.0, 400.0, 900.0, 900.0),)))
    red = (pixels(render(record, tmp_path)[0]) == RED).all(-1)
    assert np.flatnonzero(red[600]).tolist() == [400, 401, 899, 900]


def test_point_is_a_red_disc_in_a_white_ring(root: Path) -> None:
    picture = pixels(render(ad2(mark=VisualPrompt("point", ((300.0, 200.0),))), root)[0])
    red, white = (picture == RED).all(-1), (picture == 255).all(-1)
    rows, columns = np.nonzero(red)
    assert abs(columns.mean() - 300) < 0.6
    assert abs(rows.mean() - 200) < 0.6
    assert 10 <= columns.max() - columns.min() <= 16
    ys, xs = np.nonzero(white)
    assert xs.min() < columns.min()
    assert xs.max() > columns.max()
    assert ys.min() < rows.min()


def test_box_shown_as_a_point_is_its_centre(root: Path) -> None:
    record = ad2(mark=VisualPrompt("box", ((100.0, 100.0, 300.0, 200.0),)))
    assert effective_mark(record, "point") == VisualPrompt("point", ((200.0, 150.0),))
    picture = pixels(render(record, root, mark="point")[0])
    assert tuple(picture[150, 200]) == RED
    assert tuple(picture[100, 200]) == BLACK


def test_several_marks_have_different_numbers_inside_the_image(root: Path) -> None:
    boxes = ((0.0, 0.0, 50.0, 40.0), (900.0, 500.0, 959.0, 539.0))
    one = pixels(render(ad2(mark=VisualPrompt("box", boxes[:1])), root)[0])
    two = pixels(render(ad2(mark=VisualPrompt("box", boxes)), root)[0])
    assert (one[:30, :30] != two[:30, :30]).any(), "a single mark has no number, two have"
    swapped = pixels(render(ad2(mark=VisualPrompt("box", boxes[::-1])), root)[0])
    assert (two[:30, :30] != swapped[:30, :30]).any()


@pytest.mark.parametrize("kind", ["none", "coords", "reference"])
def test_marks_in_text_are_not_drawn(root: Path, kind: str) -> None:
    assert not pixels(render(coda("region"), root, mark=kind)[0]).any()  # type: ignore[arg-type]


def test_the_mark_of_a_step_is_drawn_and_named_in_its_round(root: Path) -> None:
    """Step 1 has no mark of its own: the record's box. Step 2 has a point. Step 3 has none, by its own mark."""
    step = ReasoningStep(BilingualText("s"), BilingualText("What?"), BilingualText("A car."))
    own = (None, VisualPrompt("point", ((480.0, 270.0),)), VisualPrompt())
    steps = tuple(replace(step, mark=mark) for mark in own)
    record = replace(ad2("chain"), mark=VisualPrompt("box", ((96.0, 54.0, 480.0, 270.0),)), steps=steps)
    drawn = [pixels(render(record, root, step=i)[0]) for i in range(3)]
    assert tuple(drawn[0][54, 300]) == RED
    assert tuple(drawn[1][270, 480]) == RED
    assert tuple(drawn[1][54, 300]) == BLACK
    assert not drawn[2].any()
    assert (pixels(render(record, root)[0]) == drawn[0]).all(), "in one turn, the record's mark"
    texts = [build_round(record, i, ["a", "b"]) for i in range(3)]
    assert ["box" in t.split("\n")[0] for t in texts] == [True, False, False]
    assert ["point" in t.split("\n")[0] for t in texts] == [False, True, False]
    assert effective_mark(record, "none", 1).kind == "none"
    assert effective_mark(record, "coords", 1) == VisualPrompt("text", own[1].coords)  # type: ignore[union-attr]


def test_box_from_a_point_is_refused() -> None:
    with pytest.raises(Ad2Error, match="cannot be made"):
        effective_mark(ad2(mark=VisualPrompt("point", ((3.0, 4.0),))), "box")


def test_coordinates_and_references_are_two_ways_to_name_a_target_in_words() -> None:
    words = BilingualText("the white car", "白色轿车")
    box = VisualPrompt("box", ((10.0, 20.0, 110.0, 220.0),), words)
    assert effective_mark(ad2(mark=box), "coords") == VisualPrompt("text", box.coords)
    assert effective_mark(ad2(mark=box), "reference") == VisualPrompt("text", (), words)
    asked = {kind: build(ad2(mark=box), mark=kind).split("\n")[0] for kind in ("native", "coords", "reference")}  # type: ignore[arg-type]
    assert "red box" in asked["native"] and "white car" not in asked["native"] + asked["coords"]
    assert "[0.010, 0.037, 0.115, 0.407]" in asked["coords"]
    assert asked["reference"] == "What is asked about: the white car."
    assert "白色轿车" in build(ad2(mark=box), mark="reference", lang="zh")
    unnamed = ad2(mark=replace(box, text=BilingualText()))
    assert effective_mark(unnamed, "reference") == VisualPrompt()
    variant = TaskVariant("ad2_bench", "perception_base", mark="reference")
    assert can_ask(ad2(mark=box), variant) and not can_ask(unnamed, variant)


def test_marks_without_coordinates_keep_their_text() -> None:
    mark = VisualPrompt("text", (), BilingualText("the white car"))
    assert effective_mark(ad2(mark=mark), "point") == mark
    assert effective_mark(ad2(), "box") == VisualPrompt()


@pytest.mark.parametrize(
    "mark",
    [
        VisualPrompt("box"),
        VisualPrompt("box", ((1.0, 2.0),)),
        VisualPrompt("point", ((1.0, float("nan")),)),
        VisualPrompt("box", ((9.0, 0.0, 3.0, 5.0),)),
    ],
)
def test_invalid_coordinates_are_reported(mark: VisualPrompt) -> None:
    with pytest.raises(DataError, match=r"mark\.coords"):
        effective_mark(ad2(mark=mark))


# --- views ---


def test_views_in_order_front_alone_and_mosaic(root: Path) -> None:
    record = replace(mcq(SIX), image_size=None)
    assert [pixels(i)[0, 0, 0] for i in render(record, root)] == [0, 40, 80, 120, 160, 200]
    (front,) = render(record, root, views="front")
    assert pixels(front)[0, 0, 0] == 0
    (grid,) = render(record, root, layout="mosaic")
    assert grid.size == (1920, 720)
    picture = pixels(grid)
    centres = [[picture[180 + 360 * r, 320 + 640 * c, 0] for c in range(3)] for r in range(2)]
    assert centres == [[40, 0, 80], [160, 120, 200]]
    assert (picture[4:20, 6:60] == 255).any(), "each view carries its name"


def test_front_view_of_one_camera_is_its_last_frame() -> None:
    frames = mcq(tuple(f"frame {i}" for i in range(1, 4)))
    assert [view for view, _ in shown(frames, "front")] == ["frame 3"]
    assert len(shown(frames, "asked")) == 3, "a question about frames of one camera names none of them"


ALL = ["front", "front_left", "front_right", "back", "back_left", "back_right"]


@pytest.mark.parametrize(
    ("question", "cameras"),
    [
        ("What are objects to the back left of the ego car?", ["back_left"]),
        ("Is the car to the front of me moving?", ["front"]),
        ("What is the state of <c1,CAM_BACK,1088.3,497.5>?", ["back"]),
        ("Will <c1,CAM_BACK_RIGHT,1.0,2.0> follow <c2,CAM_FRONT,3.0,4.0>?", ["front", "back_right"]),
        ("Is there a bus behind us?", ["back"]),
        ("Is anything in front of the ego car or to the back left of me?", ["front", "back_left"]),
        ("Is there any traffic element in the front view?", ["front"]),
        ("What is to the rear-right of the ego car?", ["back_right"]),
        # No camera is named: the whole scene is asked about.
        ("What are safe actions for the ego vehicle?", ALL),
        ("What are the important objects in the current scene?", ALL),
        ("Is the front door of the bus open?", ALL),
        ("Should the ego car go back?", ALL),
        # Directions from another object name no camera.
        ("Is there a bus behind the truck?", ALL),
        ("What is to the back left of the bus?", ALL),
        ("What is to the back left of the bus that is to the front of me?", ["front"]),
        ("What is on the front left side of <c1,CAM_BACK,1088.3,497.5>?", ["back"]),
        # Another object than the named one is searched for.
        ("What object would consider <c1,CAM_BACK,1088.3,497.5> to be most relevant to its decision?", ALL),
        ("Is there another car with the same status as the truck to the front of me?", ALL),
    ],
)
def test_cameras_named_in_a_question_are_shown(question: str, cameras: list[str]) -> None:
    record = replace(mcq(SIX), question=BilingualText(question), answer=BilingualText("<c9,CAM_FRONT_RIGHT,1.0,2.0>"))
    assert [view for view, _ in shown(record, "asked")] == cameras
    assert [view for view, _ in shown(record, "front")] == ["front"]


# --- files ---


def test_missing_and_broken_files_are_reported(root: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.png.*no such file.*import"):
        render(ad2(images=("gone.png",)), root)
    (root / "bad.png").write_bytes(b"no image at all")
    with pytest.raises(DataError, match=r"bad\.png.*Fetch this file again"):
        render(ad2(images=("bad.png",)), root)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
@pytest.mark.parametrize("lenient", [False, True])
def test_truncated_files_are_refused_under_any_setting_of_pil(
    root: Path, monkeypatch: pytest.MonkeyPatch, form: str, lenient: bool
) -> None:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (540, 960, 3), np.uint8)
    Image.fromarray(noise).save(buffer, form)
    (root / "half").write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    with pytest.raises(DataError, match="half"):
        render(ad2(images=("half",)), root)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is lenient


def test_size_other_than_annotated_is_refused(root: Path) -> None:
    with pytest.raises(DataError, match="1600 x 900 as annotated, found '960x540'"):
        render(ad2(image_size=(1600, 900)), root)


def turned(root: Path, orientation: int) -> str:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (960, 540)).save(root / "turned.jpg", exif=exif)
    return "turned.jpg"


def test_exif_orientation_is_applied_once(root: Path) -> None:
    (image,) = render(ad2(images=(turned(root, 6),), image_size=(540, 960)), root)
    assert image.size == (540, 960)
    assert ImageOps.exif_transpose(image).size == (540, 960)


def test_a_size_of_the_stored_pixels_is_refused_by_name_of_the_orientation(root: Path) -> None:
    with pytest.raises(DataError, match="960 x 540 as annotated, found '540x960 as its EXIF orientation 6 shows it"):
        render(ad2(images=(turned(root, 6),), image_size=(960, 540)), root)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_every_mode_is_converted_to_rgb(root: Path, mode: str) -> None:
    name = f"{mode}.tif" if mode == "CMYK" else f"{mode}.png"
    Image.new(mode, (960, 540)).save(root / name)
    (image,) = render(ad2(images=(name,)), root)
    assert image.mode == "RGB"
    assert ImageOps.exif_transpose(image).size == (960, 540)


def test_mosaic_of_real_nuscenes_views(data_dir: Path) -> None:
    folder = data_dir / "drivelm" / "images" / "samples"
    paths = [sorted((folder / view).glob("*.jpg"))[0].relative_to(folder) for view in SIX]
    record = replace(mcq(SIX), images=tuple(map(str, paths)))
    assert [i.size for i in render(record, folder)] == [(1600, 900)] * 6
    (grid,) = render(record, folder, layout="mosaic")
    assert grid.size == (1920, 720)
    front = Image.open(folder / paths[0]).resize((640, 360))
    cell = grid.crop((640, 0, 1280, 360))
    difference = np.abs(pixels(cell).astype(int) - pixels(front)).mean(axis=(1, 2))
    assert difference[60:].mean() < 8, "the front camera stands in the middle of the upper row"
