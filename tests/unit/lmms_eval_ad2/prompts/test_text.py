"""Every prompt compared with its snapshot (UPDATE_SNAPSHOTS=1 rewrites them) and the published answer formats."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.prompt_records import SIX, ad2, chain, choice, coda, mcq
from support.snapshots import snapshot

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, VisualPrompt
from lmms_eval_ad2.prompts.text import build, build_round, can_ask

SNAPSHOTS = Path(__file__).parent / "snapshots"
TAGGED = "What will <c1,CAM_BACK,1088.3,497.5> do?"
NAMED = VisualPrompt("text", (), BilingualText("the white van at the kerb", "路边的白色面包车"))
BOX, POINT = VisualPrompt("box", ((10, 20, 110, 220),)), VisualPrompt("point", ((48.0, 27.0), (480.0, 270.0)))

CASES: dict[str, Callable[[], str]] = {
    "ad2_mc": lambda: build(choice()),
    "ad2_mc_zh": lambda: build(choice(), lang="zh"),
    "ad2_mc_as_vqa": lambda: build(choice(), form="vqa"),
    "ad2_vqa": lambda: build(ad2()),
    "ad2_vqa_zh": lambda: build(ad2(), lang="zh"),
    "ad2_vqa_relation": lambda: build(ad2(task="relation", mark=POINT)),
    "ad2_vqa_relation_zh": lambda: build(ad2(task="relation", mark=POINT), lang="zh"),
    "ad2_vqa_reasoning": lambda: build(ad2(task="reasoning", mark=BOX)),
    "ad2_vqa_reasoning_zh": lambda: build(ad2(task="reasoning", mark=BOX), lang="zh"),
    "ad2_vqa_box_as_point": lambda: build(ad2(mark=BOX), mark="point"),
    "ad2_vqa_box_as_words": lambda: build(ad2(mark=BOX), mark="coords"),
    "ad2_vqa_points_as_words": lambda: build(ad2(mark=POINT), coords=True),
    "ad2_vqa_points_as_words_zh": lambda: build(ad2(mark=POINT), coords=True, lang="zh"),
    "ad2_vqa_text_mark": lambda: build(ad2(mark=NAMED)),
    "ad2_vqa_text_mark_zh": lambda: build(ad2(mark=NAMED), lang="zh"),
    "ad2_vqa_points_as_reference": lambda: build(ad2(mark=replace(POINT, text=NAMED.text)), mark="reference"),
    "ad2_yesno": lambda: build(ad2("yesno")),
    "ad2_yesno_zh": lambda: build(ad2("yesno"), lang="zh"),
    "ad2_count": lambda: build(ad2("count")),
    "ad2_count_zh": lambda: build(ad2("count"), lang="zh"),
    "ad2_ocr": lambda: build(ad2("ocr", mark=BOX)),
    "ad2_ocr_zh": lambda: build(ad2("ocr", mark=BOX), lang="zh"),
    "ad2_point": lambda: build(ad2("point")),
    "ad2_point_zh": lambda: build(ad2("point"), lang="zh"),
    "ad2_point_thousand": lambda: build(ad2("point"), frame="thousand"),
    "ad2_box": lambda: build(ad2("box")),
    "ad2_box_zh": lambda: build(ad2("box"), lang="zh"),
    "ad2_box_unit": lambda: build(ad2("box"), frame="unit"),
    "ad2_box_thousand_yx": lambda: build(ad2("box"), frame="thousand_yx"),
    "ad2_point_thousand_yx_zh": lambda: build(ad2("point"), frame="thousand_yx", lang="zh"),
    "ad2_point_percent": lambda: build(ad2("point"), frame="percent"),
    "ad2_box_model_input": lambda: build(ad2("box"), frame="model_input"),
    "ad2_box_unknown_size": lambda: build(ad2("box", image_size=None)),
    "ad2_chain": lambda: build(chain()),
    "ad2_chain_zh": lambda: build(chain(), lang="zh"),
    "ad2_chain_as_vqa": lambda: build(chain(), form="vqa"),
    "ad2_round_0": lambda: build_round(chain(), 0, ()),
    "ad2_round_2": lambda: build_round(chain(), 2, ["It rains.", "A red car brakes."]),
    "ad2_round_1_zh": lambda: build_round(chain(), 1, ["下雨。"], lang="zh"),
    "coda_general": lambda: build(coda("general")),
    "coda_suggestion": lambda: build(coda("suggestion")),
    "coda_region": lambda: build(coda("region")),
    "coda_region_coords": lambda: build(coda("region"), coords=True),
    "coda_region_point": lambda: build(coda("region"), mark="point"),
    "mcq_single": lambda: build(mcq()),
    "mcq_six": lambda: build(mcq(SIX, TAGGED)),
    "mcq_six_front": lambda: build(mcq(SIX), views="front"),
    "mcq_six_mosaic": lambda: build(mcq(SIX), layout="mosaic"),
    "mcq_as_vqa": lambda: build(mcq(SIX), form="vqa"),
    "mcq_frames": lambda: build(mcq(("frame 1", "frame 2"))),
}


@pytest.mark.parametrize("name", CASES)
def test_prompt_equals_its_snapshot(name: str) -> None:
    prompt = CASES[name]()
    assert prompt + "\n" == snapshot(SNAPSHOTS / f"{name}.txt", prompt + "\n")
    assert prompt == prompt.strip()
    assert not re.search(r"\{\w+\}", prompt), "an unfilled placeholder"


def test_no_snapshot_is_left_over() -> None:
    assert {p.stem for p in SNAPSHOTS.glob("*.txt")} == set(CASES)


# --- published formats ---


def test_option_lines_are_the_offered_options() -> None:
    assert re.findall(r"^\(([A-F])\) \S", build(choice()), re.M) == list("ABCDEF")
    four = build(choice("ABCD"))
    assert re.findall(r"^\(([A-F])\) \S", four, re.M) == list("ABCD")
    assert "(A, B, C or D)" in four
    assert "（A、B、C或D）" in build(choice("ABCD"), lang="zh")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_spatial_formats(lang: str) -> None:
    box = build(ad2("box"), lang=lang)  # type: ignore[arg-type]
    assert box.endswith("<OUTPUT START>[min_x, min_y, max_x, max_y]<OUTPUT END>")
    assert build(ad2("point"), lang=lang).endswith("<x,y>")  # type: ignore[arg-type]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_chain_tags(lang: str) -> None:
    tags = re.findall(r"^<start(\d)>.+<end>$", build(chain(), lang=lang), re.M)  # type: ignore[arg-type]
    assert tags == ["1", "2", "3"]


def test_coda_region_coordinates_are_normalised() -> None:
    prompt = build(coda("region"), coords=True)
    assert "[0.100, 0.100, 0.500, 0.500]" in prompt
    assert "red rectangle" not in prompt
    assert "red rectangle" in build(coda("region"))


def test_coda_is_asked_in_english_unless_the_data_has_chinese() -> None:
    record = coda("region")
    assert build(record, lang="zh") == build(record, lang="en")
    assert "框中是什么？" in build(replace(record, question=BilingualText("What?", "框中是什么？")), lang="zh")


def test_views_are_named_in_order_and_tags_explained_once() -> None:
    prompt = build(mcq(SIX, TAGGED))
    assert (
        "in this order: front (CAM_FRONT), front left (CAM_FRONT_LEFT), front right (CAM_FRONT_RIGHT), back (" in prompt
    )
    assert prompt.count("1600 x 900") == 1
    assert "1600" not in build(mcq(SIX))
    grid = build(mcq(SIX), layout="mosaic")
    assert re.search(r"Upper row: front left \(.*\), front \(.*\), front right \(.*\)\. Lower row: back left", grid)


def test_several_marks_are_numbered() -> None:
    assert "2 red points, numbered 1 to 2" in build(ad2(mark=POINT))
    assert "red" not in build(ad2(mark=POINT), mark="none")


# --- special characters in the data ---


def test_braces_in_questions_and_answers_are_kept() -> None:
    hostile = "{options} {0.__class__} {{question}} {history} \\1"
    assert hostile in build(choice(question=BilingualText(hostile)))
    assert hostile in build_round(chain(), 1, [hostile])


def test_image_tokens_are_removed() -> None:
    assert "<image>" not in build(ad2(question=BilingualText("<image>\nWhat is it?")))


# --- refused requests ---


def test_forms_that_a_record_does_not_support_are_refused() -> None:
    with pytest.raises(Ad2Error, match="no options with a correct letter"):
        build(ad2(), form="mc")
    with pytest.raises(Ad2Error, match="cannot be asked as 'vqa'"):
        build(ad2("box"), form="vqa")
    with pytest.raises(Ad2Error, match="no steps"):
        build(ad2(), style="chain")
    with pytest.raises(Ad2Error, match="no steps"):
        build_round(ad2(), 0, ())
    assert can_ask(choice(), "vqa")
    assert not can_ask(ad2("count", answer=BilingualText()), "vqa")


def test_round_without_the_answers_of_earlier_rounds_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="step 2"):
        build_round(chain(), 2, ["only one"])
    with pytest.raises(ValueError, match="step 3"):
        build_round(chain(), 3, ["a", "b", "c"])


def test_coordinates_require_a_region_and_an_image_size() -> None:
    with pytest.raises(Ad2Error, match="no marked region"):
        build(coda("general"), coords=True)
    with pytest.raises(DataError, match="image_size"):
        build(ad2(mark=BOX, image_size=None), coords=True)


def test_front_view_and_mosaic_require_their_cameras() -> None:
    with pytest.raises(Ad2Error, match="CAM_FRONT"):
        build(mcq(("CAM_BACK", "CAM_BACK_LEFT")), views="front")
    with pytest.raises(Ad2Error, match="mosaic"):
        build(mcq(("frame 1", "frame 2")), layout="mosaic")
