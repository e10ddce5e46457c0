"""Our tasks and groups in lmms-eval with their resolved settings, and the texts of our prompts.

Functions in a task's settings are recorded as "<function>"; numbers and texts as they are. `texts` holds the sha256 of
every text of the packaged YAML files by its key, `configs` that of every file below configs/ after parsing.
"""

from __future__ import annotations

import importlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from command_lines import in_workspace, programs, run_in_process
from product_files import product_files, text_files
from workspace import Workspace, digest, json_digest

COST = "seconds"
OURS = ("ad2_", "ad2x_", "ad2demo_", "ad2drive_", "bench_")


def record(work: Workspace) -> dict[str, Any]:
    with in_workspace(work):
        listed = json.loads(run_in_process(programs()["ad2"], ["tasks", "--json"]).out)
        tasks = _tasks()
    return {
        "ad2 tasks": {task["task"]: f"{task['dataset']}/{task['split']}" for task in listed},
        "tasks": {name: _plain(config) for name, config in tasks.items() if isinstance(config.get("task"), str)},
        "groups": {name: _plain(config) for name, config in tasks.items() if not isinstance(config.get("task"), str)},
        "texts": {name: _texts(yaml.safe_load(path.read_text("utf-8"))) for name, path in text_files().items()},
        "configs": {n: _config(work.repo / n) for n in product_files() if n.startswith("configs/")},
    }


def _tasks() -> dict[str, dict[str, Any]]:
    """Our tasks as lmms-eval reads them: our entry point adds them once its evaluator is imported."""
    importlib.import_module("lmms_eval.evaluator")
    from lmms_eval.tasks import TaskManager
    from lmms_eval.utils import load_yaml_config

    for point in metadata.entry_points(group="lmms_eval.models"):
        point.load()()
    index = TaskManager().task_index
    ours = sorted(name for name in index if name.startswith(OURS))
    return {name: load_yaml_config(index[name]["yaml_path"]) for name in ours}


def _plain(value: Any) -> Any:
    if callable(value):
        return "<function>"
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _texts(value: Any, where: str = "") -> dict[str, str]:
    """Every text below `value`, by the path of its keys."""
    if isinstance(value, dict):
        pairs = [(f"{where}/{key}", item) for key, item in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{where}/{number}", item) for number, item in enumerate(value)]
    else:
        return {where: digest(value) if isinstance(value, str) else repr(value)}
    return {path: text for name, item in pairs for path, text in _texts(item, name).items()}


def _config(path: Path) -> str:
    if path.suffix in (".yaml", ".json"):
        return json_digest(yaml.safe_load(path.read_text("utf-8")))
    return "python" if path.suffix == ".py" else digest(path)
