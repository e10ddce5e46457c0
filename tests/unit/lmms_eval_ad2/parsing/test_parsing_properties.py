"""Properties for every text: no exception, only offered answers, and a rendered answer is parsed back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from lmms_eval_ad2.core.records import FORMS, Answer, Form, Unparsed
from lmms_eval_ad2.parsing import FAILURES, REASONS, failure_reason, parse

PIECES = (
    *(
        "A",
        "B",
        "C",
        "a",
        "b",
        "(C)",
        "[D]",
        "I",
        "Z",
        "answer",
        "The answer is",
        "not",
        "but",
        "or",
        "and",
        "also correct",
        "if",
    ),
    *("option", "答案是", "选", "Ｂ", "yes", "no", "Yes,", "No.", "是", "否", "没有", "可能", "maybe", "sorry", "抱歉"),
    *("3", "10", "10.", "three", "三辆", "3-4", "1.5", "１", "nan", "inf", "1e999", "<1,2>", "[1,2,3,4]", "x1=", "y="),
    *(
        "(",
        ")",
        "[",
        "<",
        ">",
        "{",
        "}",
        ",",
        ".",
        ":",
        "-",
        "\n",
        "\\boxed{",
        "<think>",
        "</think>",
        "<start1>",
        "<start2>",
    ),
    *("<end>", "<OUTPUT START>", "<OUTPUT END>", "I cannot see the image", "\u200b", "\x00", "\ud800"),
)
texts = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=24).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=24).map("".join),
)
finite = st.floats(-5000, 5000, allow_nan=False).map(lambda value: round(value, 3))


@settings(max_examples=examples(600), deadline=None)
@given(texts, st.sampled_from(FORMS), st.sampled_from((None, (1600, 900))), st.integers(0, 6))
def test_any_text_gives_an_answer_of_the_form_or_a_known_reason(text: str, form: Form, size: Any, steps: int) -> None:
    options = {"A": "A car", "B": "The answer is C", "C": "3", "D": ""}
    got = parse(text, form, options=options, image_size=size, n_steps=steps)
    assert got.form == form
    if isinstance(got, Unparsed):
        assert got.reason in REASONS
        return
    value: Any = got.value
    match form:
        case "mc":
            assert value in options
        case "yesno":
            assert value in ("yes", "no")
        case "count":
            assert isinstance(value, int) and value >= 0
        case "point":
            assert len(value) == 2 and all(map(math.isfinite, value))
        case "box":
            assert len(value) == 4 and all(map(math.isfinite, value))
            assert value[0] <= value[2] and value[1] <= value[3]
        case "chain":
            assert any(value) and (not steps or len(value) == steps)
        case _:
            assert value.strip()


@settings(max_examples=examples(200), deadline=None)
@given(texts, st.sets(st.sampled_from("ABCDEFGH"), min_size=1))
def test_parsed_letter_is_always_one_of_those_offered(text: str, letters: set[str]) -> None:
    got = parse(text, "mc", letters=sorted(letters))
    assert isinstance(got, Unparsed) or got.value in letters


LETTER_TEMPLATES = (
    *("{}", "({})", "{}.", "**{}**", "Answer: {}", "answer is ({}).", "The answer is {}", "Option {}", "\\boxed{{{}}}"),
    *("选项{}", "答案是{}", "我选{}。", '{{"answer": "{}"}}', "<think>The answer is A, or B?</think>{}"),
    "A car turns. The answer is not Z but {}",
    "First I said the answer is A. The final answer is {}.",
)


@pytest.mark.parametrize("template", LETTER_TEMPLATES)
@pytest.mark.parametrize("letter", "ABCDEF")
def test_rendered_letter_is_parsed_back(template: str, letter: str) -> None:
    for shown in (letter, letter.lower()):
        assert parse(template.format(shown), "mc") == Answer("mc", letter)


COUNT_TEMPLATES = ("{}", "{}.", "Answer: {}", "There are {} cars.", "一共{}辆。", "The total is {}", "共有{}个")


@pytest.mark.parametrize("template", COUNT_TEMPLATES)
def test_rendered_count_is_parsed_back(template: str) -> None:
    for value in (*range(0, 121), 1000, 99999):
        assert parse(template.format(value), "count") == Answer("count", value), value


@pytest.mark.parametrize("template", ("<{},{}>", "({}, {})", "[{}, {}]", "x={}, y={}", "The car is at <{}, {}>."))
@settings(max_examples=examples(50), deadline=None)
@given(x=finite, y=finite)
def test_rendered_point_is_parsed_back(template: str, x: float, y: float) -> None:
    assert parse(template.format(x, y), "point", frame="pixel") == Answer("point", (x, y))


@pytest.mark.parametrize(
    "template",
    (
        "<OUTPUT START>[{}, {}, {}, {}]<OUTPUT END>",
        "<{},{},{},{}>",
        "({}, {}), ({}, {})",
        '{{"bbox_2d": [{}, {}, {}, {}]}}',
        "x1={}, y1={}, x2={}, y2={}",
        "<|box_start|>({},{}),({},{})<|box_end|>",
    ),
)
@settings(max_examples=examples(50), deadline=None)
@given(xs=st.tuples(finite, finite), ys=st.tuples(finite, finite))
def test_rendered_box_is_parsed_back(template: str, xs: tuple[float, float], ys: tuple[float, float]) -> None:
    box = (min(xs), min(ys), max(xs), max(ys))
    got = parse(template.format(*box), "box", frame="pixel")
    assert isinstance(got, Answer)
    assert got.value == box
    assert ("no area" in got.note) == (box[0] == box[2] or box[1] == box[3])


words = st.text(st.characters(whitelist_categories=("Lu", "Ll", "Lo", "Nd")), min_size=1, max_size=12)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(words, min_size=1, max_size=5))
def test_rendered_chain_is_parsed_back(steps: list[str]) -> None:
    text = "\n".join(f"<start{number}> {step} <end>" for number, step in enumerate(steps, 1))
    assert parse(text, "chain", n_steps=len(steps)) == Answer("chain", tuple(steps))
    assert parse(text, "chain") == Answer("chain", tuple(steps))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[LMMS_EVAL_REQUEST_FAILED after 5 retries] The answer is B", "request_failed"),
        ("  [LMMS_EVAL_BUDGET_EXCEEDED]", "budget_exceeded"),
        ("[SAFETY_BLOCKED:unknown]", "safety_blocked"),
        ("[GENERATION_FAILED] CUDA out of memory", "generation_failed"),
        ("[ERROR] Unknown", "generation_failed"),
        ("Video clip.mp4 generate failed, check the source", "media_failed"),
    ],
)
def test_failure_text_is_never_an_answer(text: str, reason: str) -> None:
    assert failure_reason(text) == reason
    assert reason in FAILURES
    for form in FORMS:
        got = parse(text, form)
        assert isinstance(got, Unparsed) and got.reason == reason


@pytest.mark.parametrize("text", ("B", "", "The request failed to load", "[B]", "Video of a car", "[ERRORS] none"))
def test_answers_are_not_failures(text: str) -> None:
    assert failure_reason(text) is None
