"""Parsing of plain text by the rule interpreter."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.closedloop.phrases import PHRASES
from support.tiers import examples

from closedloop_plugin.driver.interpreters.parsing.instruction import REASONS, UnclearInstruction, parse_instruction
from closedloop_plugin.driver.interpreters.parsing.lexicon import PACES, WAYS


@pytest.mark.parametrize(("text", "expected"), PHRASES, ids=[t[:40] for t, _ in PHRASES])
def test_instructions_as_models_write_them(text: str, expected: tuple[str, str | None] | str) -> None:
    if isinstance(expected, str):
        with pytest.raises(UnclearInstruction) as caught:
            parse_instruction(text)
        assert str(caught.value) == expected
    else:
        instruction = parse_instruction(text)
        assert (instruction.pace, instruction.way) == expected


@pytest.mark.parametrize(
    ("text", "force"),
    [
        ("Brake hard.", "hard"), ("Brake immediately.", "hard"), ("Emergency brake!", "hard"), ("Brake.", ""),
        ("Brake gently to a stop.", "soft"), ("Slow down gradually.", "soft"), ("Proceed with caution.", "soft"),
        ("Slow down slightly, then brake hard.", "soft"), ("Slow down because he brakes hard.", ""),
    ],
)  # fmt: skip
def test_the_force_of_an_instruction(text: str, force: str) -> None:
    assert parse_instruction(text).force == force


WORDS = st.sampled_from(
    ["the ego car", "the vehicle", "pedestrian", "ahead", "stop", "brake", "slow down", "keep the speed", "accelerate",
     "turn left", "turn right", "change lane", "go straight", "do not", "no need to", "without", "and", "or", ",", ".",
     ";", "because", "if", "then", "maybe", "is", "should", "with speed = 0.5", "\n", "?", "wait", "be ready to"]
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(st.text(), st.lists(WORDS, max_size=25).map(" ".join)))
def test_any_text_gives_a_known_action_or_a_known_reason(text: str) -> None:
    try:
        instruction = parse_instruction(text)
    except UnclearInstruction as exc:
        assert str(exc).split()[0] in REASONS
    else:
        assert instruction.pace in PACES and instruction.pace != "reverse"
        assert instruction.way is None or instruction.way in WAYS


@pytest.mark.parametrize(
    "text",
    [
        "stop " * 50_000,
        "go " * 2000 + "straight",
        "turn a a a " * 500,
        "do not " * 3000,
        "the " * 5000 + "stop",
        "-" * 9000,
    ],
)
def test_repetitive_replies_take_bounded_time(text: str) -> None:
    """A pattern that backtracks would exceed the timeout of the test suite."""
    with contextlib.suppress(UnclearInstruction):
        parse_instruction(text)
