"""Counting: every thing of the kind is either clearly shown or not in the picture."""

from __future__ import annotations

from typing import Any

from support.collected import UNSEEN, actor, asker

from closedloop_plugin.learn.questions.things import MOST, counting


def counts(*objects: Any) -> dict[str, str]:
    return {q.record.question.en: q.record.answer.en for q in counting(asker(*objects))}


def test_counts_by_group_and_by_kind() -> None:
    found = counts(actor("1", kind="car"), actor("2", kind="police"), actor("3", kind="truck"), actor("4", **UNSEEN))
    assert found["How many vehicles are there?"] == "3"
    assert (found["How many cars are there?"], found["How many trucks are there?"]) == ("2", "1")
    assert (found["How many buses are there?"], found["How many people are there?"]) == ("0", "0")


def test_one_partly_hidden_thing_makes_the_number_unsure() -> None:
    found = counts(actor("1"), actor("2", visible=0.1))
    assert not {"How many vehicles are there?", "How many cars are there?", "How many vans are there?"} & set(found)
    assert found["How many obstacles are there?"] == "0"


def test_a_distant_vehicle_counts_as_a_vehicle_only() -> None:
    found = counts(actor("1"), actor("2", pixels=20))
    assert found["How many vehicles are there?"] == "2" and "How many cars are there?" not in found


def test_crowds_are_not_counted() -> None:
    assert "How many people are there?" not in counts(*(actor(str(k), kind="child") for k in range(MOST + 1)))
