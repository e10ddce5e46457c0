"""Circular evaluation: rotations, circular accuracy, consistency and position bias."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mcq.records import question

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.scoring.pipeline import summarise
from lmms_eval_ad2.scoring.rotation import ROTATED, rotations
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.sample_summary import SampleSummary
from lmms_eval_ad2.scoring.variant import TaskVariant

CIRCULAR = TaskVariant("autodrive_qa", "planning", circular=True)
FAILED = "[LMMS_EVAL_REQUEST_FAILED after 5 retries] x"


def correct_letters(record: Record) -> list[str]:
    return [rotated.letter for rotated in rotations(record)]


def lines(*records_and_replies: tuple[Record, list[str]]) -> list[SampleSummary]:
    return [
        SampleSummary.of(score_sample(rotated, reply, CIRCULAR, "t"), CIRCULAR)
        for record, answers in records_and_replies
        for rotated, reply in zip(rotations(record), answers, strict=False)
    ]


def table(*records_and_replies: tuple[Record, list[str]]) -> dict[str, Any]:
    return summarise(lines(*records_and_replies), CIRCULAR, None)


def official(found: dict[str, Any], column: str) -> tuple[float | None, float | None]:
    return found["columns"][column]["official"], found["columns"][column]["strict"]


@given(st.integers(2, 8), st.integers(0, 7))
def test_rotations_place_every_option_at_every_letter_once(count: int, offset: int) -> None:
    letter = chr(ord("A") + offset % count)
    record = question("q", letter, tuple(f"kind{i}" for i in range(count - 1)))
    rotated = list(rotations(record))
    assert len(rotated) == len({r.id for r in rotated}) == count
    for r in rotated:
        assert [o.letter for o in r.options] == [o.letter for o in record.options]
        assert {(o.text, o.kind) for o in r.options} == {(o.text, o.kind) for o in record.options}
        assert next(o for o in r.options if o.letter == r.letter).kind == "correct"
    for position in range(count):
        assert len({r.options[position].text for r in rotated}) == count
    assert rotated[0].options == record.options
    assert rotated[1].meta[ROTATED] == {"id": "q", "by": 1, "of": count}


def test_a_question_without_a_cluster_is_its_own_cluster() -> None:
    assert {r.cluster for r in rotations(question("q", cluster=""))} == {"q"}


def test_three_questions_by_hand() -> None:
    """One right in all rotations, one with an unparsed answer, one always answered A."""
    correct, unparsed, always_a = question("q1", "B"), question("q2", "C"), question("q3", "A")
    found = table(
        (correct, correct_letters(correct)),
        (unparsed, [*correct_letters(unparsed)[:3], "It depends."]),
        (always_a, ["A"] * 4),
    )
    assert official(found, "circular") == pytest.approx((100 / 3, 100 / 3), abs=1e-5)
    assert official(found, "accuracy") == pytest.approx((100 * 8 / 12, 100 * 8 / 12), abs=1e-5)
    assert official(found, "consistency") == pytest.approx((100 / 3, 100 / 3), abs=1e-5)
    assert found["score"]["official"] == found["columns"]["circular"]["official"]
    assert (found["score"]["n"], found["score"]["n_unparsed"]) == (3, 1)
    assert (found["n"], found["n_unparsed"]) == (12, 1)
    assert list(found["reasons"].values()) == [1]
    assert found["subtasks"]["safe action"]["n"] == 3
    assert found["breakdowns"]["source"]["drivelm"]["official"] == found["score"]["official"]
    letters = found["position"]["letters"]
    # q1: B A D C; q2: C B A, unparsed; q3: four times A
    assert {k: v["n"] for k, v in letters.items()} == {"A": 6, "B": 2, "C": 2, "D": 1}
    assert found["position"]["n"] == 11
    assert found["position"]["distance"] == pytest.approx(100 * (6 / 11 - 1 / 4), abs=1e-5)


def test_the_same_wrong_text_in_all_rotations_is_consistent() -> None:
    record = question("q", "A")
    wrong = [next(o.letter for o in r.options if o.text.en == "q says C") for r in rotations(record)]
    assert sorted(wrong) == ["A", "B", "C", "D"]
    found = table((record, wrong))
    assert official(found, "consistency") == (100, 100)
    assert official(found, "circular") == (0, 0)
    assert found["error_kinds"] == {"logical_inconsistencies": 4}


def test_question_with_a_failed_request_is_unscored() -> None:
    record, other = question("q1", "B"), question("q2", "D")
    found = table((record, [*correct_letters(record)[:3], FAILED]), (other, correct_letters(other)))
    assert official(found, "circular") == (100, 50)
    assert official(found, "consistency") == (100, 50)
    assert official(found, "accuracy") == (100, 87.5)
    assert (found["score"]["n"], found["score"]["n_ok"], found["score"]["n_unscored"]) == (2, 1, 1)
    assert found["reasons"] == {"unscored:request_failed": 1}


def test_questions_with_missing_rotations_are_omitted_and_counted() -> None:
    complete, partial = question("q1"), question("q2")
    found = table((complete, correct_letters(complete)), (partial, correct_letters(partial)[:2]))
    assert found["score"]["n"] == 1
    assert (found["position"]["questions"], found["position"]["asked"], found["position"]["incomplete"]) == (1, 6, 2)
    nothing = table((partial, correct_letters(partial)[:2]))
    assert nothing["score"]["official"] is None
    assert nothing["position"]["distance"] is None


def test_rotations_of_one_question_are_one_cluster() -> None:
    """Two questions with four rotations each have the interval of two clusters."""
    a, b = question("q1"), question("q2")
    found = table((a, correct_letters(a)), (b, ["A", "A", "A", "A"]))
    accuracy = found["columns"]["accuracy"]
    low, high = accuracy["ci"]
    assert accuracy["clusters"] == 2 and low < 5 and high > 95
    one = table((a, correct_letters(a)))
    assert one["columns"]["accuracy"]["clusters"] == 1
    assert one["columns"]["accuracy"]["ci"] is None


def test_tasks_without_rotations_have_no_position_bias() -> None:
    plain = TaskVariant("autodrive_qa", "planning")
    row = score_sample(question("q"), "A", plain, "t")
    found = summarise([SampleSummary.of(row, plain)], plain, None)
    assert found["position"] is None
    assert list(found["columns"]) == ["accuracy"]
    assert "circular" not in plain.changes()
    assert CIRCULAR.changes() == {"circular": True}


@pytest.mark.parametrize("more", [{"form": "vqa"}, {"style": "chain"}, {"rounds": True}])
def test_circular_evaluation_requires_options(more: dict[str, Any]) -> None:
    with pytest.raises(Ad2Error, match="circular rotates options"):
        TaskVariant.from_dict({"benchmark": "autodrive_qa", "part": "planning", "circular": True, **more}, "task t")


def test_unparsed_answers_in_all_rotations_are_not_consistent() -> None:
    found = table((question("q"), ["Nobody can tell."] * 4))
    assert official(found, "consistency") == (0, 0)
    assert found["position"]["n"] == 0
    assert found["position"]["distance"] is None
