"""Multiple-choice records like AutoDrive-QA's, for tests of counts over options."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Record

DOMAIN, LOGIC, SENSOR = "driving_domain_misconceptions", "logical_inconsistencies", "misinterpreted_sensor_inputs"


def question(
    id: str, letter: str = "A", kinds: tuple[str, ...] = (DOMAIN, LOGIC, SENSOR), **changes: Any
) -> Record:  # fmt: skip
    """Options A, B, ...: the correct one at `letter`, the others of `kinds` in order; all texts differ."""
    rest = iter(kinds)
    letters = [chr(ord("A") + i) for i in range(len(kinds) + 1)]
    options = tuple(
        AnswerOption(x, BilingualText(f"{id} says {x}"), "correct" if x == letter else next(rest)) for x in letters
    )  # fmt: skip
    data: dict[str, Any] = {
        "id": id,
        "benchmark": "autodrive_qa",
        "task": "planning",
        "subtask": "safe action",
        "form": "mc",
        "images": ("a.jpg",),
        "question": BilingualText(f"What of {id}?"),
        "answer": BilingualText(f"{id} says {letter}"),
        "options": options,
        "letter": letter,
        "cluster": id,
        "meta": {"source": "drivelm"},
    }
    return Record(**{**data, **changes})
