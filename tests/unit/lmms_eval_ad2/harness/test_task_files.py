"""The settings of our task files that the papers prescribe."""

from __future__ import annotations

from typing import Any

import pytest

from lmms_eval_ad2.harness.task_files import catalogue, groups, load_yaml, task_files, tasks_dir

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
