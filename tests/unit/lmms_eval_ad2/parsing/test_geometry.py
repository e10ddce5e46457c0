"""Frames and notes of points and boxes, worked out by hand."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.records import Answer, Unparsed

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
    ],
)
def test_coordinate_frames(text: str, frame: str, want: tuple[float, ...], note: str) -> None:
    assert parse(text, "point", image_size=SIZE, frame=frame) == Answer("point", want, note)  # type: ignore[arg-type]


def test_proportions_need_an_image_size() -> None:
    for frame in ("auto", "unit", "thousand"):
        got = parse("[0.5, 0.25]", "point", frame=frame)
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
