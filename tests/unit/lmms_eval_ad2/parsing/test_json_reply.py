"""JSON objects between other text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from lmms_eval_ad2.parsing.json_reply import KeyValuePairs, json_values, last_dict, last_object, leaves
from lmms_eval_ad2.parsing.wrappers import unwrapped


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ('a {"x": 1} b', [([("x", 1)], '{"x": 1}')]),
        ('{"x": 1}{"y": 2}', [([("x", 1)], '{"x": 1}'), ([("y", 2)], '{"y": 2}')]),
        ('{"x": {"y": 2}}', [([("x", [("y", 2)])], '{"x": {"y": 2}}')]),
        ("{words} {'x': 1}", [([("x", "1")], "{'x': 1}")]),
        ('{"x": 1, "x": 2}', [([("x", 1), ("x", 2)], '{"x": 1, "x": 2}')]),
        ('{"x": ', []),
        ("{x: true, y: null}", [([("x", True), ("y", None)], "{x: true, y: null}")]),
    ],
)
def test_objects_are_found_in_a_text(text: str, values: list[tuple[Any, str]]) -> None:
    assert [(value, text[start:end]) for value, start, end in json_values(text)] == values


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("a", ("a", None)), ("", ("", "empty")), ("<think>a</think>b", ("b", None)),
        ("<think>a", ("", "unfinished_thought")), ("[GENERATION_FAILED]", ("", "generation_failed")),
        ("Assistant: a", ("a", None)), ("assistant: a</s>", ("a", None)),
    ],
)  # fmt: skip
def test_a_reply_is_unwrapped(reply: str, expected: tuple[str, str | None]) -> None:
    assert unwrapped(reply) == expected


def test_the_last_object_with_a_wanted_key() -> None:
    values = [value for value, _, _ in json_values('{"a": 1} {"b": [{"a": 2}, {"a": 3}]} {"c": 4}')]
    assert last_object(values, lambda key: key == "a") == [("a", 3)]
    assert last_object(values, lambda key: key == "z") is None


def test_leaves_are_below_wanted_keys_only() -> None:
    found = KeyValuePairs([("a", [1, KeyValuePairs([("b", 2), ("c", 3)])]), ("d", KeyValuePairs([("a", 4)]))])
    assert list(leaves(found, lambda key: key in "ab")) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("text", "found"),
    [('{"a": 1, "a": 2}', {"a": 2}), ("{a: 1}", None), ('{"a": 1} {"b": 2}', {"b": 2}), ("[1]", None)],
)
def test_the_last_object_as_python_reads_it(text: str, found: dict | None) -> None:
    assert last_dict(text) == found


def test_the_number_of_tried_braces_is_limited() -> None:
    assert last_dict("{" * 10 + '"a": 1}', most=9) is None and last_dict("{" * 10 + '"a": 1}', most=10) == {"a": 1}


@settings(max_examples=examples(300), deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=9)), max_size=4))
def test_a_written_object_is_read_back(data: dict) -> None:
    assert last_dict("before\n```json\n" + json.dumps(data) + "\n```\nafter") == data
