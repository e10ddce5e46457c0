"""Long and hostile texts: parsing takes time linear in their length."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lmms_eval_ad2.core.records import FORMS, SIDES, Answer, Form, Unparsed
from lmms_eval_ad2.parsing import LONGEST, parse

pytestmark = pytest.mark.integration

SIZE = 90_000
REPEATED_SIZE = 16_000
FILLER = "The road ahead is wet and the lights of a car on the left are bright. "

# One repeated piece is enough for quadratic time in a backtracking pattern.
REPEATED = (
    *(
        "A ",
        "(A) ",
        "A, ",
        "a.",
        "answer is ",
        "the answer is not A ",
        "option ",
        "选项",
        "if ",
        "the match ",
        "the option is of ",
    ),
    *(
        "yes ",
        "no, ",
        "有,",
        "没有,",
        "not ",
        "there is ",
        "I cannot see ",
        "十",
        "twenty ",
        "number of ",
        "1.\n",
        "1.1.",
    ),
    *("[1,2 ", "[1, ", "<1,2>", "(1,2),", "1 ", "1", "1,", "-", "- ", "x1=1 ", "((((", "[1e", "<OUTPUT START>"),
    *("<think>", "</think>", "<think></think>", "<start1>", "<end>", "<start1>a", "\\boxed{", "$", "**", "`", '"'),
    *(" ", "\n", "e\u0301\u0316"),
)


def cpu_seconds(text: str, form: Form, **keywords: Any) -> float:
    """Processor time, not wall time: other processes do not count."""
    start = time.process_time()
    parse(text, form, **keywords)
    return time.process_time() - start


# With what the question asks for, and with both answers all over the text.
ASKED: tuple[tuple[Form, str, dict[str, Any]], ...] = (
    ("yesno", "the bus is on the left and the car is on the right ", {"question": "Where is the bus?", "words": SIDES}),
    ("yesno", "The bus is on the left. The car is on the right. ", {"question": "Where is the bus?", "words": SIDES}),
    ("yesno", "Yes, there is a bus. No bus ", {"question": "Is there a bus?"}),
    ("count", "2 buses of which 3 are red and 4 green ", {"question": "How many green buses are there?"}),
    ("mc", "the answer is A but the van is larger than the bus ", {"options": {"A": "The van", "B": "The bus"}}),
)


@pytest.mark.parametrize(("form", "piece", "keywords"), ASKED)
def test_answers_to_a_question_are_parsed_in_linear_time(form: Form, piece: str, keywords: dict[str, Any]) -> None:
    short, long = (piece * (size // len(piece)) for size in (REPEATED_SIZE // 8, REPEATED_SIZE))
    least = 0.01  # s: the floor reduces noise
    assert any(
        cpu_seconds(long, form, **keywords) <= 30 * max(cpu_seconds(short, form, **keywords), least) for _ in range(5)
    )


@pytest.mark.parametrize("form", FORMS)
def test_repetitive_text_is_parsed_in_linear_time(form: Form) -> None:
    for piece in REPEATED:
        short, long = ((piece * (size // len(piece) + 1))[:size] for size in (REPEATED_SIZE // 8, REPEATED_SIZE))
        # Eight times the text: linear is 8 times the CPU time, quadratic 64. The floor and the repeats reduce noise.
        assert any(cpu_seconds(long, form) <= 30 * max(cpu_seconds(short, form), 0.01) for _ in range(5)), piece


def test_answer_at_the_end_of_a_long_text_is_found() -> None:
    filler = FILLER * (SIZE // len(FILLER))
    assert parse(filler + "\nThe answer is C.", "mc") == Answer("mc", "C")
    assert parse("At first I would say A. " + filler + "\nThe answer is C.", "mc") == Answer("mc", "C")
    assert parse("The answer is A. " + filler, "mc") == Answer("mc", "A")
    assert parse(filler + "\nSo the answer is no.", "yesno") == Answer("yesno", "no")
    assert parse(filler + "\nThe total is 7.", "count") == Answer("count", 7)
    assert parse(filler + "<OUTPUT START>[1, 2, 3, 4]<OUTPUT END>", "box") == Answer("box", (1, 2, 3, 4))
    assert parse(filler + "<5,6>", "point") == Answer("point", (5, 6))
    assert parse("<start1>" + filler + "<end><start2>b<end>", "chain", n_steps=2).value[1] == "b"  # type: ignore[union-attr, index]
    assert parse("<think>" + filler + "</think>B", "mc") == Answer("mc", "B")


def test_endlessly_repeated_answer_is_parsed() -> None:
    assert parse("The answer is B. " * 5000, "mc") == Answer("mc", "B")
    assert parse("3 " * 40_000, "count") == Answer("count", 3)


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_that_is_too_long_is_not_read(form: Form) -> None:
    got = parse("B " * (LONGEST // 2 + 1) + "\nThe answer is B.", form)
    assert isinstance(got, Unparsed) and got.reason == "too_long" and len(got.detail) == 200


def test_a_long_thought_before_an_answer_is_no_long_answer() -> None:
    assert parse("<think>" + "Is it A? " * LONGEST + "</think>B", "mc") == Answer("mc", "B")
