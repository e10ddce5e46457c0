"""Native notations of model families, each for one box and one point, in the stored image's pixels."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lmms_eval_ad2.core.coordinates import FRAMES
from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing import parse

SIZE = (1600, 900)
BOX = (400.0, 225.0, 800.0, 675.0)  # 250, 250, 500, 750 of a thousand
POINT = (800.0, 225.0)

BOXES = {
    "Qwen-VL": "<ref>the 2nd car</ref><box>(250,250),(500,750)</box>",
    "Qwen2-VL": "<|object_ref_start|>car 3<|object_ref_end|><|box_start|>(250,250),(500,750)<|box_end|>",
    "MiniCPM-V": "<ref>car</ref><box>250 250 500 750</box>",
    "MiniCPM-V, not closed": "<box>250 250 500 750<box>",
    "Seed1.5-VL": "<bbox>250 250 500 750</bbox>",
    "InternVL": "<ref>car</ref><box>[[250, 250, 500, 750]]</box>",
    "quadrilateral": "<quad>250 250 500 250 500 750 250 750</quad>",
    "Gemini": '```json\n[{"box_2d": [250, 250, 750, 500], "label": "car"}]\n```',
    "Gemini, cut off": '[{"box_2d": [250, 250, 750, 500], "label": "a long na',
    "Gemini, escaped": r"{\"box\_2d\": [250, 250, 750, 500]}",
    "Florence-2": "<loc_250><loc_250><loc_500><loc_750>",
    "PaliGemma": "<loc0256><loc0256><loc0768><loc0512> car",
    "LLaVA": "[0.25, 0.25, 0.5, 0.75]",
    "HTML": "&lt;box&gt;(250,250),(500,750)&lt;/box&gt;",
    "Markdown": r"\<box\>(250,250),(500,750)\</box\>",
    "full width": "＜box＞（250，250），（500，750）＜／box＞",
    "fractions": "<|box_start|>(0.25,0.25),(0.5,0.75)<|box_end|>",
}
POINTS = {
    "Molmo": '<point x="50.0" y="25.0" alt="car">car</point>',
    "Molmo, points": '<points x1="50.0" y1="25.0" alt="cars">cars</points>',
    "Molmo2": '<points coords="1 1 500 250">car</points>',
    "MiniCPM-V": "<point>500 250</point>",
    "Qwen2-VL": "<|box_start|>(500,250)<|box_end|>",
    "Gemini": '[{"point": [250, 500], "label": "car"}]',
    "LLaVA": "(0.5, 0.25)",
}


@pytest.mark.parametrize("family", BOXES)
def test_native_box(family: str) -> None:
    got = parse(BOXES[family], "box", image_size=SIZE)
    assert isinstance(got, Answer), got
    assert got.value == pytest.approx(BOX)


@pytest.mark.parametrize("family", POINTS)
def test_native_point(family: str) -> None:
    got = parse(POINTS[family], "point", image_size=SIZE)
    assert isinstance(got, Answer), got
    assert got.value == pytest.approx(POINT)


def test_deepseek_divides_by_999() -> None:
    for bar in "|｜":
        text = f"<{bar}ref{bar}>car<{bar}/ref{bar}><{bar}det{bar}>[[0, 333, 999, 666]]<{bar}/det{bar}>"
        assert parse(text, "box", image_size=(999, 999)) == Answer("box", (0, 333, 999, 666), "0 to 999")


def test_padded_numbers_are_those_of_cogvlm_and_others_are_pixels() -> None:
    assert parse("[[064,100,500,800]]", "box", image_size=(1000, 500)).value == pytest.approx((64, 50, 500, 400))  # type: ignore[union-attr]
    assert parse("[[264,100,500,800]]", "box", image_size=(1000, 500)).value == (264, 100, 500, 800)  # type: ignore[union-attr]
    two = parse("[[064,100,500,800;010,020,030,040]]", "box", image_size=SIZE)
    assert isinstance(two, Unparsed) and two.reason == "several_boxes"


def test_a_list_of_points_is_no_box() -> None:
    for text in ('<points x1="10" y1="20" x2="30" y2="40">', '<points coords="1 1 100 200 2 300 400">'):
        for form in ("point", "box"):
            got = parse(text, form, image_size=SIZE)  # type: ignore[arg-type]
            assert isinstance(got, Unparsed) and got.reason == "several_points"


def test_keys_of_two_generations_are_pixels_unless_a_frame_is_named() -> None:
    box, point = '{"bbox_2d": [250, 250, 500, 750]}', '{"point_2d": [500, 250], "label": "car"}'
    assert parse(box, "box", image_size=SIZE).value == (250, 250, 500, 750)  # type: ignore[union-attr]
    assert parse(point, "point", image_size=SIZE).value == (500, 250)  # type: ignore[union-attr]
    assert parse(box, "box", image_size=SIZE, frame="thousand").value == BOX  # type: ignore[union-attr]
    assert parse(point, "point", image_size=SIZE, frame="thousand").value == POINT  # type: ignore[union-attr]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_notation_with_one_meaning_holds_against_a_named_frame(frame: Any) -> None:
    sizes = {"image_size": SIZE, "model_input": (1568, 868)}
    for text in (BOXES["Gemini"], BOXES["PaliGemma"], "[25%, 25%, 50%, 75%]"):
        assert parse(text, "box", frame=frame, **sizes).value == pytest.approx(BOX)  # type: ignore[union-attr, arg-type]
    for text in (POINTS["Molmo"], POINTS["Molmo2"]):
        assert parse(text, "point", frame=frame, **sizes).value == pytest.approx(POINT)  # type: ignore[union-attr, arg-type]


def test_a_named_frame_holds_against_a_notation_that_families_share() -> None:
    for text in (BOXES["Qwen2-VL"], BOXES["MiniCPM-V"], BOXES["InternVL"]):
        assert parse(text, "box", image_size=SIZE, frame="pixel").value == (250, 250, 500, 750)  # type: ignore[union-attr]
        got = parse(text, "box", image_size=SIZE, frame="model_input", model_input=(1000, 1000))
        assert got.value == BOX  # type: ignore[union-attr]
        # These families write x first.
        assert parse(text, "box", image_size=SIZE, frame="thousand_yx").value == BOX  # type: ignore[union-attr]


def test_numbers_beyond_a_notation_are_bare_numbers() -> None:
    assert parse('<point x="850" y="420">', "point", image_size=SIZE).value == (850, 420)  # type: ignore[union-attr]
    assert parse("<box>1100 300 1500 700</box>", "box", image_size=SIZE).value == (1100, 300, 1500, 700)  # type: ignore[union-attr]


def test_proportional_notations_need_an_image_size() -> None:
    for text in (BOXES["Qwen-VL"], BOXES["Gemini"], BOXES["PaliGemma"]):
        got = parse(text, "box")
        assert isinstance(got, Unparsed) and got.reason == "no_image_size"


PIECES = (
    *("<box>", "<box>1 2 3 4", "<point ", '<points x1="1" y1="2" ', "<loc0001>", "<ref>", "<p>", "<|box_start|>(1,2),"),
    *("top-left (1,2) ", "左上", "[[001,", "[x1, y1, ", "x, y, ", "normalized to 0-", '{"bbox":[1,2,', '{"a":['),
    *("[1,2,3,4;", "&lt;", "\\", '\\\\"', "center (1", "x from ", "1%,", "between (1,2)", "1600x", "(1,2) and "),
    *(
        "(1,2),(3,4) x ",
        "[[1,2],[3,4]] ",
        "[1,2,3,4,5,6,7,8] ",
        "x1=1,y1=2,x2=3,y2=4 ",
        "cx=1 ",
        "</",
        "{",
        "range 0 to ",
    ),
)


@pytest.mark.integration
@pytest.mark.parametrize("form", ["point", "box"])
def test_repeated_pieces_of_notations_take_linear_time(form: Any) -> None:
    def seconds(text: str) -> float:
        start = time.process_time()
        parse(text, form, image_size=SIZE)
        return time.process_time() - start

    for piece in PIECES:
        short, long = ((piece * (size // len(piece) + 1))[:size] for size in (4_000, 32_000))
        # Eight times the text: linear is 8 times the CPU time, quadratic 64.
        assert any(seconds(long) <= 30 * max(seconds(short), 0.004) for _ in range(5)), piece
