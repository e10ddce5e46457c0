"""Choices by kind of distractor, and the provenance of distractors."""

from __future__ import annotations

from typing import Any

import pytest
from support.mcq.records import DOMAIN, LOGIC, SENSOR, question

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.scoring.distractors import kind_table, provenance
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.sample_summary import SampleSummary
from lmms_eval_ad2.scoring.variant import TaskVariant

PLAIN = TaskVariant("autodrive_qa", "planning")


def line(record: Record, reply: str) -> SampleSummary:
    return SampleSummary.of(score_sample(record, reply, PLAIN, "t"), PLAIN)


def test_chosen_and_offered_by_hand() -> None:
    """Correct is A; options B, C, D are of the kinds in order. Two wrong choices, one right, one unparsed."""
    repeated_kind = (DOMAIN, DOMAIN, LOGIC)
    lines = [
        line(question("q1", kinds=repeated_kind), "B"),
        line(question("q2", kinds=repeated_kind), "D"),
        line(question("q3", kinds=(DOMAIN, LOGIC, SENSOR)), "A"),
        line(question("q4", kinds=(DOMAIN, LOGIC, SENSOR)), "Nobody can tell."),
    ]
    found = kind_table(lines)
    assert {k: (v["chosen"], v["offered"]) for k, v in found.items()} == {DOMAIN: (1, 5), LOGIC: (1, 3), SENSOR: (0, 1)}
    assert {k: v["share"] for k, v in found.items()} == {DOMAIN: 50, LOGIC: 50, SENSOR: 0}
    # Chosen as often as the other kind, but offered more often: the rate is lower.
    assert {k: v["rate"] for k, v in found.items()} == pytest.approx({DOMAIN: 20, LOGIC: 100 / 3, SENSOR: 0}, abs=1e-5)
    low, high = found[DOMAIN]["share_ci"]
    assert 0 < low < 1 and 99 < high < 100, "two questions, of one error each"
    assert found[DOMAIN]["rate_ci"][0] <= 20 <= found[DOMAIN]["rate_ci"][1]
    assert found[SENSOR]["rate_ci"] is None, "one question is no sample"


def test_shares_require_wrong_answers_and_rates_do_not() -> None:
    found = kind_table([line(question("q1"), "A"), line(question("q2"), "A")])
    assert [v["share"] for v in found.values()] == [None] * 3
    assert [v["rate"] for v in found.values()] == [0] * 3
    assert kind_table([line(question("q1"), "")]) == {}


def records(*metas: dict[str, Any]) -> list[Record]:
    return [question(f"q{i}", meta=meta) for i, meta in enumerate(metas)]


def test_provenance_of_records() -> None:
    origin = {"distractors": "all", "maker": "openai:gpt-4o"}
    metas = [{**origin, "correctness": mark} for mark in (5, 4, None, "5", True, 9)]
    assert provenance(records(*metas)) == {
        "distractors": "all",
        "maker": "openai:gpt-4o",
        "correctness": {"mean": 4.5, "n": 2, "unrated": 4},
    }


def test_mixed_provenance_lists_all_parts() -> None:
    both = ({"distractors": "all", "maker": "rules"}, {"distractors": "naive", "maker": "openai:x"}, {})
    mixed = provenance(records(*both))
    assert mixed["distractors"] == "all + naive + unsaid"
    assert mixed["maker"] == "openai:x + rules + unsaid"
    assert mixed["correctness"] == {"mean": None, "n": 0, "unrated": 3}


def test_records_without_provenance_have_no_label() -> None:
    assert provenance(records({}, {"source": "drivelm"})) == {}
    assert provenance([]) == {}
