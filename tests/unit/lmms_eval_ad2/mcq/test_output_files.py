"""The counts of the card, by hand."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.mcq.output_files import CardCounts

KINDS = ("correct", "logical_inconsistencies", "misinterpreted_sensor_inputs", "question_ambiguity")


def row(number: int, task: str = "planning", subtask: str = "goal action", **meta: Any) -> dict[str, Any]:
    letters = "ABCD"[number % 4 :] + "ABCD"[: number % 4]
    options = [{"letter": x, "text": x, "kind": kind} for x, kind in sorted(zip(letters, KINDS, strict=True))]
    return {
        "source": "drivelm",
        "task": task,
        "subtask": subtask,
        "answer": letters[0],
        "options": options,
        "meta": meta,
    }


def counts_of_rows() -> dict[str, Any]:
    counts = CardCounts()
    for number in range(6):
        counts.add(row(number, correctness=5 if number else 4, rounds=number % 2))
    counts.add(row(6, "perception", "motion state", correctness=5))
    counts.add({**row(7, "perception", "motion state"), "source": "lingoqa"})
    return counts.facts()


def test_rows_are_counted() -> None:
    counts = counts_of_rows()
    assert (counts["n"], counts["source"], counts["cell"]["lingoqa/perception"]) == (8, {"drivelm": 7, "lingoqa": 1}, 1)
    assert counts["position"] == {"A": 2, "B": 2, "C": 2, "D": 2}
    assert counts["category"] == dict.fromkeys(KINDS[1:], 8)
    assert counts["subtask"] == {"perception/motion state": 2, "planning/goal action": 6}
    assert (counts["correctness"], counts["correctness_mean"]) == ({"4": 1, "5": 6}, round(34 / 7, 4))
    assert counts["rounds"] == {"0": 5, "1": 3}
    assert CardCounts().facts()["correctness_mean"] is None
