"""Exam A: replies of many model families, written with their key by people who had not seen the parser.

A false reading is an answer that the key does not have; a lost one is an answer that was not read.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.records import SIDES, YES_NO, Answer, Unparsed
from lmms_eval_ad2.parsing import parse

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "exams" / "exam_a.jsonl").read_text("utf-8").splitlines()
]
COORDINATES = ("point", "box")
MOST_FALSE, MOST_LOST = 2 / 600, 18 / 600
_GRADES: dict[str, tuple[str, Answer | Unparsed]] = {}


def read(row: dict[str, Any]) -> Answer | Unparsed:
    options = row.get("options") or {}
    keywords: dict[str, Any] = {"question": row["question"]}
    if row["form"] == "mc":
        keywords |= {"options": options, "letters": tuple(options) or tuple(row.get("letters", "ABCD"))}
    if row["form"] == "yesno":
        keywords["words"] = SIDES if row["category"] == "yesno_leftright" else YES_NO
    if row["form"] in COORDINATES:
        keywords |= {"image_size": tuple(row["image_size"]), "frame": row.get("frame", "auto")}
        if row.get("model_input"):
            keywords["model_input"] = tuple(row["model_input"])
    return parse(row["reply"], row["form"], **keywords)


def agrees(row: dict[str, Any], value: Any) -> bool:
    """Whether a value is that of the key; coordinates to 1 % of the image's size."""
    key = row["expected"]
    if row["form"] in COORDINATES:
        size = row["image_size"]
        return len(value) == len(key) and all(
            abs(got - want) <= 0.01 * size[axis % 2] for axis, (got, want) in enumerate(zip(value, key, strict=True))
        )
    return str(value).strip() == str(key).strip()


def grade(row: dict[str, Any]) -> tuple[str, Answer | Unparsed]:
    """ "right", "false" or "lost", and the reading; each row of the exam is read once."""
    if row["id"] not in _GRADES:
        got = read(row)
        if isinstance(got, Unparsed):
            found = "right" if row["expected"] is None else "lost"
        else:
            found = "right" if row["expected"] is not None and agrees(row, got.value) else "false"
        _GRADES[row["id"]] = found, got
    return _GRADES[row["id"]]


def graded(rows: list[dict[str, Any]]) -> tuple[Counter[str], list[str]]:
    """The number of right, false and lost readings, and a line about each that is not right."""
    counts = Counter(grade(row)[0] for row in rows)
    wrong = [(row, *grade(row)) for row in rows if grade(row)[0] != "right"]
    return counts, [
        f"{found} {row['id']} ({row['category']}): wanted {row['expected']!r}, got {got}" for row, found, got in wrong
    ]


def test_few_answers_are_lost_and_hardly_any_is_read_falsely() -> None:
    counts, wrong = graded(ROWS)
    assert counts["lost"] <= MOST_LOST * len(ROWS), "\n".join(wrong)
    assert counts["false"] <= MOST_FALSE * len(ROWS), "\n".join(wrong)


@pytest.mark.parametrize("forms", [("mc",), ("yesno",), ("count", "ocr", "vqa"), COORDINATES], ids="-".join)
def test_no_form_is_read_much_worse_than_the_others(forms: tuple[str, ...]) -> None:
    rows = [row for row in ROWS if row["form"] in forms]
    counts, wrong = graded(rows)
    assert counts["lost"] <= 1.5 * MOST_LOST * len(rows), "\n".join(wrong)
    assert counts["false"] <= 1.5 * MOST_FALSE * len(rows), "\n".join(wrong)


def test_the_exam_covers_all_forms_in_both_languages() -> None:
    forms = Counter(row["form"] for row in ROWS)
    assert min(forms[form] for form in ("mc", "yesno", "count")) >= 200
    assert sum(row["language"] == "zh" for row in ROWS) >= 400
    assert sum(row["expected"] is None for row in ROWS) >= len(ROWS) / 5
