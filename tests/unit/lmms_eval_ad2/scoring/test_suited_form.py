"""The form in which a record with both of AD2-Bench's forms is asked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.builders import chain, record

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import LANGS, AnswerOption, BilingualText, Record
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.score_columns import subtasks, suited_form
from lmms_eval_ad2.scoring.variant import TaskVariant

TEXT = BilingualText("It is hidden by a van.", "被面包车遮挡。")


def both(form: str, task: str, subtask: str, **changes: Any) -> Record:
    options = record().options
    return record(form=form, task=task, subtask=subtask, answer=TEXT, options=options, letter="A", **changes)


@pytest.mark.parametrize("form", ["mc", "vqa"])
@pytest.mark.parametrize(
    ("task", "subtask", "asked"),
    [
        ("perception_base", "category", "mc"),
        ("perception_advanced", "attribute", "mc"),
        ("perception_advanced", "dense_caption", "vqa"),
        ("perception_advanced", "others", "vqa"),
        ("perception_advanced", "a name of its own", "mc"),
        ("relation", "occlusion", "mc"),
        ("reasoning", "night", "vqa"),
    ],
)
def test_records_with_both_forms_are_asked_in_the_one_that_suits(
    form: str, task: str, subtask: str, asked: str
) -> None:
    one = both(form, task, subtask)
    assert set(one.forms) == {"mc", "vqa"}
    assert TaskVariant("ad2_bench", task).asked_form(one) == suited_form(one) == asked
    assert TaskVariant("ad2_bench", task, form="mc").asked_form(one) == "mc"
    assert TaskVariant("ad2_bench", task, form="vqa").asked_form(one) == "vqa"
    assert TaskVariant("ad2_bench", task, rounds=True).asked_form(one) == "chain"


def test_records_with_one_form_are_asked_in_it() -> None:
    plain = record("m", task="reasoning", subtask="night", answer=record().options[0].text)
    free = record("v", "vqa", task="relation", subtask="spatial")
    assert (plain.forms, suited_form(plain)) == (("mc",), "mc")
    assert (free.forms, suited_form(free)) == (("vqa",), "vqa")
    assert suited_form(chain()) == "chain"
    typed = record("c", "count", answer=BilingualText("2"), options=record().options, letter="A")
    assert (typed.forms, suited_form(typed)) == (("count", "mc"), "count")
    other = both("vqa", "relation", "spatial", benchmark="autodrive_qa")
    assert suited_form(other) == "vqa", "only AD2-Bench has two forms of a question"


def test_options_that_do_not_exist_in_the_language_are_not_asked() -> None:
    english = tuple(AnswerOption(letter, BilingualText(f"option {letter}")) for letter in "ABCD")
    one = dataclasses.replace(both("vqa", "relation", "spatial"), options=english)
    asked = {lang: TaskVariant("ad2_bench", "relation", lang).asked_form(one) for lang in LANGS}
    assert asked == {"en": "mc", "zh": "vqa"}
    numbers = tuple(AnswerOption(letter, BilingualText(str(k))) for k, letter in enumerate("ABCD"))
    assert suited_form(dataclasses.replace(one, options=numbers), "zh") == "mc"


def test_each_form_has_its_own_reference() -> None:
    """The letter under exact match, or the free text under the judge, not the text of the option."""
    one = both("vqa", "relation", "occlusion")
    asked = score_sample(one, "A", TaskVariant("ad2_bench", "relation"), "t")
    assert (asked.form, asked.values, asked.pending) == ("mc", {"occlusion": 1.0}, [])
    free = score_sample(one, "A van hides it.", TaskVariant("ad2_bench", "relation", form="vqa"), "t")
    assert (free.form, free.pending[0].reference) == ("vqa", TEXT.en)


def test_a_users_subtask_table_names_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("right_of_way: {part: relation, column: right_of_way, id: 31, form: vqa}\n")
    monkeypatch.setenv("AD2_SUBTASKS", str(file))
    assert suited_form(both("mc", "relation", "right_of_way")) == "vqa"
    assert suited_form(both("mc", "relation", "31st", subtask_id=31)) == "vqa"
    assert suited_form(both("mc", "reasoning", "right_of_way")) == "vqa", "the form of the part: reasoning"
    file.write_text("right_of_way: {part: relation, column: right_of_way, form: yesno}\n")
    with pytest.raises(DataError, match="'form': expected mc or vqa"):
        subtasks.__wrapped__(str(file))


def test_options_e_and_f_are_no_reference_of_an_open_question() -> None:
    from lmms_eval_ad2.prompts.text import can_ask

    absent = record(letter="F", answer=record().options[5].text)
    assert (can_ask(absent, "mc"), can_ask(absent, "vqa")) == (True, False)
    assert can_ask(record(answer=record().options[0].text), "vqa")
    own = record(letter="F", answer=BilingualText("There is no cyclist."))
    assert own.forms == ("mc", "vqa")
    assert can_ask(own, "vqa")


def test_a_text_in_one_language_only_repeats_its_option() -> None:
    options = (AnswerOption("A", BilingualText("A van.")), AnswerOption("B", BilingualText("A bus.")))
    assert record(options=options, letter="A", answer=BilingualText("A van.")).forms == ("mc",)
