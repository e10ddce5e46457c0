"""Any record is converted to JSON and parquet and back without loss."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from lmms_eval_ad2.core.records import FORMS, AnswerOption, BilingualText, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.data.home.parts import PartRow, read_records, write_part

WORDS = st.text(max_size=12)
TEXTS = st.builds(BilingualText, en=WORDS, zh=WORDS)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)
MARKS = st.one_of(
    st.just(VisualPrompt()),
    st.builds(VisualPrompt, st.just("box"), st.tuples(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS)), TEXTS),
    st.builds(VisualPrompt, st.just("point"), st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2).map(tuple), TEXTS),
)
RECORDS = st.builds(
    Record,
    id=WORDS,
    benchmark=WORDS,
    task=WORDS,
    subtask=WORDS,
    form=st.sampled_from(FORMS),
    images=st.lists(WORDS, max_size=3).map(tuple),
    question=TEXTS,
    answer=TEXTS,
    letter=WORDS,
    options=st.lists(st.builds(AnswerOption, WORDS, TEXTS, WORDS), max_size=3).map(tuple),
    mark=MARKS,
    steps=st.lists(
        st.builds(ReasoningStep, TEXTS, TEXTS, TEXTS, st.none() | st.integers(0, 99), st.none() | MARKS), max_size=2
    ).map(tuple),
    views=st.lists(WORDS, max_size=3).map(tuple),
    image_size=st.none() | st.tuples(st.integers(1, 9999), st.integers(1, 9999)),
    subtask_id=st.none() | st.integers(0, 99),
    cluster=WORDS,
    scene=OBJECTS,
    meta=OBJECTS,
)


@settings(deadline=None)
@given(RECORDS)
def test_json_round_trip(record: Record) -> None:
    decoded = Record.from_json(record.to_json())
    assert decoded == record
    assert decoded.to_json() == record.to_json()


def test_names_and_marks_in_english_only_have_the_json_of_earlier_versions() -> None:
    step = ReasoningStep(BilingualText("see"), BilingualText("What?"), BilingualText("A car."))
    mark = VisualPrompt("text", (), BilingualText("the car"))
    record = Record(
        "1", "ad2_bench", "cot", "s", "chain", ("a.png",), BilingualText("q"), BilingualText("a"),
        mark=mark, steps=(step, replace(step, name=BilingualText("act", "行动"))),
    )  # fmt: skip
    text = record.to_json()
    assert '"mark":{"coords":[],"kind":"text","text":"the car"}' in text
    assert '"name":"see"' in text and '"name":{"en":"act","zh":"行动"}' in text
    assert Record.from_json(text) == record
    plain = replace(step, name="see")  # type: ignore[arg-type]
    assert plain == step and VisualPrompt("text", (), "the car") == mark  # type: ignore[arg-type]


def row_of(record: Record) -> PartRow:
    return PartRow(record.id, record.benchmark, record.task, record.subtask, record.form, record.to_json())


@given(st.lists(RECORDS, min_size=1, max_size=5))
@settings(max_examples=examples(30), deadline=None)
def test_parquet_round_trip(records: list[Record]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        part = write_part(Path(folder), 0, [row_of(record) for record in records])
        assert part.n == len(records)
        assert list(read_records([Path(folder) / part.file])) == records
