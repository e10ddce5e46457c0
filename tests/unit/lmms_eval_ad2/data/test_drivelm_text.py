"""Options and object tags in DriveLM's text."""

from __future__ import annotations

import json
import string
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.data.drivelm_text import ObjectTag, read_behavior, read_options, read_tags


def test_options_on_one_line() -> None:
    question = "What does it do? Please choose from the following options: A. Turn left. B. Go. Then stop. C. Back up."
    assert read_options(question) == {"A": "Turn left.", "B": "Go. Then stop.", "C": "Back up."}


def test_options_in_other_styles() -> None:
    assert read_options("Which?\n(A) a car\n(B) a bus") == {"A": "a car", "B": "a bus"}
    assert read_options("Which?\nA) a car\nB) a bus\n\nAnswer with a letter.") == {"A": "a car", "B": "a bus"}
    assert read_options("A: x y B: z") == {"A": "x y", "B": "z"}


def test_options_are_read_after_their_announcement_only() -> None:
    assert read_options("Car A. drives to B. fast. Options: A. yes B. no") == {"A": "yes", "B": "no"}


def test_the_nearest_a_before_b_starts_the_options() -> None:
    assert read_options("See plan A. Which one? A. left B. right") == {"A": "left", "B": "right"}


def test_texts_without_options() -> None:
    for question in (
        "", "Is it?", "A. alone", "B. x C. y", "A. x C. y", "A. B. C.", "A. x B) y", "the U.S.A. has B. X", "a. x b. y",
    ):  # fmt: skip
        assert read_options(question) == {}, question


def test_options_of_the_real_questions(data_dir: Path) -> None:
    """All 17 questions with options of the challenge's sample, each with four; none in the other 49."""
    rows = json.loads((data_dir / "drivelm" / "output.json").read_text("utf-8"))
    found = {row["id"]: read_options(row["question"]) for row in rows}
    with_options = {row["id"] for row in rows if "options:" in row["question"]}
    assert len(rows) == 66
    assert len(with_options) == 17
    assert {key for key, options in found.items() if options} == with_options
    assert {tuple(found[key]) for key in with_options} == {("A", "B", "C", "D")}
    assert {row["gt_answer"] in found[row["id"]] for row in rows if row["id"] in with_options} == {True}


def test_tags_are_read() -> None:
    assert read_tags("From <c1,CAM_BACK,1088.3,497.5> to <c2, CAM_FRONT_LEFT, 7, -0.5>.") == [
        ObjectTag("c1", "CAM_BACK", 1088.3, 497.5),
        ObjectTag("c2", "CAM_FRONT_LEFT", 7.0, -0.5),
    ]


def test_broken_tags_are_omitted() -> None:
    for text in (
        "<c1,CAM_BACK,1088.3>",
        "<c1,BACK,1.0,2.0>",
        "c1,CAM_BACK,1.0,2.0",
        "<c1,CAM_BACK,nan,inf>",
        "<,,,>",
        "",
    ):
        assert read_tags(text) == [], text


def test_tags_of_the_real_sample(data_dir: Path) -> None:
    """Every `<...,CAM_...>` of the sample is parsed, and is inside a 1600x900 image."""
    text = (data_dir / "drivelm" / "train_sample.json").read_text("utf-8")
    tags = read_tags(text)
    assert len(tags) == text.count(",CAM_") > 700
    assert all(0 <= tag.x <= 1600 and 0 <= tag.y <= 900 for tag in tags)


def test_behavior_is_read_from_any_phrasing() -> None:
    expected = ("slightly steering to the left", "driving with normal speed")
    assert (
        read_behavior("The ego vehicle is slightly steering to the left. It is driving with normal speed.") == expected
    )
    assert read_behavior("It is driving with  normal speed and\nSlightly Steering to the left") == expected
    assert read_behavior("going straight, driving very fast") == ("going straight", "driving very fast")
    assert read_behavior("steering to the right but not moving") == ("steering to the right", "not moving")


def test_ambiguous_behavior_is_not_read() -> None:
    for text in (
        "",
        "It is going straight.",
        "It is driving fast.",
        "going straight or steering to the left, driving fast",
        "steering to the left, then slightly steering to the left, driving fast",
        "It is not going straight and it is driving fast.",
        "It isn't steering to the left; it is driving slowly.",
        "going straight and driving faster",
    ):
        assert read_behavior(text) is None, text


WORDS = st.text(alphabet=string.ascii_lowercase + " ,", min_size=1).map(str.strip).filter(bool)


@given(st.lists(WORDS, min_size=2, max_size=8), st.sampled_from(["{}. ", "{}) ", "({}) ", "{}: "]))
def test_formatted_options_are_read_back(texts: list[str], style: str) -> None:
    options = dict(zip("ABCDEFGH", texts, strict=False))
    line = " ".join(style.format(letter) + text for letter, text in options.items())
    assert read_options(f"Which one of these options: {line}") == options


@given(st.lists(st.sampled_from(["A.", "B.", "C.", "(A)", "(B)", "A)", "options:", "x", " ", "\n", "\n\n", "<", "é"])))
def test_any_text_gives_consecutive_letters_with_text_of_the_question(pieces: list[str]) -> None:
    question = " ".join(pieces)
    options = read_options(question)
    assert list(options) == list("ABC"[: len(options)])
    assert len(options) != 1
    assert all(text.strip() == text and text and text in question for text in options.values())


@given(st.text())
def test_any_text_is_accepted(text: str) -> None:
    assert all(value in text for value in read_options(text).values())
    assert all(tag.camera in text for tag in read_tags(text))
    assert read_behavior(text) is None


NUMBER = st.decimals(-9999, 9999, places=1).map(str)


@given(st.lists(st.tuples(st.integers(1, 99), st.sampled_from(["CAM_BACK", "CAM_FRONT_LEFT"]), NUMBER, NUMBER)))
def test_formatted_tags_are_read_back(tags: list[tuple[int, str, str, str]]) -> None:
    text = " and ".join(f"<c{i},{camera},{x},{y}>" for i, camera, x, y in tags)
    assert read_tags(text) == [ObjectTag(f"c{i}", camera, float(x), float(y)) for i, camera, x, y in tags]


def test_long_hostile_text_is_read_in_linear_time() -> None:
    """Each would take minutes in a quadratic parser and exceed the time limit of the suite."""
    for piece in (
        "A. ",
        "(A) B. ",
        "options:",
        "option" + " " * 50,
        "<c1,",
        "<c1,CAM_",
        "<c1,CAM_A,1.",
        "9",
        "\n ",
        "<",
    ):
        text = piece * (300_000 // len(piece))
        assert read_tags(text) == []
        assert len(read_options(text)) in (0, 2)
        assert read_behavior(text) is None
