"""`lmms_eval_ad2.evaluate` and `closedloop_plugin.evaluate`, with the scores of the commands."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.running import run_lmms_eval, tables

import closedloop_plugin
import lmms_eval_ad2
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.store import read_records
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error

TASK = "ad2demo_mcq_perception"
FAKE_WORLD = "closedloop_plugin.worlds.testing.fake_world:FakeWorld"


class Letters:
    """Answers "A"; keeps the prompts."""

    def __init__(self, answer: str = "A") -> None:
        self.batches: list[Sequence[Any]] = []
        self.answer = answer

    def __call__(self, prompts: Sequence[Any], settings: Any) -> list[str]:
        self.batches.append(prompts)
        return [self.answer] * len(prompts)


def test_a_function_is_asked_in_batches_and_again_only_under_another_name(tmp_path: Path) -> None:
    answer = Letters()
    found = lmms_eval_ad2.evaluate(answer, TASK, out=tmp_path, name="step1", batch_size=4, limit=6)
    assert [len(batch) for batch in answer.batches] == [4, 2]
    assert all(prompt.text and prompt.images for batch in answer.batches for prompt in batch)
    assert found.tasks[TASK].score.n == 6 and found.scores[TASK] == found.tasks[TASK].score.official
    assert found.about["model"] == "step1" and found.folder and "step1" in str(found)
    lmms_eval_ad2.evaluate(answer, TASK, out=tmp_path, name="step1", batch_size=4, limit=6)
    assert len(answer.batches) == 2
    lmms_eval_ad2.evaluate(answer, TASK, out=tmp_path, name="step2", batch_size=6, limit=6)
    assert len(answer.batches) == 3
    lmms_eval_ad2.evaluate(answer, TASK, out=tmp_path, batch_size=6, limit=6)
    lmms_eval_ad2.evaluate(answer, TASK, out=tmp_path, batch_size=6, limit=6)
    assert len(answer.batches) == 5, "without a name each call is a run of its own"


@pytest.mark.parametrize("given", [{"max_new_tokens": 7, "temperature": 0.5}, "max_new_tokens=7,temperature=0.5"])
def test_generation_settings_reach_the_function_and_the_results(given: Any, tmp_path: Path) -> None:
    asked: list[tuple[int, float]] = []
    seen: list[tuple[int, int]] = []

    def answer(prompts: Sequence[Any], settings: Any) -> list[str]:
        asked.append((settings.max_new_tokens, settings.temperature))
        return ["A"] * len(prompts)

    options: dict[str, Any] = {"out": tmp_path, "name": "m", "batch_size": 4, "progress": lambda *n: seen.append(n)}
    found = lmms_eval_ad2.evaluate(answer, TASK, limit=6, gen_kwargs=given, **options)
    assert set(asked) == {(7, 0.5)} and found.about["gen_kwargs"] == "max_new_tokens=7,temperature=0.5"
    assert seen == [(4, 6), (6, 6)]
    lmms_eval_ad2.evaluate(answer, TASK, limit=8, gen_kwargs=given, **options)
    assert seen[2:] == [(8, 8)], "answers of the journal are counted"
    with pytest.raises(Ad2Error, match=r"max_new_token=7: did you mean max_new_tokens\?"):
        lmms_eval_ad2.evaluate(answer, TASK, gen_kwargs={"max_new_token": 7}, **options)


@pytest.mark.system
def test_scores_are_those_of_the_command(tmp_path: Path) -> None:
    found = lmms_eval_ad2.evaluate("ad2_chance", "ad2demo_perception_base", out=tmp_path / "f", limit=20)
    words = ["--model", "ad2_chance", "--tasks", "ad2demo_perception_base", "--limit", "20"]
    assert run_lmms_eval(*words, "--output_path", tmp_path / "c", cwd=tmp_path).returncode == 0
    assert found.folder and tables(tmp_path / "f") == tables(tmp_path / "c")


def test_nothing_of_the_process_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setenv("AD2_FRAME", "unit")
    before = dict(os.environ)
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    expected = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    lmms_eval_ad2.evaluate(Letters(), TASK, judge="lexical", frame="pixel", limit=2)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected
    assert dict(os.environ) == before


def test_a_model_object_keeps_its_weights(tmp_path: Path) -> None:
    """lmms-eval removes the modules of a model after its requests."""
    from torch import nn

    from lmms_eval_ad2.harness.library import model_object

    model = model_object(Letters(), "net", 2)
    model.net = nn.Linear(1, 1)
    for _ in range(2):
        lmms_eval_ad2.evaluate(model, TASK, limit=2)
    assert isinstance(model.net, nn.Linear)


@pytest.mark.parametrize(
    ("faulty", "reason"),
    [
        (lambda prompts: 1 / 0, "ZeroDivisionError"),
        (lambda prompts: ["A"] * (len(prompts) + 1), "3 values for 2 prompts"),
        (lambda prompts: [None] * len(prompts), "not a text"),
    ],
)
def test_a_failure_of_the_function_is_unscored(faulty: Any, reason: str, tmp_path: Path) -> None:
    calls: list[int] = []

    def answer(prompts: Sequence[Any], settings: Any) -> Any:
        calls.append(len(prompts))
        return faulty(prompts) if len(calls) == 1 else ["A"] * len(prompts)

    found = lmms_eval_ad2.evaluate(answer, TASK, out=tmp_path, name="x", batch_size=2, limit=4)
    score = found.tasks[TASK].score
    assert (score.n, score.n_unscored, score.n_ok) == (4, 2, 2)
    assert found.folder and reason in (found.folder / "samples" / f"{TASK}.jsonl").read_text("utf-8")


@pytest.mark.parametrize(
    ("model", "tasks", "problem"),
    [
        ("opnai", TASK, "did you mean openai"),
        (Letters(), "ad2demo_nope*", "no task matches 'ad2demo_nope*'"),
        (Letters(), "mmmu_val", "no task 'mmmu_val' of this package"),
        (Letters(), "ad2_relation", "not imported"),
        (3, TASK, "expected a name, a model of lmms-eval or a function, found int"),
    ],
)
def test_mistakes_are_one_error(model: Any, tasks: str, problem: str) -> None:
    with pytest.raises(Ad2Error, match=problem.replace("*", r"\*")):
        lmms_eval_ad2.evaluate(model, tasks)


# --- closed loop ---


def without_times(records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    return [replace(record, system_s=0.0) for record in records]


@pytest.mark.system
def test_a_drive_has_the_records_of_the_command(tmp_path: Path) -> None:
    found = closedloop_plugin.evaluate("straight", routes=["101"], seed=2)
    words = ["--suite", "demo", "--routes-ids", "101", "--agent", "straight", "--seed", "2"]
    assert main(["drive", "run", *words, "--out", str(tmp_path / "c")]) == 0
    assert without_times(found.records) == without_times(read_records(tmp_path / "c"))
    assert found.folder is None and found.scores and found.scores["driving_score"] == found.records[0].score_composed
    assert not found.failed and "Driving Score" in str(found)


def test_a_function_drives_and_continues_under_its_name(tmp_path: Path) -> None:
    answer = Letters("Stop now.")
    options: dict[str, Any] = {"world": FAKE_WORLD, "routes": ["101", "102"], "workers": 2, "stop_after_unread": 0}
    options |= {"size": "160x90", "decision_hz": 1.0}
    found = closedloop_plugin.evaluate(answer, out=tmp_path / "run", name="step1", **options)
    assert len(found.records) == 2 and found.records[0].agent["model"] == "step1"
    asked = len(answer.batches)
    assert asked > 0 and answer.batches[0][0].images
    again = closedloop_plugin.evaluate(answer, out=tmp_path / "run", name="step1", **options)
    assert len(answer.batches) == asked and again.records == found.records
    with pytest.raises(Ad2Error, match="other arguments"):
        closedloop_plugin.evaluate(answer, out=tmp_path / "run", name="step2", **options)
    with pytest.raises(Ad2Error, match="other arguments"):
        closedloop_plugin.evaluate(answer, out=tmp_path / "run", **options)


def test_options_are_those_of_the_command() -> None:
    with pytest.raises(Ad2Error, match="no option agent"):
        closedloop_plugin.evaluate("expert", agent="still")
    with pytest.raises(Ad2Error, match="engine='Ray': expected one of local, ray"):
        closedloop_plugin.evaluate("expert", engine="Ray")
    with pytest.raises(Ad2Error, match=r"--scenario my.scenic: no such file"):
        closedloop_plugin.evaluate("expert", scenario="my.scenic")
    with pytest.raises(Ad2Error, match="no option speed; they are those of `ad2 drive run`"):
        closedloop_plugin.evaluate("expert", speed=3)
