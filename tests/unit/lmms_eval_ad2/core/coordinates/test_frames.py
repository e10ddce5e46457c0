"""Conversion between frames, and the texts of --frame."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.core.coordinates import FRAMES, FrameSetting, InputResizing, from_pixels, to_pixels
from lmms_eval_ad2.core.coordinates.model_input import ResizeStep
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
