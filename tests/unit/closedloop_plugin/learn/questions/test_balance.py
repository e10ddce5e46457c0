"""Balanced answers, bounds per frame and task; independent of the order of the questions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from support.builders import record

from closedloop_plugin.learn.questions.balance import BalancedSelection, quota
from closedloop_plugin.learn.questions.kinds import WorldQuestion


@pytest.mark.parametrize(
    ("counts", "most"),
    [
        ([90, 10], 10),  # two answers: as many of each
        ([50], 0),  # always the same answer
        ([1000, 1000, 500], 1000),  # 1000 of 2500 is 0.4, at most 1/3 + 0.1
        ([1000, 100, 10], 32),  # 32 of 74 is 0.4324; 33 of 76 is 0.4342
        ([40, 40, 40, 40, 40], 40),
    ],
)
def test_quota(counts: Sequence[int], most: int) -> None:
    assert quota(counts) == most


def question(number: int, value: str, *, task: str = "existence", frame: str = "", group: str = "car") -> WorldQuestion:
    one = record(f"q{number}", task=task, meta={"frame": frame or f"f{number}"})
    return WorldQuestion(one, f"{task}|{group}", value)


def kept(questions: Sequence[WorldQuestion], **bounds: int) -> list[WorldQuestion]:
    selection = BalancedSelection(seed=7)
    for one in questions:
        selection.add(one)
    return [one for one, keep in zip(questions, selection.kept(**bounds), strict=True) if keep]


def test_yes_and_no_are_equally_frequent() -> None:
    questions = [question(k, "yes" if k % 5 == 0 else "no") for k in range(100)]
    assert Counter(one.value for one in kept(questions)) == {"yes": 20, "no": 20}


def test_groups_are_balanced_one_by_one_and_free_answers_not_at_all() -> None:
    questions = [question(k, "yes", group="car") for k in range(9)] + [question(9, "no", group="truck")]
    questions += [question(k, "", task="location") for k in range(10, 15)]
    assert [one.record.task for one in kept(questions)] == ["location"] * 5


def test_a_frame_has_questions_of_different_tasks_first() -> None:
    questions = [question(k, "", frame="f") for k in range(20)]
    questions += [question(k, "", frame="f", task="cot") for k in (20, 21)]
    assert Counter(one.record.task for one in kept(questions, per_frame=3)) == {"existence": 2, "cot": 1}
    assert Counter(one.record.task for one in kept(questions, per_frame=50)) == {"existence": 3, "cot": 2}


def test_a_bound_per_task_keeps_the_balance() -> None:
    questions = [question(k, "yes" if k % 20 == 0 else "no") for k in range(1000)]
    questions += [question(k, "yes" if k % 2 else "no", group="bus") for k in range(1000, 1008)]
    counts = Counter((one.group, one.value) for one in kept(questions, per_task=30))
    assert counts == {
        ("existence|car", "yes"): 11, ("existence|car", "no"): 11, ("existence|bus", "yes"): 4,
        ("existence|bus", "no"): 4,
    }  # fmt: skip


@pytest.mark.parametrize("bound", range(3, 40))
def test_no_bound_per_task_leaves_one_answer_more_often(bound: int) -> None:
    questions = [question(k, ("yes", "no")[k % 2], group=f"{k % 7}") for k in range(200)]
    counts = Counter((one.group, one.value) for one in kept(questions, per_task=bound))
    assert all(counts[group, "yes"] == counts[group, "no"] for group, _ in counts)
    assert bound - 7 <= counts.total() <= bound


def test_a_bound_per_frame_prefers_no_answer() -> None:
    """Every frame has twenty questions; one of twenty is answered by yes."""
    questions = [question(k, "yes" if k % 20 == 0 else "no", frame=f"f{k // 20}") for k in range(4000)]
    assert len(kept(questions, per_frame=1)) > 150  # of 200 yes and 200 no about 200 frames


def test_the_choice_does_not_depend_on_the_order() -> None:
    questions = [question(k, "yes" if k % 5 == 0 else "no", frame=f"f{k // 4}") for k in range(200)]
    shuffled = list(questions)
    random.Random(1).shuffle(shuffled)
    first = {one.record.id for one in kept(questions, per_frame=1, per_task=20)}
    assert first == {one.record.id for one in kept(shuffled, per_frame=1, per_task=20)} and len(first) == 20
