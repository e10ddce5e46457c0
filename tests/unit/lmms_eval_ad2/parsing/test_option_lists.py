"""Enumerations of the options, rankings of them, and options that are called wrong."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing import parse

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
    "B, second choice C",
    "B. Second choice: C.",
    "I'd say B; second guess: C.",
    "B, or else C.",
    "B is most likely, then C.",
    "Primary: B; secondary: C",
    "Main answer B, alternative C.",
    "1) B 2) C 3) A - ranked",
    "Ranked from best to worst: B, C, A, D",
    "My ranking is B > C > A > D.",
    "B ≻ A ≻ C",
    "B>A",
    "B >> A",
    "Best: B, second: A, third: C",
    "First B, second A",
    "第一是B,第二是A",
    "首选:B,次选:A",
    "B最好,其次A",
    "B优先,A备选",
    "最佳选项B,其次是C",
    "B(第二选择:A)",
    "从最可能到最不可能:B、A、C、D",
    "第1名:B,第2名:A",
    "答案B(备选:A)",
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
UNDECIDED = [
    "My boss insists on B.",
    "The annotator marked B.",
    "Everyone picks B.",
    "One could argue for B.",
    "You could say B.",
    "Experts prefer B.",
    "GPT-4 said B.",
    "Another model says B.",
    "As the user said, B.",
    "My friend's answer is B.",
    "The student's answer is B.",
    "His answer: B",
    "Her answer would be B.",
    "Your answer is B.",
    "The answer of my colleague is B.",
    "If the light is green, B.",
    "B if it rains, C otherwise.",
    "Only if the lights are on, B.",
    "In theory, B.",
    "It would be B if the light were on.",
    "In case of rain, B.",
    "The wrong one is B.",
    "Choose anything but B.",
    "The answer is anything but B.",
    "It is definitely not B.",
    "Not option B.",
    "I would rule out B.",
    "I rule out B.",
    "B is out.",
    "B cannot be right.",
    "B does not fit.",
    "B is false.",
    "B is not the answer.",
    "B isn't correct.",
    "The inappropriate option is B.",
    "The option I would reject is B.",
    "Eliminated: B",
    "Incorrect: B",
    "The answer is not (B).",
    "B is the least plausible.",
    "Least likely: B",
    "错误答案:B",
    "不选B",
    "不是B",
    "B不对",
    "B选项错误",
    "B不符合",
    "除了B",
    "答案不是B",
    "最不可能:B",
    "应该排除的是B",
    "错的是B",
    "B项有误",
    "有人选B",
    "他选了B",
    "别人认为是B",
    "用户的答案是B",
    "我同事的答案是B",
    "要是下雨,选B",
    "如果是晚上就选B",
    "A or B",
    "Either A or B",
    "A/B",
    "A and B",
    "Both A and B",
    "B or C, hard to say",
    "A, B",
    "选A或B",
    "A和B",
    "A与B都对",
    "All of the above",
    "All four options",
    "None",
    "Any of A, B, C, D",
    "A through D",
    "A-D",
    "A to D",
    "A、B、C、D都可以",
    "A, B, C and D are all possible.",
    "Options A, B, C, and D are given.",
    "The choices are (A), (B), (C), (D).",
    "(A)(B)(C)(D)",
    "A) Turn right B) Drive backward C) Going ahead D) Turn left",
    "A. Turn right B. Drive backward C. Going ahead D. Turn left",
    "a b c d",
    "a, b, c, d",
    "A,B,C,D",
    "A;B;C;D",
]


@pytest.mark.parametrize("reply", ENUMERATIONS)
def test_an_enumeration_of_the_options_is_no_verdict(reply: str) -> None:
    assert isinstance(parse(reply, "mc", options=OPTIONS), Unparsed)
    assert isinstance(parse(reply, "mc", letters="ABCD"), Unparsed)


@pytest.mark.parametrize("reply", RANKINGS)
def test_the_first_place_of_a_ranking_is_its_verdict(reply: str) -> None:
    got = parse(reply, "mc", options=OPTIONS)
    assert isinstance(got, Answer) and got.value == "B", got


@pytest.mark.parametrize("reply", UNDECIDED)
def test_several_letters_and_the_letters_of_others_are_no_verdict(reply: str) -> None:
    assert isinstance(parse(reply, "mc", options=OPTIONS), Unparsed)


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
