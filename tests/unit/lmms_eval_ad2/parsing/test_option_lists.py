"""Enumerations of the options, rankings of them, and options that are called wrong."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.records import Answer, Unparsed

OPTIONS = {"A": "Turn right", "B": "Drive backward", "C": "Going ahead", "D": "Turn left"}
ENUMERATIONS = [
    "A. B. C. D.",
    "Answer: (A) (B) (C) (D)",
    "A B C D",
    "A, B, C, D",
    "(A), (B), (C), (D)",
    "A/B/C/D",
    "A\nB\nC\nD",
    "Options: A, B, C, D",
    "The options are A, B, C and D.",
    "A. Turn right\nB. Drive backward\nC. Going ahead\nD. Turn left",
    "A、B、C、D",
    "答案: A B C D",
    "选项有A、B、C、D。",
    "Answer: A. B. C. D.",
    "[A][B][C][D]",
    "A) B) C) D)",
    "A: B: C: D:",
    "A | B | C | D",
    "A-B-C-D",
    "ABCD",
    "A and B and C and D",
    "A; B; C; D",
    "A. B. C.",
    "Choose from A, B, C, D.",
]
RANKINGS = [
    "B (second choice: A)",
    "First choice: B. Second choice: A.",
    "My first choice is B, my second choice is A.",
    "B, then A.",
    "B > A > C > D",
    "Ranking: B, A, C, D",
    "B first, A second.",
    "Most likely B, followed by A.",
    "1st: B, 2nd: A",
    "Top choice: B; runner-up: A",
    "B is my first choice, A is my second.",
    "首选B,其次A。",
    "第一选择:B;第二选择:A",
    "首选B,备选A",
    "B>A>C>D",
    "B (alternative: A)",
    "The best is B, the second best is A.",
    "Second choice: A. First choice: B.",
    "In order of likelihood: B, A, C, D.",
    "From most to least likely: B, A, D, C",
    "最可能是B,其次是A",
    "排序:B、A、C、D",
    "Ranking:\n1. B\n2. A\n3. C\n4. D",
    "B, with A as a backup.",
    "B; A would be my second guess.",
]
WRONG = [
    "The incorrect option is B.",
    "the incorrect option is B",
    "The wrong answer is B.",
    "B is the incorrect option.",
    "B is wrong.",
    "The option that is incorrect is B.",
    "Incorrect option: B",
    "Wrong: B",
    "Not B.",
    "The worst option is B.",
    "The least likely answer is B.",
    "错误的选项是B。",
    "不正确的选项是B",
    "B是错误的。",
    "错误选项:B",
    "排除B",
    "The false statement is B.",
    "The answer is not B.",
    "The distractor is B.",
    "The option to eliminate is B.",
    "B can be ruled out.",
    "An unlikely option is B.",
    "最不可能的是B。",
]


@pytest.mark.parametrize("reply", ENUMERATIONS)
def test_an_enumeration_of_the_options_is_no_verdict(reply: str) -> None:
    assert isinstance(parse(reply, "mc", options=OPTIONS), Unparsed)
    assert isinstance(parse(reply, "mc", letters="ABCD"), Unparsed)


@pytest.mark.parametrize("reply", RANKINGS)
def test_the_first_place_of_a_ranking_is_its_verdict(reply: str) -> None:
    got = parse(reply, "mc", options=OPTIONS)
    assert isinstance(got, Answer) and got.value == "B", got


@pytest.mark.parametrize("reply", WRONG)
def test_an_option_that_is_called_wrong_is_no_verdict(reply: str) -> None:
    assert isinstance(parse(reply, "mc", options=OPTIONS), Unparsed)
    assert isinstance(parse(reply, "mc", letters="ABCD"), Unparsed)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Options: A, B, C, D. The answer is C.", "C"),
        ("The letter of the correct option (A, B, C or D): D", "D"),
        ("A, C and D are wrong.", "B"),
        ("Correct: A. Incorrect: B, C, D.", "A"),
        ("From least to most likely: A, C, D, B", None),
        ("1. B\n2. A", None),
    ],
)
def test_what_is_said_beside_a_list_counts(reply: str, letter: str | None) -> None:
    got = parse(reply, "mc", options=OPTIONS)
    assert (got.value if isinstance(got, Answer) else None) == letter


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Based on the image, the car is turning left.", "D"),
        ("It is turning left.", "D"),
        ("It is not going ahead; it is turning left.", "D"),
        ("The car turned left.", "D"),
        ("It will turn right.", "A"),
        ("The car is driving backwards.", "B"),
        ("It goes ahead.", "C"),
        ("It is turning left or right.", None),
        ("It might be turning left.", None),
        ("It is not turning left.", None),
        ("The other car is turning left.", None),
        ("Turning left would be dangerous.", None),
        ("If it were turning left, the signal would blink.", None),
    ],
)
def test_an_inflected_option_is_read_if_only_one_is_named(reply: str, letter: str | None) -> None:
    got = parse(reply, "mc", options=OPTIONS, question="What is the car doing?")
    assert (got.value if isinstance(got, Answer) else None) == letter


def test_options_that_differ_only_in_their_endings_are_not_told_apart_by_another_form() -> None:
    options = {"A": "Turn left", "B": "Turning left", "C": "Stop"}
    assert isinstance(parse("It turned left.", "mc", options=options), Unparsed)
