"""judge/agreement: consistency compared with values worked out by hand."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.judge.agreement import HumanVotes, JudgedAnswer, compare

AB = ("a", "b")


def rated(task: str, sample: str, run: str = "", **marks: float | None) -> list[JudgedAnswer]:
    return [JudgedAnswer(task, sample, model, mark, run) for model, mark in marks.items()]


def test_the_majority_wins() -> None:
    assert HumanVotes("t", "1", AB, ("a", "a", "b")).winner == "a"
    assert HumanVotes("t", "1", AB, ("b", "b", "tie")).winner == "b"
    assert HumanVotes("t", "1", AB, ("a", "b", "tie")).winner is None
    assert HumanVotes("t", "1", AB, ("a", "b")).winner is None


def test_consistency_in_a_case_worked_out_by_hand() -> None:
    votes = [
        HumanVotes("g", "1", AB, ("a", "a", "b")),  # judge: a -> hit
        HumanVotes("g", "2", AB, ("b", "b", "b")),  # judge: a -> miss
        HumanVotes("g", "3", AB, ("a", "a", "a")),  # judge: tie -> miss
        HumanVotes("g", "4", AB, ("b", "b", "a")),  # judge: no mark for a -> miss
        HumanVotes("g", "5", AB, ("b", "b", "a")),  # judge: b -> hit
        HumanVotes("g", "6", AB, ("a", "b", "tie")),  # no human winner -> left out
    ]
    ratings = [
        *rated("g", "1", a=8, b=3), *rated("g", "2", a=6, b=5), *rated("g", "3", a=4, b=4),
        *rated("g", "4", a=None, b=9), *rated("g", "5", a=1, b=2), *rated("g", "6", a=1, b=2),
        *rated("other", "1", a=1, b=2),
    ]  # fmt: skip
    found = compare(ratings, votes)
    assert list(found) == ["g"]
    g = found["g"]
    assert g.hits == [1, 0, 0, 0, 1] and g.consistency == pytest.approx(2 / 5)
    assert g.decided == pytest.approx(2 / 3)
    assert (g.n_pairs, g.human_ties, g.judge_ties, g.unrated) == (6, 1, 1, 1)
    assert (g.spearman, g.kendall) == (None, None)  # two models have no ranks to correlate


def test_runs_are_compared_one_by_one_and_averaged() -> None:
    votes = [HumanVotes("g", "1", AB, ("a",)), HumanVotes("g", "2", AB, ("b",))]
    ratings = [
        *rated("g", "1", run="r1", a=9, b=1), *rated("g", "1", run="r2", a=1, b=9),
        *rated("g", "2", run="r1", a=1, b=9), *rated("g", "2", run="r2", a=1, b=9),
    ]  # fmt: skip
    g = compare(ratings, votes)["g"]
    assert g.hits == [0.5, 1.0] and g.consistency == 0.75 and g.n_judgements == 4


def test_the_winner_of_the_mean_mark_by_hand() -> None:
    """1: a wins two of three runs, b has the higher mean (4.67 to 6). 2: equal means. 3: a mark is missing."""
    votes = [HumanVotes("g", i, AB, (winner,)) for i, winner in (("1", "a"), ("2", "b"), ("3", "a"))]
    ratings = [
        *rated("g", "1", run="r1", a=7, b=5), *rated("g", "1", run="r2", a=6, b=4),
        *rated("g", "1", run="r3", a=1, b=9),
        *rated("g", "2", run="r1", a=8, b=4), *rated("g", "2", run="r2", a=4, b=8),
        *rated("g", "3", run="r1", a=None, b=8), *rated("g", "3", run="r2", a=7, b=5),
    ]  # fmt: skip
    g = compare(ratings, votes, "mean-score")["g"]
    assert g.hits == [0, 0, 1] and g.consistency == pytest.approx(1 / 3)  # 3: a 7, b 6.5; a missing mark is no 0
    assert (g.n_judgements, g.judge_ties, g.unrated) == (3, 1, 0)
    by_run = compare(ratings, votes)["g"]
    assert by_run.hits[0] == pytest.approx(2 / 3)


def test_ranks_of_three_models() -> None:
    votes = [
        HumanVotes("g", "1", ("a", "b"), ("a", "a", "a")),
        HumanVotes("g", "1", ("b", "c"), ("b", "b", "tie")),
        HumanVotes("g", "1", ("a", "c"), ("a", "a", "c")),
    ]  # shares: a 5/6, b 2.5/6, c 1.5/6 -> a > b > c
    same = compare(rated("g", "1", a=9, b=5, c=2), votes)["g"]
    assert (same.spearman, same.kendall) == (pytest.approx(1), pytest.approx(1))
    reversed_order = compare(rated("g", "1", a=2, b=5, c=9), votes)["g"]
    assert (reversed_order.spearman, reversed_order.kendall) == (pytest.approx(-1), pytest.approx(-1))
    one_swap = compare(rated("g", "1", a=9, b=2, c=5), votes)["g"]
    assert (one_swap.spearman, one_swap.kendall) == (pytest.approx(0.5), pytest.approx(1 / 3))


def test_missing_ratings_give_no_agreement_and_no_error() -> None:
    g = compare([], [HumanVotes("g", "1", AB, ("a",))])["g"]
    assert (g.consistency, g.unrated, g.decided) == (0.0, 1, None)
    assert compare([], [HumanVotes("g", "1", AB, ("a", "b"))])["g"].consistency is None
