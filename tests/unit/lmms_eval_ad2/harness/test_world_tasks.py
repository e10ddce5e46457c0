"""The ad2x_world_* tasks: every question of a collected folder can be asked, and its reference scores 100."""

from __future__ import annotations

import pytest
from support.collected import example_rows, write_collection

from closedloop_plugin.learn.questions import kinds
from closedloop_plugin.learn.questions.collection import label_folder
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.world import TASKS
from lmms_eval_ad2.harness.task_files import groups, task_files
from lmms_eval_ad2.judge.backends.lexical import LexicalJudge
from lmms_eval_ad2.judge.base import JudgeRating
from lmms_eval_ad2.prompts.task_prompt import can_ask, prompt_text
from lmms_eval_ad2.scoring.reference_answers import (
    LARGEST_COUNT,
    ReferencePools,
    chain,
    chance_value,
    reference,
    written,
)
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

NAMES = [f"ad2x_world_{part}{ending}" for part in TASKS for ending in ("", "_zh")]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    folder = write_collection(tmp_path_factory.mktemp("set"), example_rows())
    label_folder(folder)
    return [Record.from_json(line) for line in (folder / "questions.jsonl").read_text("utf-8").splitlines()]


def test_there_is_a_task_for_each_family_in_both_languages() -> None:
    assert kinds.TASKS == TASKS
    assert {name for name in task_files() if "world" in name} == set(NAMES)
    for ending in ("", "_zh"):
        assert groups()[f"bench_ad2_world{ending}"] == tuple(f"ad2x_world_{part}{ending}" for part in TASKS)


@pytest.mark.parametrize("name", NAMES)
def test_references_score_100(name: str, records: list[Record]) -> None:
    task = task_files()[name]
    variant = task.variant()
    asked = [record for record in records if record.task == variant.part]
    assert (task.dataset, task.split, variant.benchmark) == ("world", "test", "world") and asked
    for record in asked:
        assert can_ask(record, variant)
        assert record.question.get(variant.lang) in prompt_text(record, variant)
        sample = score_sample(record, oracle(record, variant), variant, name)
        if variant.part != "cot":
            assert (sample.status, sample.score, sample.lang) == ("ok", 100.0, variant.lang), record.id
            continue
        compared = [item for item in sample.pending if item.rubric == "ad2_sacs"]
        ratings = LexicalJudge().rate(compared)
        assert [r.score for r in ratings if isinstance(r, JudgeRating)] == [10.0, 10.0, 10.0]


@pytest.mark.parametrize("part", [part for part in TASKS if part not in ("location", "detection", "cot")])
def test_random_answers_score_what_is_expected_of_them(part: str, records: list[Record]) -> None:
    """One of four letters, of two words, of the counts 0 to 10."""
    variant = TaskVariant("world", part)
    asked = [record for record in records if record.task == part]
    expected = [100 / _choices(record) for record in asked]
    pools = ReferencePools(asked, variant)
    scores = []
    for record in asked:
        for seed in range(400 // len(asked) + 1):
            value = chance_value(record, record.form, 0, seed, pools)
            sample = score_sample(record, written(value, record.form, "en", "auto", record.image_size), variant, "t")
            assert sample.score in (0.0, 100.0)
            scores.append(sample.score)
    spread = 50 / len(scores) ** 0.5  # standard deviation of a mean of 0 and 100, at most
    assert sum(scores) / len(scores) == pytest.approx(sum(expected) / len(asked), abs=4 * spread)


def _choices(record: Record) -> int:
    return {"mc": len(record.options), "yesno": 2, "count": LARGEST_COUNT + 1}[record.form]


def oracle(record: Record, variant: TaskVariant) -> str:
    form = variant.asked_form(record)
    if form == "chain":
        return chain([str(reference(record, form, variant.lang, step)) for step in range(len(record.steps))])
    value = reference(record, form, variant.lang)
    assert value is not None
    return written(value, form, variant.lang, variant.frame, record.image_size)
