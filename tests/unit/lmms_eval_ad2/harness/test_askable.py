"""Records without the asked language: left out and counted (AD2-Bench), or asked in English (CODA-LM)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.builders import chain, record

from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Lang, ReasoningStep, Record
from lmms_eval_ad2.data.home import open_dataset, write_dataset
from lmms_eval_ad2.harness import task_data
from lmms_eval_ad2.harness.askable import has_askable
from lmms_eval_ad2.scoring.variant import TaskVariant

ENGLISH, CHINESE = BilingualText("Is there a truck?"), BilingualText(zh="有卡车吗？")


def options(*texts: BilingualText) -> tuple[AnswerOption, ...]:
    return tuple(AnswerOption(letter, text) for letter, text in zip("ABCD", texts, strict=False))


def read(
    root: Path, records: Sequence[Record], lang: Lang, part: str = "perception_base", **changes: object
) -> task_data.LoadedTask:
    benchmark = records[0].benchmark
    write_dataset(benchmark, "test", records, image_root=root, source={}, resume=False)
    variant = TaskVariant(benchmark, part, lang, **changes)  # type: ignore[arg-type]
    return task_data.read("t", benchmark, "test", variant).task


def ids(task: task_data.LoadedTask) -> list[str]:
    return [Record.from_json(text).id for text in task.records.to_pylist()]


@pytest.mark.parametrize(
    ("lang", "asked", "name"), [("zh", ["both", "zh"], "Chinese"), ("en", ["both", "en"], "English")]
)
def test_records_without_the_asked_language_are_left_out_and_counted(
    tmp_path: Path, lang: Lang, asked: list[str], name: str
) -> None:
    records = [record("both"), record("en", "yesno", question=ENGLISH), record("zh", "yesno", question=CHINESE)]
    task = read(tmp_path, records, lang)
    assert ids(task) == asked
    assert (task.data["questions"], task.data["left_out"], task.data["not_in_lang"]) == (2, 1, 1)
    assert task_data.notes(task) == [f"1 of 3 records do not fit this variant (1 have no {name} text); left out"]
    assert ids(read(tmp_path, records[:1], lang)) == ["both"]
    assert not task_data.notes(read(tmp_path, records[:1], lang))


def test_options_and_steps_need_the_asked_language_too(tmp_path: Path) -> None:
    """Numbers are the same in both; the options of a question that is asked as free text do not matter."""
    two = options(BilingualText("30"), BilingualText("50"))
    texts = options(BilingualText("thirty"), BilingualText("fifty", "五十"))
    records = [record("numbers", options=two), record("free", "vqa")]
    records.insert(1, record("texts", options=texts, answer=texts[0].text))
    assert ids(read(tmp_path, records, "zh")) == ["numbers", "free"]
    both = [record("both", "vqa", task="reasoning", subtask="weather", options=texts, letter="A")]
    assert ids(read(tmp_path, both, "zh", "reasoning")) == ["both"]
    step = ReasoningStep(BilingualText("s"), BilingualText("What?", "什么？"), BilingualText("fog", "雾"))
    chains = [chain("english"), chain("both", steps=0)]
    chains[1] = record("both", "chain", task="cot", steps=(step,))
    assert ids(read(tmp_path, chains, "zh", "cot", style="chain")) == ["both"]
    assert ids(read(tmp_path, chains, "en", "cot", style="chain")) == ["english", "both"]


def test_records_without_the_form_that_the_task_names_are_left_out_and_counted(tmp_path: Path) -> None:
    """Each form where a record has it; the default asks both records, the one with both forms as multiple choice."""
    choice = record("choice", answer=record().options[0].text)
    absent = record("absent", letter="F", answer=record().options[5].text)
    both = record("both", "vqa", answer=BilingualText("A white van."), options=record().options, letter="A")
    point = record("point", "point", answer=BilingualText("<5,5>"))
    records = [choice, absent, both, point]
    asked = {form: read(tmp_path, records, "en", form=form) for form in (None, "mc", "vqa")}
    assert {form: ids(task) for form, task in asked.items()} == {
        None: ["choice", "absent", "both", "point"], "mc": ["choice", "absent", "both"], "vqa": ["choice", "both"],
    }  # fmt: skip
    assert {form: (t.data["left_out"], t.data["not_in_form"]) for form, t in asked.items()} == {
        None: (0, 0), "mc": (1, 1), "vqa": (2, 2),
    }  # fmt: skip
    assert task_data.notes(asked["vqa"]) == ["2 of 4 records do not fit this variant (2 have no form vqa); left out"]
    variant = asked[None].variant
    assert [variant.asked_form(r) for r in records] == ["mc", "mc", "mc", "point"]


def test_a_task_without_a_record_in_its_language_has_nothing_to_ask(tmp_path: Path) -> None:
    write_dataset("ad2_bench", "test", [record(question=ENGLISH)], image_root=tmp_path, source={}, resume=False)
    data = open_dataset("ad2_bench", "test")
    assert has_askable(data, TaskVariant("ad2_bench", "perception_base"))
    assert not has_askable(data, TaskVariant("ad2_bench", "perception_base", "zh"))


def test_coda_lm_stays_english_and_counts_records_without_chinese(tmp_path: Path) -> None:
    plain = {"benchmark": "coda_lm", "task": "general", "question": ENGLISH}
    records = [
        record("en", "vqa", answer=BilingualText("A truck."), **plain),
        record("zh", "vqa", answer=BilingualText(zh="卡车。"), **plain),
    ]
    task = read(tmp_path, records, "zh", "general")
    assert (ids(task), task.data["left_out"], task.data["not_in_lang"]) == (["en", "zh"], 0, 1)
    assert task_data.notes(task) == ["1 of 2 records have no Chinese text; asked in English"]
