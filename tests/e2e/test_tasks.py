"""`ad2 tasks`: canonical tasks and variants of AutoDrive-QA, and the hint for missing data."""

from __future__ import annotations

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, NAIVE, TASKS
from lmms_eval_ad2.harness.task_files import catalogue, load_yaml, tasks_dir
from lmms_eval_ad2.scoring.variant import TaskVariant

TASK_FILES = {task.name: task for task in catalogue()}
FOLDER = tasks_dir() / "autodrive_qa"


def settings(name: str) -> TaskVariant:
    path = FOLDER / f"{name}.yaml"
    return TaskVariant.from_dict(load_yaml(path)["metadata"]["ad2"], name)


def test_every_set_of_distractors_has_the_settings_of_the_canonical_task() -> None:
    for part in TASKS:
        for kind in (NAIVE, *ERRORS):
            name = f"ad2x_mcq_{part}_{kind}"
            assert TASK_FILES[name].dataset == f"autodrive_qa_{kind}"
            assert settings(name) == settings(f"ad2_mcq_{part}"), "or the sets would differ in more than distractors"


def test_variants_differ_from_the_canonical_task_in_one_thing() -> None:
    for part in TASKS:
        plain = settings(f"ad2_mcq_{part}")
        assert settings(f"ad2x_mcq_{part}_circular").changes() == {**plain.changes(), "circular": True}
        open_form, open_form_all_views = settings(f"ad2x_mcq_{part}_open"), settings(f"ad2x_mcq_{part}_mv_open")
        assert open_form_all_views.changes() == {k: v for k, v in open_form.changes().items() if k != "views"}
        assert open_form_all_views.captions == open_form.captions


def test_the_canonical_pattern_matches_three_tasks() -> None:
    assert sorted(p.stem for p in FOLDER.glob("ad2_*.yaml")) == sorted(f"ad2_mcq_{part}" for part in TASKS)


def test_the_hint_for_a_set_of_distractors_is_its_import_command() -> None:
    assert TASK_FILES["ad2_mcq_planning"].hint() == "ad2 data import autodrive_qa SOURCE"
    hint = TASK_FILES["ad2x_mcq_planning_naive"].hint()
    assert hint == "ad2 data import autodrive_qa SOURCE --as autodrive_qa_naive"
    assert "--as" not in TASK_FILES["ad2_coda_general"].hint()
