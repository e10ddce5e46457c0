"""Attacks on sets of multiple-choice questions, with values computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from support.mcq.choices import choice

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.mcq.attacks import ATTACKS, attacks, kind_of, similarities


def accuracy(records: list[Record], name: str, part: str = "all") -> float:
    found: dict[str, Any] = attacks(records)["by_attack"][name][part]
    return float(found["accuracy"])


ALONE = choice("a", "Is it moving?", "Yes, it turns.", ["No, it waits.", "No, it stands.", "No."], at=2)
EVEN = choice("b", "Is it moving?", "Yes, it turns.", ["Yes, it backs up.", "No, it waits.", "No, it stands."], at=1)
# The right one shares a word with each of the others, which share none.
MEDOID = choice("c", "What is it?", "White sedan", ["White truck", "Black sedan", "Red bus"], at=0)
# Two colours and two kinds: every option shares a word with two others.
GRID = choice("d", "What is it?", "White sedan", ["White truck", "Black sedan", "Black truck"], at=0)


def test_the_only_option_with_its_verdict_is_found() -> None:
    assert accuracy([ALONE], "odd_one_out") == accuracy([ALONE], "odd_verdict_or_medoid") == 1
    assert attacks([ALONE, EVEN])["polar"] == {"n": 2, "alone": 1}
    assert attacks([EVEN, MEDOID])["polar"] == {"n": 1, "alone": 0}


def test_similarity_finds_the_centre_of_the_options_and_no_cell_of_a_grid() -> None:
    assert similarities(["white sedan", "white truck", "black sedan", "red bus"]) == pytest.approx(
        [1 / 3, 1 / 6, 1 / 6, 0]
    )
    assert accuracy([MEDOID], "medoid") == 1
    assert accuracy([MEDOID], "odd_one_out") == 0
    assert accuracy([GRID], "medoid") == accuracy([GRID], "odd_one_out") == 0.25


def test_yes_or_no_questions_are_reported_apart() -> None:
    records = [ALONE, MEDOID, GRID]
    assert accuracy(records, "odd_one_out", "polar") == 1
    assert accuracy(records, "odd_one_out", "others") == pytest.approx(0.125)
    assert accuracy(records, "odd_one_out") == pytest.approx(1.25 / 3)
    found = attacks(records)
    assert found["best"]["all"] == "odd_verdict_or_medoid"  # (1 + 1 + 1/4) / 3
    assert set(found["by_attack"]) == set(ATTACKS)


def test_the_usual_answer_of_a_kind_is_learnt_without_the_question_itself() -> None:
    tags = ["<c1,CAM_FRONT,1.0,2.0>", "<c2,CAM_BACK,3.0,4.0>", "<c3,CAM_BACK,5.0,6.0>"]
    usual = [
        choice(
            f"q{i}",
            f"What is the status of {tag}?",
            "Moving.",
            ["Parked.", "Turning.", f"Number {i}."],
            at=i,
            cluster="s",
        )
        for i, tag in enumerate(tags)
    ]
    assert len({kind_of(record) for record in usual}) == 1
    assert accuracy(usual, "usual_text_of_kind") == 1
    # Alone of its kind, nothing is known: four equal scores.
    assert accuracy(usual[:1], "usual_text_of_kind") == 0.25
    # Among other kinds the text says nothing.
    other = choice("o", "Where is it?", "Moving.", ["Parked.", "Turning.", "Far."])
    assert accuracy([other, *usual], "usual_text_of_kind") == pytest.approx((3 + 0.25) / 4)
    assert attacks(usual)["by_attack"]["usual_text"]["all"] is None, "one scene only"


def test_an_option_in_the_words_of_the_question_is_found() -> None:
    asked = choice("q", "Which lane is the ego lane?", "The ego lane", ["A bus", "A van", "A tram"])
    assert accuracy([asked], "like_question") == 1


def test_kinds_of_questions_do_not_differ_in_directions_and_objects() -> None:
    records = [
        choice("1", "Are there cars to the front left of the ego car?", "Yes, two cars.", ["No, but a bus."]),
        choice("2", "Are there cars to the back of the ego car?", "Yes, two cars.", ["No, but a bus."]),
        choice("3", "Are there trucks to the back of the ego car?", "Yes, two trucks.", ["No, but a bus."]),
    ]
    assert [kind_of(r) == kind_of(records[0]) for r in records] == [True, True, False]
