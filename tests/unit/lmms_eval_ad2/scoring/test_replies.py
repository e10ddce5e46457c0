"""Several replies to each question: means, shares of questions and intervals, worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.builders import record

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import AnswerOption, BilingualText
from lmms_eval_ad2.judge.base import Judge
from lmms_eval_ad2.report.summary_fields import SummaryBlock
from lmms_eval_ad2.scoring import pipeline
from lmms_eval_ad2.scoring.replies import reply_record
from lmms_eval_ad2.scoring.result_files import read_samples, scored_samples
from lmms_eval_ad2.scoring.sample import ScoredSample, score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

RELATION = TaskVariant("ad2_bench", "relation")
FAILED = "[LMMS_EVAL_REQUEST_FAILED in x] no answer"


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
    found = SummaryBlock(Path("summary.json"), good).stability("replies")
    assert found and found.alike.official == 0 and found.per_question == 2
