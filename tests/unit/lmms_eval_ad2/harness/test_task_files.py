"""The settings of our task files that the papers prescribe."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.harness.task_files import catalogue, groups, load_yaml, tasks_dir

GROUPS = {
    "bench_ad2": ("ad2_perception_base", "ad2_perception_advanced", "ad2_relation", "ad2_cot"),  # Table 2
    "bench_coda_lm": ("ad2_coda_general", "ad2_coda_region", "ad2_coda_suggestion"),
    "bench_autodrive_qa": ("ad2_mcq_perception", "ad2_mcq_prediction", "ad2_mcq_planning"),
}


def test_every_open_loop_task_decodes_greedily() -> None:
    """AD2-Bench A.4: temperature 0; CODA-LM 5.1: greedy decoding."""
    tasks = [task for task in catalogue() if not task.name.startswith("ad2drive_")]
    assert len(tasks) > 80
    for task in tasks:
        assert (task.generation["temperature"], task.generation["do_sample"]) == (0, False), task.name


@pytest.mark.parametrize("group", GROUPS)
def test_the_score_of_a_group_is_the_mean_of_its_parts(group: str) -> None:
    assert groups()[group] == GROUPS[group]
    (file,) = tasks_dir().rglob(f"{group}.yaml")
    (mean,) = load_yaml(file)["aggregate_metric_list"]
    assert (mean["metric"], mean["aggregation"], mean["weight_by_size"]) == ("score", "mean", False)
