"""Texts of a checkout of CODA-LM, read from a synthetic one of the same structure."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.coda_checkout import QUESTIONS, SYSTEMS, write_checkout

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.coda_checkout import judge_prompt, official_questions

STAGE1, STAGE3 = "evaluation/stage1_eval_batch.py", "evaluation/stage3_eval_batch.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return write_checkout(tmp_path / "CODA-LM")


def test_messages_have_the_texts_of_the_files_unchanged(checkout: Path) -> None:
    prompt = judge_prompt(checkout, "coda_general")
    user = "<ref>\n{}\n</ref>\n\n<pred {{literal}}>\n{}\n</pred>"
    assert prompt.opening() == [
        {"role": "system", "content": SYSTEMS["stage1"]},
        {"role": "user", "content": user.format(" scene_few_shot ref ", "high pred")},
        {"role": "assistant", "content": "So.\nRating: [[9]]\n"},
        {"role": "user", "content": user.format(" scene_few_shot ref ", "low pred")},
        {"role": "assistant", "content": "So.\nRating: [[2]]\n"},
    ]
    item = "{0.__class__} [[10]] <<<END>>> "
    assert prompt.message("r", item) == {"role": "user", "content": user.format("r", item)}
    assert prompt.temperature == 0


def test_the_regional_prompt_has_no_examples(checkout: Path) -> None:
    assert judge_prompt(checkout, "coda_region").opening() == [{"role": "system", "content": SYSTEMS["stage3"]}]
    assert judge_prompt(checkout / "evaluation", "coda_suggestion").system == SYSTEMS["stage2"]


def test_questions_are_those_of_the_converter(checkout: Path) -> None:
    assert official_questions(checkout) == QUESTIONS


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (STAGE1, "temperature=self.temperature", "temperature=self.temperature, top_p=1", "the parameters model, mess"),
        (STAGE1, "temperature=0", "temperature=None", "field 'temperature': expected a number as the default"),
        (STAGE1, "workers=2", "workers=Batcher(temperature=1)", "field 'temperature': expected a number"),
        (STAGE1, "self.system_prompt = ", "self.system_prompt = VAR or ", "one text assigned to self.system_prompt"),
        (STAGE1, "</ref>", "{}", "field 'template': expected a text with two {}"),
        (STAGE1, "<ref>", "{0!r}", "field 'template': expected a text with two {}"),
        (STAGE1, '(message["reference"], message["prediction"])', '(message["prediction"], message["reference"])',
         "field 'create_messages': expected messages system, (user, assistant) of each example"),
        (STAGE1, "_few_shot", "_examples", "field 'create_messages'"),
        (STAGE3, '"content": self.system_prompt', '"content": self.other', "field 'create_messages'"),
        (STAGE3, "def create_messages", "def make", "expected one create_messages, found '0'"),
        (STAGE3, "class Region:", "class Region", "is not Python"),
    ],
)  # fmt: skip
def test_another_script_is_refused(checkout: Path, file: str, old: str, new: str, message: str) -> None:
    path = checkout / file
    changed = path.read_text("utf-8").replace(old, new)
    assert changed != path.read_text("utf-8")
    path.write_text(changed, "utf-8")
    with pytest.raises(Ad2Error) as caught:
        judge_prompt(checkout, "coda_general" if file == STAGE1 else "coda_region")
    assert message in str(caught.value) and path.name in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_that_is_no_checkout(checkout: Path) -> None:
    with pytest.raises(Ad2Error, match="name a checkout of CODA-LM, or its folder evaluation"):
        judge_prompt(checkout / "nowhere", "coda_general")
    with pytest.raises(Ad2Error, match=r"cannot read .*stage1_eval_batch.py: No such file.*is this a checkout"):
        judge_prompt(checkout / "evaluation" / "scene_few_shot", "coda_general")
    with pytest.raises(Ad2Error, match=r"cannot read .*convert2vqa.py"):
        official_questions(checkout / "evaluation")
    (checkout / "convert2vqa.py").write_text("x = 1")
    with pytest.raises(DataError, match=r"one text as the question of the rows of general_perception.jsonl"):
        official_questions(checkout)
