"""Circular evaluation: rotations, circular accuracy, consistency and position bias."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import record
from support.mcq.records import question

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Record
from lmms_eval_ad2.judge.base import Judge
from lmms_eval_ad2.report.summary_fields import SummaryBlock
from lmms_eval_ad2.scoring import pipeline
from lmms_eval_ad2.scoring.derived_records import ROTATED, reply_record, rotations
from lmms_eval_ad2.scoring.pipeline import summarise
from lmms_eval_ad2.scoring.result_files import read_samples, scored_samples
from lmms_eval_ad2.scoring.sample import ScoredSample, score_sample
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


RELATION = TaskVariant("ad2_bench", "relation")


def no_judge() -> Judge:
    raise AssertionError("letters need no judge")


def asked(replies: dict[str, list[str]]) -> list[ScoredSample]:
    """The samples of questions (named by cluster and number) whose right letter is A."""
    options = tuple(AnswerOption(letter, BilingualText(f"text {letter}")) for letter in "ABCD")
    samples = []
    for name, texts in replies.items():
        question = record(name, "mc", task="relation", subtask="social", options=options, letter="A", cluster=name[0])
        for number, text in enumerate(texts, 1):
            named = reply_record(question, number, of=len(texts)) if len(texts) > 1 else question
            samples.append(score_sample(named, text, RELATION, "t"))
    return samples


def table_of(replies: dict[str, list[str]], folder: Path | None = None) -> dict[str, Any]:
    return pipeline.score_task(asked(replies), "t", RELATION, no_judge, folder, progress=False)[0]


def test_mean_and_shares_by_hand() -> None:
    table = table_of(
        {
            "a1": ["A", "A", "A"],  # alike, always right
            "a2": ["B", "B", "B"],  # alike, wrong
            "b1": ["A", "C", "A"],
            "b2": ["A", "I cannot say.", "A"],  # an unread reply equals no other
            "c1": ["A", FAILED, "A"],  # no official value: it is not known
        }
    )
    assert (table["n"], table["n_unscored"], table["n_unparsed"]) == (15, 1, 1)
    # Official: an unread reply is wrong, a failed one is left out: (3 + 0 + 2 + 2 + 2) of 14 replies.
    assert table["columns"]["social"]["official"] == pytest.approx(100 * 9 / 14)
    found = table["replies"]
    assert (found["per_question"], found["questions"]) == (3, 5)
    assert (found["alike"]["official"], found["alike"]["strict"]) == (50, 40)  # 2 of 4; 2 of 5
    assert (found["always_right"]["official"], found["always_right"]["strict"]) == (25, 20)
    assert found["alike"]["n_unscored"] == 1


def test_equal_replies_do_not_narrow_the_interval() -> None:
    right = {
        f"{cluster}{number}": "A" if (ord(cluster) + number) % 3 else "B" for cluster in "abcdef" for number in (1, 2)
    }
    once = table_of({name: [letter] for name, letter in right.items()})
    often = table_of({name: [letter] * 4 for name, letter in right.items()})
    for cell in ("score", "columns"):
        one, four = (table[cell]["social"] if cell == "columns" else table[cell] for table in (once, often))
        assert four["official"] == pytest.approx(one["official"])
        assert four["ci"] == pytest.approx(one["ci"]) and four["clusters"] == one["clusters"]
    assert "replies" not in once and often["replies"]["alike"]["official"] == 100


def test_replies_have_samples_of_their_own_that_can_be_rescored(tmp_path: Path) -> None:
    table = table_of({"a1": ["A", "B"], "b1": ["B", "B"]}, tmp_path)
    rows = list(read_samples(tmp_path, "t"))
    assert [(row["id"], row["raw"]) for row in rows] == [("a1@1", "A"), ("a1@2", "B"), ("b1@1", "B"), ("b1@2", "B")]
    again = [sample for *_, sample in scored_samples(tmp_path, "t", RELATION, None)]
    assert pipeline.score_task(again, "t", RELATION, no_judge, None, progress=False)[0] == table


def test_a_broken_block_is_one_error() -> None:
    with pytest.raises(DataError, match=r"replies\.alike"):
        SummaryBlock(Path("summary.json"), {"replies": {"per_question": 3, "alike": "all"}}).stability("replies")
    good = json.loads(json.dumps(table_of({"a1": ["A", "B"]})))
    assert (
        (found := SummaryBlock(Path("summary.json"), good).stability("replies"))
        and found.alike.official == 0
        and found.per_question == 2
    )
