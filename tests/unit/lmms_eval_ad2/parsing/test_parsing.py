"""Notes, defaults and other guarantees of the parsers."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.parsing.normalise import plain
from lmms_eval_ad2.parsing.wrappers import unwrap


def test_letters_default_to_the_options_and_then_to_a_to_f() -> None:
    assert isinstance(parse("C", "mc", options={"A": "x", "B": "y"}), Unparsed)
    assert parse("F", "mc") == Answer("mc", "F")
    assert parse("b", "mc", letters=["a", "b"]) == Answer("mc", "B")


def test_text_of_two_options_is_unparsed() -> None:
    got = parse("a car", "mc", options={"A": "A car", "B": "the car."})
    assert isinstance(got, Unparsed)
    assert parse("a car", "mc", options={"A": "A car", "B": "A bus"}) == Answer("mc", "A", "by its text")


def test_only_the_complete_option_text_is_a_choice() -> None:
    options = {"A": "A red car", "B": "A blue truck"}
    assert parse("The red car", "mc", options=options) == Answer("mc", "A", "by its text")
    for text in ("The red car. " * 300 + "No, a blue truck or a bus", "A red car?", "Maybe a red car", "no red car"):
        assert isinstance(parse(text, "mc", options=options), Unparsed)


def test_statements_and_estimates_are_noted() -> None:
    assert parse("There are no cyclists.", "yesno") == Answer("yesno", "no", "statement")
    assert parse("approximately 10", "count") == Answer("count", 10, "approximate")


def test_chain_notes_list_missing_and_extra_steps() -> None:
    text = "<start1>a<end><start3>c<end><start7>z<end>"
    assert parse(text, "chain", n_steps=4) == Answer("chain", ("a", "", "c", ""), "missing steps: 2, 4; extra steps: 7")


def test_detail_is_the_end_of_the_unparsed_text() -> None:
    got = parse("x" * 1000 + " no idea", "mc")
    assert isinstance(got, Unparsed)
    assert got.detail.endswith("no idea") and len(got.detail) <= 200


def test_unknown_form_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="unknown form"):
        parse("B", "poem")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "left", "inside"),
    [
        ("<think>a</think>b", "b", False),
        ("a</think>b", "b", False),
        ("b<think>a", "b", True),
        ("<think>a<think>b</think>c", "c", False),
        ("<thinking>a</thinking>B<|im_end|>", "B", False),
        ("a<think>x</think>b<think>y</think>c", "abc", False),
        ("◁think▷a◁/think▷b", "b", False),
        ("assistant: B", "B", False),
    ],
)
def test_thoughts_are_removed(text: str, left: str, inside: bool) -> None:
    assert unwrap(text) == (left, inside)


def test_plain_normalises_characters_and_markup() -> None:
    assert plain("（Ｂ）１２。") == "(B)12."
    assert plain("**Answer:**  `B`") == "Answer: 'B'"
    assert plain("$\\text{B}$") == "{B}"
    assert plain("①Ⓑ𝐂") == "1BC"
    assert plain("a\u200bb\n\n\n\n c") == "ab\n\nc"
