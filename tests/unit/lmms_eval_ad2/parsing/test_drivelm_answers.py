"""Real answers of a DriveLM baseline, none of which equals its ground truth as a string."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing import parse

_OPTION = re.compile(r"\b([A-D])\. (.*?)(?= [A-D]\. |$)")


def test_chosen_options_are_found_and_none_is_guessed(data_dir: Path) -> None:
    rows = json.loads((data_dir / "drivelm" / "output.json").read_text("utf-8"))
    choice_rows = [row for row in rows if re.fullmatch(r"[A-D]", row["gt_answer"])]
    parsed, correct = 0, 0
    for row in choice_rows:
        options = dict(_OPTION.findall(row["question"].partition("options: ")[2]))
        got = parse(row["answer"], "mc", options=options)
        if isinstance(got, Answer):
            answer_words, option_words = (
                set(re.findall(r"\w+", text.lower())) for text in (row["answer"], options[str(got.value)])
            )
            assert option_words <= answer_words
            parsed, correct = parsed + 1, correct + (got.value == row["gt_answer"])
        else:
            assert got.reason == "no_verdict"
    assert sum(row["answer"] == row["gt_answer"] for row in choice_rows) == 0  # exact equality finds no correct answer
    assert (len(choice_rows), parsed, correct) == (17, 13, 3)


def test_statements_without_yes_or_no_are_unparsed(data_dir: Path) -> None:
    rows = json.loads((data_dir / "drivelm" / "output.json").read_text("utf-8"))
    answers = [row["answer"] for row in rows if row["gt_answer"] in ("Yes.", "No.")]
    assert len(answers) >= 9
    assert not [text for text in answers if re.match(r"(?:yes|no)\b", text.lower())]
    assert {type(parse(text, "yesno")) for text in answers} == {Unparsed}
