"""The tasks exist after `pip install` for every entry point, and those of lmms-eval are unchanged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.running import BIN, listed_tasks, run, run_lmms_eval

CANONICAL = {
    "ad2_perception_base", "ad2_perception_advanced", "ad2_relation", "ad2_reasoning", "ad2_cot",
    "ad2_coda_general", "ad2_coda_region", "ad2_coda_suggestion",
    "ad2_mcq_perception", "ad2_mcq_prediction", "ad2_mcq_planning",
}  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((sys.executable, "-m", "lmms_eval"), id="python -m", marks=pytest.mark.system),
        pytest.param((BIN / "lmms-eval",), id="lmms-eval", marks=pytest.mark.integration),
        pytest.param((BIN / "lmms_eval",), id="lmms_eval", marks=pytest.mark.system),
        pytest.param(
            (BIN / "torchrun", "--standalone", "--nproc_per_node", "1", "-m", "lmms_eval"),
            id="torchrun", marks=pytest.mark.system,
        ),
    ],
)  # fmt: skip
def test_every_entry_point_lists_our_tasks(words: tuple, tmp_path: Path) -> None:
    names = listed_tasks(run(*words, "--tasks", "list", cwd=tmp_path, cold=True).stdout)
    assert names >= CANONICAL | {"bench_ad2", "bench_coda_lm", "bench_autodrive_qa", "ad2demo_cot"}
    assert "mmmu_val" in names


def test_the_pattern_matches_exactly_the_canonical_tasks(tmp_path: Path) -> None:
    names = listed_tasks(run_lmms_eval("--tasks", "list", cwd=tmp_path).stdout)
    assert {n for n in names if n.startswith("ad2_")} == CANONICAL


COMPARE = """
import json, sys
from lmms_eval.tasks import TaskManager
def index():
    m = TaskManager(model_name="x")
    return {k: (v["type"], v["yaml_path"], v.get("task")) for k, v in m.task_index.items()}, m.all_groups, m.all_tags
before = index()
from lmms_eval_ad2.harness import plugin
from lmms_eval_ad2.harness.task_files import tasks_dir
plugin.install()
after = index()
ours = {k for k, v in after[0].items() if "ad2" in k or k.startswith("bench_")}
assert {k: v for k, v in after[0].items() if k not in ours} == before[0], "the host's tasks changed"
assert [g for g in after[1] if g not in ours] == before[1] and after[2] == before[2]
from lmms_eval.tasks import TaskManager as T
assert tasks_dir().is_dir()
only = T(include_defaults=False, include_path=str(tasks_dir()))
assert set(only.all_tasks) == ours
assert plugin.own_index() == {k: only.task_index[k] for k in ours}, "a file is not named like its task"
print(json.dumps([len(before[0]), len(ours)]))
"""


@pytest.mark.system
def test_the_tasks_of_lmms_eval_are_unchanged(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", COMPARE, cwd=tmp_path)
    before, ours = map(int, done.stdout.strip().splitlines()[-1].strip("[]").split(","))
    assert before > 500
    assert ours > 60


HOST_TASK = """
task: host_task
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: answer
generation_kwargs: {max_new_tokens: 8, until: []}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
HOST_MODEL = """
from lmms_eval.api.model import lmms
class Echo(lmms):
    is_simple = True
    def __init__(self, **kwargs): super().__init__()
    def loglikelihood(self, requests): return []
    def generate_until_multi_round(self, requests): return []
    def generate_until(self, requests): return ["4" for r in requests]
"""


def test_another_task_is_not_affected_by_our_plugin(tmp_path: Path) -> None:
    """A plain lmms-eval task with our plugin active gives the same numbers and none of our files."""
    (tmp_path / "d.jsonl").write_text('{"question": "2+2?", "answer": "4"}\n{"question": "1+1?", "answer": "2"}\n')
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "t.yaml").write_text(HOST_TASK.replace("DATA", str(tmp_path / "d.jsonl")))
    (tmp_path / "echo_model.py").write_text(HOST_MODEL)
    code = (
        "import echo_model, lmms_eval.evaluator as e; from lmms_eval.tasks import TaskManager;"
        "m = TaskManager(include_path='tasks', model_name='x');"
        "r = e.simple_evaluate(model=echo_model.Echo(), tasks=['host_task'], task_manager=m, batch_size=1);"
        "print('RESULT', r['results']['host_task']['exact_match,none'], 'ad2_perception_base' in m.all_tasks)"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert "RESULT 0.5 True" in done.stdout
    assert not list(tmp_path.rglob("summary.json"))


def test_the_entry_point_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception would disable the models of all plugins in lmms-eval."""
    from lmms_eval_ad2.harness import plugin

    def broken() -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(plugin, "install", broken)
    monkeypatch.setitem(sys.modules, "lmms_eval.evaluator", sys)
    with pytest.warns(UserWarning, match="boom"):
        assert plugin.manifests() == []


def test_missing_data_is_reported_in_one_line_with_exit_code_2(tmp_path: Path) -> None:
    done = run_lmms_eval("--model", "ad2_chance", "--tasks", "ad2_relation", cwd=tmp_path, code=2)
    assert "ad2 data import ad2_bench" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_our_script_leaves_out_tasks_without_data(tmp_path: Path) -> None:
    done = run(BIN / "lmms_eval", "--model", "ad2_chance", "--tasks", "ad2_*", cwd=tmp_path, code=2)
    assert "left out, no data: ad2_coda_general" in done.stderr
    assert "the data of its 11 tasks are not imported" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "ad2_chance", "--tasks", "ad2_percption_base"), "did you mean ad2_perception_base"),
        (("--model", "ad2_chanc", "--tasks", "ad2demo_cot"), "did you mean ad2_chance"),
        (("--model", "ad2_chance", "--tasks", "ad2demo_cot", "--output_path", "a_file"), "a_file is a file"),
    ],
)
def test_a_users_mistake_is_reported_in_one_line(words: tuple, message: str, tmp_path: Path) -> None:
    (tmp_path / "a_file").touch()
    done = run(BIN / "lmms_eval", *words, cwd=tmp_path, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--limit", "0"), "--limit 0: a number of records"),
        (("--limit", "-3"), "--limit -3: a number of records"),
        (("--num_fewshot", "2"), "--num_fewshot 2: the tasks of this package are asked without examples"),
        (("--baseline", "a.jsonl"), "ad2 report compare A B"),
    ],
)
def test_an_option_that_our_tasks_cannot_use_is_one_line(words: tuple, message: str, tmp_path: Path) -> None:
    given = ("--model", "ad2_chance", "--tasks", "ad2demo_cot", *words)
    done = run(BIN / "lmms_eval", *given, cwd=tmp_path, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("action", ["list", "groups", "subtasks", "tags"])
@pytest.mark.system
def test_our_script_lists_our_tasks(action: str, tmp_path: Path) -> None:
    text = run(BIN / "lmms_eval", "tasks", action, cwd=tmp_path, cold=True).stdout
    expected = {"list": {"ad2demo_cot", "bench_ad2"}, "groups": {"bench_ad2"}, "subtasks": {"ad2demo_cot"}}
    assert {name for name in expected.get(action, set()) if name not in text} == set()


@pytest.mark.system
@pytest.mark.parametrize("program", ["lmms_eval", "lmms-eval"])
def test_power_reads_our_data(program: str, tmp_path: Path) -> None:
    folder = run(BIN / "ad2", "tasks", "--folder", cwd=tmp_path).stdout.strip()
    flag = () if program == "lmms_eval" else ("--include-path", folder)
    text = run(BIN / program, "power", "--tasks", "ad2demo_relation", *flag, cwd=tmp_path, cold=True).stdout
    assert "n = 42" in text


@pytest.mark.integration
def test_lmms_eval_lists_our_models(tmp_path: Path) -> None:
    assert "ad2_chance" in run(BIN / "lmms-eval", "models", cwd=tmp_path, cold=True).stdout


SERVED = """
import asyncio
from lmms_eval.entrypoints import http_server as server
models = asyncio.run(server.list_available_models())["models"]
tasks = asyncio.run(server.list_available_tasks())["tasks"]
import sys
print("SERVED", "ad2_chance" in models, "ad2demo_cot" in tasks, "lmms_eval.evaluator" in sys.modules)
"""


PAGE = """
import asyncio, sys
from lmms_eval.tui import server
before = {task.id for task in asyncio.run(server.get_tasks())}
models = {model.id for model in asyncio.run(server.get_models())}
tasks = {task.id: task.group for task in asyncio.run(server.get_tasks())}
print("PAGE", "ad2_hf" in models, tasks.get("ad2_cot"), tasks.get("bench_ad2"), before <= set(tasks))
"""


@pytest.mark.system
def test_the_page_of_lmms_eval_lists_our_tasks_after_the_models(tmp_path: Path) -> None:
    assert "PAGE True False True True" in run(sys.executable, "-c", PAGE, cwd=tmp_path).stdout


@pytest.mark.system
def test_the_server_of_lmms_eval_lists_our_tasks_after_the_models(tmp_path: Path) -> None:
    assert "SERVED True True False" in run(sys.executable, "-c", SERVED, cwd=tmp_path).stdout


def test_all_groups_can_be_requested_together(tmp_path: Path) -> None:
    """Overlapping groups cannot be requested together; ours do not overlap, so the data are checked next."""
    done = run(BIN / "lmms_eval", "--model", "ad2_chance", "--tasks", "bench_*", cwd=tmp_path, code=2)
    assert "ad2 data import" in done.stderr


def test_the_cache_of_lmms_eval_is_refused(tmp_path: Path) -> None:
    words = ("--model", "ad2_chance", "--tasks", "ad2demo_relation", "--use_cache", tmp_path / "cache")
    done = run_lmms_eval(*words, cwd=tmp_path, code=2)
    assert "--use_cache ignores image content" in done.stderr
