"""Real answers of a DriveLM baseline, none of which equals its ground truth as a string."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.records import Answer, Unparsed

_OPTION = re.compile(r"\b([A-D])\. (.*?)(?= [A-D]\. |$)")


def test_what_the_answers_chose_is_found_and_nothing_is_guessed(data_dir: Path) -> None:
    rows = json.loads((data_dir / "drivelm" / "output.json").read_text("utf-8"))
    asked = [row for row in rows if re.fullmatch(r"[A-D]", row["gt_answer"])]
    read, right = 0, 0
    for row in asked:
        options = dict(_OPTION.findall(row["question"].partition("options: ")[2]))
        got = parse(row["answer"], "mc", options=options)
        if isinstance(got, Answer):
            said, chosen = (set(re.findall(r"\w+", text.lower())) for text in (row["answer"], options[str(got.value)]))
            assert chosen <= said
            read, right = read + 1, right + (got.value == row["gt_answer"])
        else:
            assert got.reason == "no_verdict"
    assert sum(row["answer"] == row["gt_answer"] for row in asked) == 0  # exact equality finds nothing
    assert (len(asked), read, right) == (17, 13, 3)


def test_statements_beside_the_question_are_no_yes_or_no(data_dir: Path) -> None:
    rows = json.loads((data_dir / "drivelm" / "output.json").read_text("utf-8"))
    said = [row["answer"] for row in rows if row["gt_answer"] in ("Yes.", "No.")]
    assert len(said) >= 9
    assert not [text for text in said if re.match(r"(?:yes|no)\b", text.lower())]
    assert {type(parse(text, "yesno")) for text in said} == {Unparsed}
