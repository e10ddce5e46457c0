"""The settings of our task files that the papers prescribe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builders import chain, record

from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Lang, ReasoningStep, Record
from lmms_eval_ad2.data.home import open_dataset, write_dataset
from lmms_eval_ad2.harness import task_data
from lmms_eval_ad2.harness.task_files import catalogue, groups, has_askable, load_yaml, task_files, tasks_dir
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
    return task_data.read("t", benchmark, "test", variant)[0]


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


GROUPS = {
    "bench_ad2": ("ad2_perception_base", "ad2_perception_advanced", "ad2_relation", "ad2_cot"),  # Table 2
    "bench_coda_lm": ("ad2_coda_general", "ad2_coda_region", "ad2_coda_suggestion"),
    "bench_autodrive_qa": ("ad2_mcq_perception", "ad2_mcq_prediction", "ad2_mcq_planning"),
}

AD2_PARTS = ("perception_base", "perception_advanced", "relation", "reasoning", "cot")
CANONICAL = {f"ad2_{part}": ("ad2_bench", part) for part in AD2_PARTS}
CANONICAL |= {f"ad2_coda_{part}": ("coda_lm", part) for part in ("general", "region", "suggestion")}
# Ending of a task's name -> in what it differs from the canonical task
VARIANTS: dict[str, dict[str, Any]] = {
    "": {}, "_mini": {}, "_val": {}, "_zh": {"lang": "zh"}, "_mc": {"form": "mc"}, "_vqa": {"form": "vqa"},
    "_coord": {"coords": True}, "_rounds": {"rounds": True}, "_rounds_zh": {"rounds": True, "lang": "zh"},
    **{f"_mark_{kind}": {"mark": kind} for kind in ("none", "coords", "reference", "point", "box")},
}  # fmt: skip


@pytest.mark.parametrize("name", CANONICAL)
def test_tasks_ask_the_part_and_the_variant_in_their_names(name: str) -> None:
    benchmark, part = CANONICAL[name]
    stem = name.replace("ad2_", "ad2x_", 1)
    found = {task.name.removeprefix(stem): task for task in catalogue() if task.name.startswith(f"{stem}_")}
    found[""] = task_files()[name]
    assert "_zh" in found
    for ending, task in found.items():
        assert (task.dataset, task.variant().benchmark, task.variant().part) == (benchmark, benchmark, part)
        assert task.split == {"_mini": "mini", "_val": "val"}.get(ending, "test")
        style = {"style": "chain"} if part == "cot" and "_rounds" not in ending else {}
        assert task.variant().changes() == {**VARIANTS[ending], **style}, task.name


def test_every_open_loop_task_decodes_greedily() -> None:
    """AD2-Bench A.4: temperature 0; CODA-LM 5.1: greedy decoding."""
    tasks = [task for task in catalogue() if not task.name.startswith("ad2drive_")]
    assert len(tasks) > 80
    for task in tasks:
        assert (task.generation["temperature"], task.generation["do_sample"]) == (0, False), task.name


def test_limits_of_tokens_follow_what_is_asked() -> None:
    """Letters and numbers: 512, as AutoDrive-QA's; texts: 1,024; all steps of a chain in one turn: 2,048."""
    for task in (one for one in catalogue() if one.settings.get("benchmark") == "ad2_bench"):
        variant = task.variant()
        short = variant.form == "mc" or (variant.part == "perception_base" and variant.form is None)
        expected = 2048 if variant.style == "chain" else 512 if short else 1024
        if variant.rounds:
            continue  # one step per reply
        assert task.generation["max_new_tokens"] == expected, task.name
        assert task.generation["until"] == [], task.name


def test_tasks_with_the_ngram_metrics_of_the_papers() -> None:
    """CODA-LM Table 6, for all regions; AutoDrive-QA Table 1, open questions; DriveLM's language score."""
    found = {task.name: list(task.settings["captions"]) for task in catalogue() if "captions" in task.settings}
    # The demo task by coordinates has none: Table 6 is with the red box.
    regions = [
        task.name
        for task in catalogue()
        if task.settings.get("part") == "region" and task.name != "ad2demo_coda_region_coord"
    ]
    assert all(found.pop(name) == ["bleu_4", "meteor", "cider", "spice"] for name in regions) and len(regions) > 4
    parts = ("perception", "prediction", "planning")
    drivelm = [f"ad2x_drivelm_{part}" for part in (*parts, "behavior")]
    assert all(found.pop(name) == ["bleu_4", "rouge_l", "cider"] for name in drivelm)
    assert found == {f"ad2x_mcq_{part}{views}_open": ["bleu_4", "cider"] for part in parts for views in ("", "_mv")}


@pytest.mark.parametrize("group", GROUPS)
def test_the_score_of_a_group_is_the_mean_of_its_parts(group: str) -> None:
    assert groups()[group] == GROUPS[group]
    (file,) = tasks_dir().rglob(f"{group}.yaml")
    (mean,) = load_yaml(file)["aggregate_metric_list"]
    assert (mean["metric"], mean["aggregation"], mean["weight_by_size"]) == ("score", "mean", False)
