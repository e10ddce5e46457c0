"""JSON with bounds: depth, doubled keys, numbers, sizes; equal to `json` for all other texts."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.untrusted_json import DEEPEST, BoundedReader, NestingScanner, lines, load, parse, read_bytes

TEXT = st.text(alphabet='a"\\[]{},:é\n', max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=12,
)  # fmt: skip


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@given(VALUES, st.booleans())
def test_other_texts_have_the_value_that_json_gives_them(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse(text) == parse(text.encode()) == parse(bytearray(text.encode())) == value


@given(VALUES, st.integers(1, 9))
def test_the_scanner_follows_the_depth_in_chunks_of_any_size(value: Any, size: int) -> None:
    deepest = 0

    class Scanner(NestingScanner):
        def _depths(self, marks: bytes) -> Any:
            nonlocal deepest
            found = super()._depths(marks)
            deepest = max([deepest, *found])
            return found

    content, scanner = json.dumps(value).encode(), Scanner()
    for start in range(0, len(content), size):
        scanner.feed(content[start : start + size])
    assert deepest == depth(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 65 + "]" * 65, "64 levels"),
        ("[" * 100_000, "64 levels"),
        ('{"a":' * 100_000, "64 levels"),
        ('{"a": 1, "b": 2, "a": 1}', "'a' occurs twice"),
        ('[{"x": {"a": 1, "a": 2}}]', "'a' occurs twice"),
        ("NaN", "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ("[1e999]", "too large"),
        (b"\xff\xfe[\x00]\x00", "utf-8"),
        ("[1,]", "Expecting value"),
    ],
)
def test_other_texts_are_refused(text: str | bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(text)


def test_brackets_in_texts_do_not_count() -> None:
    value = {"a": "[" * 1000 + '\\"{', "b": ["]"]}
    assert parse(json.dumps(value)) == value
    assert depth(parse("[" * DEEPEST + "]" * DEEPEST)) == DEEPEST


def test_constants_are_accepted_on_request() -> None:
    assert parse('{"a": Infinity}', finite=False) == {"a": float("inf")}


def test_the_number_of_values_can_be_bounded() -> None:
    assert len(parse(json.dumps([1] * 100 + ["," * 10_000]), most_values=200)) == 101
    with pytest.raises(ValueError, match="more than 100 values"):
        parse(json.dumps([1] * 1000), most_values=100)


def test_files_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert load(path) == {"a": 1}
    with pytest.raises(ValueError, match="more than 4 bytes"):
        load(path, most=4)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for other in (fifo, tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            read_bytes(other, 100)


def test_lines_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo")
    assert list(lines(path, 4)) == [(1, b"one\n"), (2, b"two")]
    path.write_bytes(b"one\n12345\n")
    with pytest.raises(DataError, match="row 2"):
        list(lines(path, 4))


@pytest.mark.parametrize(
    ("content", "level", "fits"),
    [
        (b'[{"a":"' + b"x" * 50 + b'"},' * 3, 1, True),
        (b'[{"a":"' + b"x" * 500 + b'"}]', 1, False),
        (b'["' + b"x" * 500 + b'"]', 1, False),
        (b"[" + b"1" * 500 + b"]", 1, False),
        (b'{"info":[' + b"1," * 500 + b'1],"questions":[1]}', 2, True),
        (b'{"questions":[{"a":[' + b"1," * 500 + b"1]}]}", 2, False),
        (b'{"a":{"b":' + b"[1," * 20 + b"1" * 300, 1, False),
    ],
)
def test_a_part_of_a_stream_is_bounded(content: bytes, level: int, fits: bool) -> None:
    reader = BoundedReader(io.BytesIO(content), level, most=200)

    def all_of_it() -> bytes:
        return b"".join(iter(lambda: reader.read(16), b""))

    if fits:
        assert all_of_it() == content
    else:
        with pytest.raises(ValueError, match="a value of more than"):
            all_of_it()
