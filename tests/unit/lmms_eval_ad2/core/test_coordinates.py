"""Conversion between frames, and the texts of --frame."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.tiers import examples

from lmms_eval_ad2.core.coordinates import FRAMES, FrameSetting, InputResizing, ResizeStep, from_pixels, to_pixels
from lmms_eval_ad2.core.errors import Ad2Error

SIZE, INPUT = (1600, 900), (1568, 868)
PIXELS = (400.0, 225.0, 800.0, 675.0)


@pytest.mark.parametrize(
    ("frame", "written"),
    [
        ("auto", PIXELS),
        ("pixel", PIXELS),
        ("unit", (0.25, 0.25, 0.5, 0.75)),
        ("percent", (25, 25, 50, 75)),
        ("thousand", (250, 250, 500, 750)),
        ("thousand_yx", (250, 250, 750, 500)),
        ("model_input", (392, 217, 784, 651)),
    ],
)
def test_each_frame_by_hand(frame: Any, written: tuple[float, ...]) -> None:
    assert from_pixels(PIXELS, frame, SIZE, INPUT) == pytest.approx(written)
    assert to_pixels(written, frame, SIZE, INPUT) == pytest.approx(PIXELS)


@given(st.sampled_from(FRAMES), st.tuples(*[st.floats(-3000, 3000)] * 4))
def test_conversion_is_reversible(frame: Any, values: tuple[float, ...]) -> None:
    written = from_pixels(values, frame, SIZE, INPUT)
    assert written is not None
    assert to_pixels(written, frame, SIZE, INPUT) == pytest.approx(values, abs=1e-6)


def test_a_missing_size_gives_none() -> None:
    for frame in ("unit", "percent", "thousand", "thousand_yx"):
        assert to_pixels((1, 2), frame, None) is None  # type: ignore[arg-type]
        assert from_pixels((1, 2), frame, None) is None  # type: ignore[arg-type]
    assert to_pixels((1, 2), "model_input", SIZE, None) is None
    assert from_pixels((1, 2), "model_input", None, INPUT) is None


def test_setting_names_a_frame_and_the_numbers_of_the_model_s_size() -> None:
    assert FrameSetting.parse("thousand", "--frame") == FrameSetting("thousand")
    assert FrameSetting.parse("model_input", "--frame") == FrameSetting("model_input")
    got = FrameSetting.parse("model_input:max_pixels=2007040,min_pixels=200704", "--frame")
    assert got.resizing == InputResizing((ResizeStep(28, 200704, 2007040),))
    got = FrameSetting.parse("model_input: max_pixels = 1000000, patch_size=16, merge_size=2", "--frame")
    assert got.resizing == InputResizing((ResizeStep(32, 4096, 1_000_000),))
    got = FrameSetting.parse("model_input:width=448,height=336", "--frame")
    assert got.resizing == InputResizing(fixed=(448, 336))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thousands", "did you mean 'thousand'"),
        ("", "expected one of auto, pixel"),
        ("pixels of it", "no coordinate frame"),
        ("thousand:max_pixels=3", "takes no arguments"),
        ("model_input:", "ends after the colon"),
        ("model_input:min_pixels=3", "needs max_pixels"),
        ("model_input:width=3", "needs max_pixels, or width and height"),
        ("model_input:max_pixels=3,width=2,height=3", "needs max_pixels"),
        ("model_input:max_pixel=3", "did you mean max_pixels"),
        ("model_input:max_pixels=1e6", "whole number"),
        ("model_input:max_pixels=0", "whole number"),
        ("model_input:max_pixels=10,min_pixels=20", "above max_pixels"),
        (None, "no coordinate frame"),
    ],
)
def test_invalid_setting_is_one_error_that_names_the_option(text: Any, message: str) -> None:
    with pytest.raises(Ad2Error, match="--frame: ") as error:
        FrameSetting.parse(text, "--frame")
    assert message in str(error.value) and "\n" not in str(error.value)


DEFAULT = ResizeStep(28, 256 * 28 * 28, 1_605_632)  # lmms-eval's defaults for qwen2_5_vl


def test_sizes_worked_out_by_hand() -> None:
    # 1080 x 1920 is above 1,605,632 pixels: beta = 1.1364, 1080 / beta = 950.4 -> 33 x 28, 1920 / beta -> 60 x 28
    assert DEFAULT.apply((1920, 1080)) == (1680, 924)
    assert ResizeStep(28, 256 * 28 * 28, 2_007_040).apply((1920, 1080)) == (1876, 1036)
    assert ResizeStep(28, 3136, 12_845_056).apply((1920, 1080)) == (1932, 1092)
    assert ResizeStep(28, 3136, 12_845_056).apply((1600, 900)) == (1596, 896)


def test_an_image_that_the_processor_refuses_has_no_size() -> None:
    assert DEFAULT.apply((20_100, 100)) is None
    assert DEFAULT.apply((0, 100)) is None
    assert InputResizing((DEFAULT, DEFAULT)).size_of((20_100, 100)) is None
    assert InputResizing((DEFAULT,)).size_of(None) is None
    assert InputResizing(fixed=(448, 448)).size_of(None) == (448, 448)


steps = st.builds(
    lambda factor, low, extra: ResizeStep(factor, low * factor**2, (low + extra) * factor**2),
    st.sampled_from((1, 28, 32)), st.integers(1, 600), st.integers(0, 20_000),
)  # fmt: skip


@pytest.mark.integration
@settings(max_examples=examples(200), deadline=None)
@given(st.integers(28, 9000), st.integers(28, 9000), steps)
@example(1920, 1080, DEFAULT)
def test_step_equals_the_functions_of_transformers_and_qwen_vl_utils(width: int, height: int, step: Any) -> None:
    limits = {"factor": step.factor, "min_pixels": step.min_pixels, "max_pixels": step.max_pixels}
    got = step.apply((width, height))
    for module in ("transformers.models.qwen2_vl.image_processing_qwen2_vl", "qwen_vl_utils.vision_process"):
        smart_resize = pytest.importorskip(module).smart_resize
        if got is None:
            with pytest.raises(ValueError, match="aspect ratio"):
                smart_resize(height, width, **limits)
        elif min(want := smart_resize(height, width, **limits)) > 0:  # 0: a side below the factor, which fails later
            assert got == (want[1], want[0])


@pytest.mark.integration
@pytest.mark.parametrize("size", [(1920, 1080), (1600, 900), (640, 360), (333, 777), (2000, 30)])
@pytest.mark.parametrize("limits", [{}, {"min_pixels": 200_704, "max_pixels": 401_408}, {"patch_size": 16}])
def test_step_equals_the_real_processor(size: tuple[int, int], limits: dict[str, int]) -> None:
    transformers = pytest.importorskip("transformers")
    processor = transformers.Qwen2VLImageProcessor(**limits)
    grid = processor([Image.new("RGB", size)], return_tensors="np")["image_grid_thw"][0]
    low, high = processor.size["shortest_edge"], processor.size["longest_edge"]
    factor = processor.patch_size * processor.merge_size
    want = (int(grid[2]) * processor.patch_size, int(grid[1]) * processor.patch_size)
    assert ResizeStep(factor, low, high).apply(size) == want


def test_json_is_read_back() -> None:
    for resizing in (InputResizing(), InputResizing((DEFAULT, ResizeStep(1, 1, 5))), InputResizing(fixed=(448, 336))):
        assert InputResizing.from_json(resizing.to_json(), "summary.json") == resizing
    assert InputResizing.from_json(None, "summary.json") is None


@pytest.mark.parametrize(
    "data", ["28", [], {}, {"steps": 3}, {"steps": [{"factor": 28}]}, {"fixed": [0, 3]}, {"fixed": [1.5, 3]},
             {"steps": [{"factor": 28, "min_pixels": 1, "max_pixels": "9"}]}],
)  # fmt: skip
def test_broken_json_is_one_error_with_the_field(data: Any) -> None:
    with pytest.raises(Ad2Error, match=r"summary\.json: field 'model_input'"):
        InputResizing.from_json(data, "summary.json")
