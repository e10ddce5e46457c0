"""Rows of a built set: letters, categories, and import by `ad2 data import autodrive_qa`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.mcq.building import a_question, made

from lmms_eval_ad2.core.records import BilingualText
from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, record_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.mcq.base import Distractor
from lmms_eval_ad2.mcq.question_rows import reference, row_fault, row_of

GIVEN = {"seed": 7, "maker": "fake", "kind": "all", "split": "train"}


def test_a_row_is_read_by_the_release_reader() -> None:
    question = a_question(1)
    row = row_of(made(question, correctness=4, rounds=2), **GIVEN)
    record = record_of(UntrustedRow(row, "x", 1))
    right = next(option for option in record.options if option.letter == record.letter)
    assert (right.kind, right.text.en) == ("correct", question.answer)
    assert Counter(option.kind for option in record.options) == Counter(("correct", *ERRORS[:3]))
    assert [option.letter for option in record.options] == list("ABCD")
    assert record.images == ("records/cam/1.jpg",)
    assert (record.views, record.image_size) == (("CAM_FRONT",), (16, 9))
    assert (record.task, record.subtask) == ("perception", "surrounding objects")
    assert (record.cluster, record.id) == ("records:scene1", "records:q001")
    assert record.answer.en == "It carries load number 1."
    meta = dict(record.meta)
    reasons = meta.pop("reasons")
    assert meta == {
        "source_id": "q001", "source_split": "train", "distractors": "all", "maker": "fake", "correctness": 4,
        "rounds": 2, "seed": 7, "source": "records",
    }  # fmt: skip
    assert set(reasons) == set("ABCD") - {record.letter}
    for option in record.options:
        if option.kind != "correct":
            assert reasons[option.letter].removeprefix("because ") in option.text.en


def test_a_row_has_operations_by_letter_and_marks_yes_or_no_questions() -> None:
    wrong = tuple(
        Distractor(f"No, but {n} cars.", "uncategorised", "why", "changed_count") for n in ("two", "six", "ten")
    )
    question = replace(a_question(1), answer="No, but one car.")
    row = row_of(made(question, distractors=wrong), **GIVEN)
    assert row["meta"]["polar"] is True
    assert row["meta"]["operations"] == dict.fromkeys(set("ABCD") - {row["answer"]}, "changed_count")
    assert record_of(UntrustedRow(row, "x", 1)).options[0].kind in ("correct", "uncategorised")
    plain = row_of(made(a_question(1)), **GIVEN)["meta"]
    assert "polar" not in plain and "operations" not in plain


def test_the_order_depends_on_seed_and_id_alone() -> None:
    """The answer has the same letter in the naive and in the error-modelled set (Table 8 compares them pairwise)."""
    naive = tuple(Distractor(f"Nothing {n}.", "naive") for n in range(3))
    question = a_question(4)
    letters = {row_of(made(question, distractors=d), **GIVEN)["answer"] for d in (made(question).distractors, naive)}
    assert len(letters) == 1
    by_seed = {row_of(made(question), **{**GIVEN, "seed": seed})["answer"] for seed in range(40)}
    assert by_seed == set("ABCD")


def test_right_letters_are_evenly_distributed() -> None:
    letters = Counter(row_of(made(a_question(number)), **GIVEN)["answer"] for number in range(400))
    assert all(70 <= letters[letter] <= 130 for letter in "ABCD"), letters


def test_references_of_open_and_typed_answers() -> None:
    open_ended = replace(a_question(1, answer=BilingualText("two cars, both parked")), answer="Two cars, both parked")
    assert reference(open_ended) == "two cars, both parked"
    typed = replace(a_question(1, form="yesno", answer=BilingualText("yes")), answer="Yes.")
    assert reference(typed) == "Yes."


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (("a", "b"), "2 distractors"),
        (("a", "b", "A"), "differ"),
        (("a", "b", "  "), "text"),
        (("a", "b", "It carries load number 1."), "differ"),
        (("a", "b", "\ud800"), "Unicode"),
    ],
)
def test_rows_that_cannot_be_imported_have_a_fault(texts: tuple[str, ...], fault: str) -> None:
    bad = made(a_question(1), distractors=tuple(Distractor(text, ERRORS[0]) for text in texts))
    assert fault in (row_fault(row_of(bad, **GIVEN), bad.distractors) or "")


def test_a_good_row_has_no_fault() -> None:
    good = made(a_question(1))
    assert row_fault(row_of(good, **GIVEN), good.distractors) is None


def test_a_path_outside_the_image_folder_is_a_fault() -> None:
    bad = made(a_question(1, images=("../secret.jpg",)))
    assert ".." in (row_fault(row_of(bad, **GIVEN), bad.distractors) or "")
    assert Path(row_of(made(a_question(1)), **GIVEN)["images"][0]).parts[0] == "records"
