"""Small records for tests."""

from __future__ import annotations

from typing import Any

from lmms_eval_ad2.core.records import AnswerOption, BilingualText, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.scoring.variant import TaskVariant

BASE = TaskVariant("ad2_bench", "perception_base")


def record(id: str = "r1", form: str = "mc", **changes: Any) -> Record:
    """A record of AD2-Bench's basic perception; `changes` replace fields."""
    data: dict[str, Any] = {
        "id": id,
        "benchmark": "ad2_bench",
        "task": "perception_base",
        "subtask": "existence",
        "form": form,
        "images": ("a.jpg",),
        "question": BilingualText("Is there a truck?", "有卡车吗？"),
        "answer": BilingualText("yes", "是"),
        "image_size": (100, 50),
        "cluster": "a",
    }
    if form == "mc":
        letters = ("correct", "distractor", "distractor", "distractor", "none_matches", "absent")
        data["options"] = tuple(
            AnswerOption(letter, BilingualText(f"option {letter}", f"选项{letter}"), kind)
            for letter, kind in zip("ABCDEF", letters, strict=True)
        )
        data["letter"] = "A"
    return Record(**{**data, **changes})


def chain(id: str = "c1", steps: int = 3, **changes: Any) -> Record:
    parts = tuple(
        ReasoningStep(BilingualText(f"s{i}"), BilingualText(f"question {i}?"), BilingualText(f"truth {i}"))
        for i in range(1, steps + 1)
    )
    return record(
        id, "chain", task="cot", subtask="holistic", steps=parts, answer=BilingualText("slow down"), **changes
    )


def boxed(id: str = "b1") -> Record:
    return record(
        id,
        "box",
        subtask="detection",
        answer=BilingualText("[10, 10, 30, 30]"),
        mark=VisualPrompt("box", ((10.0, 10.0, 30.0, 30.0),)),
    )
