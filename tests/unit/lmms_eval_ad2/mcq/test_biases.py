"""Biases of length, position and wording, and attacks, with values computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from support.mcq.choices import choice

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.mcq import biases
from lmms_eval_ad2.mcq.biases import ATTACKS, against_chance, attacks, kind_of, similarities


def test_against_chance_exact() -> None:
    # 3 of 4 at 1/4: P(3) + P(4) = 12/256 + 1/256; no outcome of the other tail is as unlikely.
    found = against_chance([1, 1, 1, 0], [0.25] * 4, ["one"] * 4)
    assert found is not None and found["test"] == "binomial"
    assert found["p_value"] == pytest.approx(13 / 256)
    assert (found["accuracy"], found["chance"]) == (0.75, 0.25)
    assert found["ci_of"] == "questions"
    assert tuple(found["ci"]) == pytest.approx((0.3006, 0.9544), abs=1e-4)  # Wilson
    assert not found["above_chance"]


def test_against_chance_with_ties_and_mixed_options() -> None:
    # Sum 3.5 of expected 2 * 1/2 + 2 * 1/4 = 1.5; variance 2/4 + 2 * 3/16 = 0.875; z = 2 / 0.93541 = 2.1381
    found = against_chance([1, 1, 1, 0.5], [0.5, 0.5, 0.25, 0.25], list("abcd"))
    assert found is not None and found["test"] == "normal"
    assert found["p_value"] == pytest.approx(0.03251, abs=1e-4)
    assert against_chance([], [], []) is None


def test_accuracy_below_chance_gives_no_warning() -> None:
    found = against_chance([0] * 100, [0.25] * 100, [str(i) for i in range(100)])
    assert found is not None and found["p_value"] < 1e-9 and not found["above_chance"]
    found = against_chance([1] * 100, [0.25] * 100, [str(i) for i in range(100)])
    assert found is not None and found["above_chance"]


def test_one_scene_with_many_questions_gives_no_warning() -> None:
    """Right in one scene of eleven, which has half of the questions: the interval over scenes contains chance."""
    hits, clusters = [1.0] * 50 + [0.0] * 50, ["a"] * 50 + [f"b{i % 10}" for i in range(50)]
    found = against_chance(hits, [0.25] * 100, clusters)
    assert found is not None and found["p_value"] < 1e-6 and found["ci_of"] == "clusters" and not found["above_chance"]
    # With few scenes no statement about other scenes is possible: the interval is over questions.
    found = against_chance(hits, [0.25] * 100, ["a"] * 50 + ["b"] * 50)
    assert found is not None and found["ci_of"] == "questions" and found["above_chance"]


def test_length_bias() -> None:
    records = [
        choice("1", "?", "x" * 20, ["a" * 10, "b" * 10, "c" * 10]),  # the longest
        choice("2", "?", "x" * 10, ["a" * 10, "b" * 5, "c" * 6]),  # ties as the longest
        choice("3", "?", "x" * 5, ["a" * 10, "b" * 20, "c" * 30]),  # the shortest
    ]
    found = biases.length(records)
    assert found["right_mean"] == pytest.approx(35 / 3, abs=1e-4)
    assert found["wrong_mean"] == pytest.approx((10 + 7 + 20) / 3, abs=1e-4)
    assert found["ratio"] == pytest.approx((2 * 10 / 7 * 0.25) ** (1 / 3), abs=1e-4)
    assert found["rank"] == pytest.approx((1 + 2.5 / 3 + 0) / 3, abs=1e-4)
    assert found["choose_longest"]["accuracy"] == pytest.approx(1.5 / 3)
    assert found["choose_shortest"]["accuracy"] == pytest.approx(1 / 3)
    assert biases.length([]) == {"n": 0}


def test_position_bias() -> None:
    records = [choice(str(n), "?", "r", ["a", "b", "c"], at=0 if n < 25 else n % 4) for n in range(40)]
    found = biases.position(records)
    counts = [found["counts"][letter] for letter in "ABCD"]
    assert counts == [28, 4, 4, 4] and found["expected"] == [10, 10, 10, 10]
    assert found["chi_square"] == pytest.approx((18**2 + 3 * 6**2) / 10)
    assert found["p_value"] < 1e-6 and found["commonest_letter_accuracy"] == 0.7


def test_position_bias_of_few_or_mixed_options() -> None:
    two = choice("1", "?", "r", ["a"], at=1)
    four = choice("2", "?", "r", ["a", "b", "c"], at=3)
    found = biases.position([two, four])
    assert found["counts"] == {"A": 0, "B": 1, "C": 0, "D": 1} and found["expected"] == [0.75, 0.75, 0.25, 0.25]
    assert found["p_value"] is None  # too few for the test
    assert biases.position([]) == {"n": 0}


def prior(records: list[Record], features: biases.Features) -> dict[str, Any] | None:
    hits = biases.prior_hits(records, features)
    return biases.compare_with_chance(records, hits) if hits is not None else None


def always_no(n: int, cluster: str = "") -> list[Record]:
    """The right option is always "No."; the wrong ones occur in one question only."""
    return [
        choice(f"{i}", f"Is it {i}?", "No.", [f"Yes, by {i}{j}" for j in "abc"], at=i % 4, cluster=cluster)
        for i in range(n)
    ]


def test_prior_finds_a_text_that_is_always_right() -> None:
    found = prior(always_no(20), biases.whole_text)
    assert found is not None and found["accuracy"] == 1.0 and found["above_chance"]


def test_prior_learns_from_other_scenes_only() -> None:
    """Within its own scene the right text is always "No."; it does not occur in other scenes."""
    records = [*always_no(10, "scene")[:5], *(choice(f"o{i}", "?", "car", ["bus", "van", "tram"]) for i in range(5))]
    found = prior(records, biases.whole_text)
    assert found is not None
    # Five in one scene: four equal scores, 1/4 each; five in their own clusters: "car" is known, 1 each.
    assert found["accuracy"] == pytest.approx((5 * 0.25 + 5) / 10)
    assert prior(always_no(10, "scene"), biases.whole_text) is None


def test_prior_by_words() -> None:
    """Wrong options contain a word that right ones never contain; whole texts carry no information."""
    records = [choice(f"{i}", "?", f"number {i}", [f"maybe number {i}{j}" for j in "xyz"], at=i % 4) for i in range(24)]
    by_words, by_text = prior(records, biases.single_words), prior(records, biases.whole_text)
    assert by_words is not None and by_words["accuracy"] == 1.0
    assert by_text is not None and by_text["accuracy"] == pytest.approx(0.25) and not by_text["above_chance"]


def test_prior_of_fair_options_is_at_chance() -> None:
    """Each of four texts is right equally often, in every order."""
    kinds = ["car", "bus", "van", "tram"]
    records = [
        choice(f"{i}", "?", kinds[i % 4], [k for k in kinds if k != kinds[i % 4]], at=(i // 4) % 4) for i in range(64)
    ]
    found = prior(records, biases.whole_text)
    assert found is not None and not found["above_chance"]


def test_balance() -> None:
    records = [choice("1", "?", "r", ["a", "b"]), choice("2", "?", "r", ["a", "b", "c"], task="planning")]
    found = biases.balance(records)
    assert found["task"] == {"perception": 1, "planning": 1} and found["options"] == {"3": 1, "4": 1}
    assert found["distractors"] == {"logical_inconsistencies": 5} and found["source"] == {"drivelm": 2}


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
