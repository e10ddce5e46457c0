"""Frames and notes of points and boxes, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from lmms_eval_ad2.core.coordinates import FRAMES
from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing import REASONS, parse

SIZE = (1600, 900)


def test_box_given_for_a_point_is_its_centre() -> None:
    assert parse("<100,200,300,500>", "point") == Answer("point", (200, 350), "centre of a box")
    assert parse("<0.25,0.5,0.75,1.0>", "point", image_size=SIZE) == Answer(
        "point", (800, 675), "centre of a box; proportional"
    )


def test_frame_of_a_centre_is_inferred_from_the_original_numbers() -> None:
    assert parse("[0, 0, 1, 1]", "point", image_size=SIZE) == Answer("point", (0.5, 0.5), "centre of a box")


@pytest.mark.parametrize(
    ("text", "frame", "want", "note"),
    [
        ("[0.5, 0.5]", "auto", (800, 450), "proportional"),
        ("[0.5, 0.5]", "pixel", (0.5, 0.5), ""),
        ("[1, 1]", "auto", (1, 1), ""),
        ("[1, 1]", "unit", (1600, 900), "proportional"),
        ("[500, 250]", "thousand", (800, 225), "per thousand"),
        ("[500, 250]", "auto", (500, 250), ""),
        ("[0.5, 1.5]", "auto", (0.5, 1.5), ""),
        ("[1700, 250]", "auto", (1700, 250), "outside the image"),
        ("[-1, 250]", "pixel", (-1, 250), "outside the image"),
        ("[1.5, 0.5]", "unit", (2400, 450), "proportional; outside the image"),
        ("[50, 25]", "percent", (800, 225), "percent"),
        ("[50%, 25%]", "auto", (800, 225), "percent"),
        ("[50%, 25%]", "pixel", (800, 225), "percent"),
        ("[250, 500]", "thousand_yx", (800, 225), "per thousand, y first"),
        ("x=500, y=250", "thousand_yx", (800, 225), "per thousand, y first"),
    ],
)
def test_coordinate_frames(text: str, frame: str, want: tuple[float, ...], note: str) -> None:
    assert parse(text, "point", image_size=SIZE, frame=frame) == Answer("point", want, note)  # type: ignore[arg-type]


def test_proportions_need_an_image_size() -> None:
    for frame in ("auto", "unit", "percent", "thousand", "thousand_yx"):
        got = parse("[0.5, 0.25]", "point", frame=frame)  # type: ignore[arg-type]
        assert isinstance(got, Unparsed) and got.reason == "no_image_size"


def test_pixels_of_the_model_s_input_are_scaled_by_its_size() -> None:
    text = "[1465.625, 767.4074, 1661.0417, 911.2963]"  # (1500, 800, 1700, 950) of 1920 x 1080
    got = parse(text, "box", image_size=(1920, 1080), frame="model_input", model_input=(1876, 1036))
    assert isinstance(got, Answer) and got.note == "pixels of the model's input"
    assert got.value == pytest.approx((1500, 800, 1700, 950), abs=1e-3)


def test_pixels_of_an_input_of_unknown_size_are_not_guessed() -> None:
    got = parse("[1, 2, 3, 4]", "box", image_size=SIZE, frame="model_input")
    assert isinstance(got, Unparsed) and got.reason == "no_model_input_size"
    got = parse("[1, 2, 3, 4]", "box", frame="model_input", model_input=(100, 100))
    assert isinstance(got, Unparsed) and got.reason == "no_image_size"


def test_reordered_corners_and_empty_boxes_are_noted() -> None:
    assert parse("[30, 5, 10, 25]", "box") == Answer("box", (10, 5, 30, 25), "corners reordered")
    assert parse("[10, 5, 10, 25]", "box") == Answer("box", (10, 5, 10, 25), "no area")


def test_box_with_named_width_and_height() -> None:
    assert parse('{"x": 10, "y": 20, "w": 5, "h": 6}', "box") == Answer(
        "box", (10, 20, 15, 26), "from width and height"
    )


def test_a_size_too_large_for_a_float_is_malformed() -> None:
    got = parse("[1e308, 1e308]", "point", image_size=(10**6, 10**6), frame="unit")
    assert isinstance(got, Unparsed) and got.reason == "malformed"


def test_requested_kind_is_read_from_a_reply_with_points_and_boxes() -> None:
    text = "[10, 20, 110, 220], centre (60, 120)"
    assert parse(text, "box") == Answer("box", (10, 20, 110, 220))
    assert parse(text, "point") == Answer("point", (60, 120))


PIECES = (
    *("<box>", "</box>", "<|box_start|>", "<|det|>", "<ref>", "<point x=", '"50"', " y=", "<points coords=", ">", "<"),
    *("<loc0123>", "<quad>", "[", "]", "(", ")", "{", "}", '"box_2d": ', '"point": ', '"label": ', ",", ";", " ", "%"),
    *("1", "064", "500", "0.5", "-3", "1e999", "nan", "x1=", "y=", "top-left ", "bottom-right ", "左上", "右下", "to"),
    *("width ", "centre ", "[x, y, w, h]", "0-1000", "normalised", "1600x900", "final ", "\\", "&lt;", "OUTPUT START"),
)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=24).map("".join),
    st.sampled_from(("point", "box")),
    st.sampled_from(FRAMES),
    st.sampled_from((None, SIZE)),
)
def test_any_text_of_marks_and_numbers_gives_finite_values_or_a_reason(
    text: str, form: Any, frame: Any, size: Any
) -> None:
    got = parse(text, form, image_size=size, frame=frame, model_input=(1400, 700))
    if isinstance(got, Unparsed):
        assert got.reason in REASONS
    else:
        values: Any = got.value
        assert len(values) == (2 if form == "point" else 4) and all(map(math.isfinite, values))
