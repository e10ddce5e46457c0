"""The packaged table of AD2-Bench's sub-tasks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.builders import chain, record

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import LANGS, AnswerOption, BilingualText, Record
from lmms_eval_ad2.scoring.pipeline import summarise
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.sample_summary import SampleSummary
from lmms_eval_ad2.scoring.score_columns import column_of, mean_columns, subtasks, suited_form
from lmms_eval_ad2.scoring.variant import TaskVariant

# Section 3.2 and appendix A.5 to A.9 of the paper, with the column of Tables 5, 6 and 7 ("category" has none).
NAMED = {
    "perception_base": {
        "existence": "existence", "existence_left_right": "existence", "category": "category", "counting": "counting",
        "location": "location", "detection": "detection", "reference_detection": "detection",
    },
    "perception_advanced": {
        "ocr": "ocr_f1", "attribute": "attribute", "position": "position", "motion": "position",
        "dense_caption": "caption_others", "lane_line": "caption_others", "others": "caption_others",
    },
    "relation": {name: name for name in ("spatial", "social", "causal", "occlusion")},
    "reasoning": dict.fromkeys(
        ("weather", "night", "region", "occlusion_reasoning", "cross_role", "holistic"), "reasoning"
    ),
}  # fmt: skip


def test_sub_tasks_that_the_paper_names_have_their_columns() -> None:
    found: dict[str, dict[str, str]] = {}
    for row in subtasks().values():
        found.setdefault(row.part, {})[row.name] = row.column
    assert found == NAMED
    for part, columns in NAMED.items():
        assert {name: column_of("ad2_bench", part, name) for name in columns} == columns


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "subtasks.yaml"
    file.write_text(
        "yield_rule: {part: reasoning, column: traffic_rule, mean: true}\n"
        "sign_rule: {part: reasoning, column: traffic_rule}\n"
        "night: {part: reasoning, column: dark}\n"
        "intent: {part: relation, column: intent, mean: true, id: 31}\n"
    )
    monkeypatch.setenv("AD2_SUBTASKS", str(file))
    return file


@pytest.mark.usefixtures("table")
def test_columns_of_the_users_table_in_reasoning_and_in_means() -> None:
    assert [column_of("ad2_bench", "reasoning", name) for name in ("yield_rule", "night", "weather", "new")] == [
        "traffic_rule", "dark", "reasoning", "reasoning",
    ]  # fmt: skip
    assert column_of("ad2_bench", "cot", "yield_rule") == "cot"  # chains have the four columns of their scores
    assert mean_columns("ad2_bench", "reasoning") == ("reasoning", "traffic_rule")
    assert mean_columns("ad2_bench", "relation") == ("spatial", "occlusion", "social", "causal", "intent")
    assert mean_columns("world", "relation") == ("relation",)


@pytest.mark.usefixtures("table")
def test_a_column_with_mean_true_is_part_of_the_score() -> None:
    """reasoning 1 of 2, traffic_rule 1 of 1, dark 0 of 1: the mean is over the first two columns."""
    variant = TaskVariant("ad2_bench", "reasoning", form="mc")
    asked = [("weather", "A"), ("weather", "B"), ("yield_rule", "A"), ("night", "B")]
    samples = [
        score_sample(record(f"r{i}", task="reasoning", subtask=name, answer=BilingualText("A")), reply, variant, "t")
        for i, (name, reply) in enumerate(asked)
    ]
    found = summarise([SampleSummary.of(sample, variant) for sample in samples], variant, None)
    assert {name: cell["official"] for name, cell in found["columns"].items()} == {
        "reasoning": 50, "traffic_rule": 100, "dark": 0,
    }  # fmt: skip
    assert (found["score"]["columns"], found["score"]["official"]) == (["reasoning", "traffic_rule"], 75)


@pytest.mark.parametrize(
    ("row", "field", "expected"),
    [
        ("{part: cot, column: x}", "part", "Chains have the columns sacs, slps, orcs, djss"),
        ("{part: reasonning, column: x}", "part", "one of perception_base, perception_advanced, relation, reasoning"),
        ("{part: relation, column: ocr_cer}", "column", "a name, none of"),
        ("{part: relation, column: [x]}", "column", "a name, none of"),
        ("{part: relation, column: x, mean: yes please}", "mean", "true or false"),
        ("{part: relation, column: x, id: one}", "id", "a whole number from 1"),
        ("{part: relation, column: x, form: count}", "form", "mc or vqa"),
        ("{part: relation, colum: x}", "row", "mean: true or false"),
    ],
)
def test_wrong_rows_of_a_users_table_are_refused(tmp_path: Path, row: str, field: str, expected: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(f"intent: {row}\n")
    with pytest.raises(DataError, match=f"t.yaml, row intent: field '{field}'") as caught:
        subtasks(str(file))
    assert expected in str(caught.value)


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
