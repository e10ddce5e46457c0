"""Plugin of lmms-eval. `manifests` is the entry point of the group `lmms_eval.models`.

lmms-eval 0.7.3 has no entry point for tasks, so the one for models does both: it returns our models and, where tasks
are used, wraps a few functions of lmms-eval. The wrappers do not affect tasks of others (a task is ours if its YAML
has `metadata: ad2:`). Commands that load no models (`lmms-eval tasks`, `power`) do not call it: our script `lmms_eval`
calls `install` for them, and `lmms-eval` needs the flag that docs/tasks.md names.

In an evaluation the entry point is called while `lmms_eval.evaluator` is partly imported. At that time only class
methods can be wrapped; the functions of the module follow with the first TaskManager.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from lmms_eval_ad2.harness.task_files import tasks_dir

_MARK = "_ad2_wrapped"
# Servers that list tasks; each evaluation is a process of its own, which calls the entry point again.
_SERVERS = ("lmms_eval.entrypoints.http_server", "lmms_eval.mcp.tools", "lmms_eval.tui.server")


def manifests() -> list[Any]:
    """Entry point. Never raises: an exception would disable the models of all plugins."""
    try:
        if "lmms_eval.evaluator" in sys.modules or "lmms_eval.tasks" in sys.modules or _is_server():
            install()
        from lmms_eval_ad2.harness.models import manifests as ours

        found = list(ours())
        _list_models(found)
        _list_on_page()
        return found
    except Exception as exc:
        warnings.warn(f"lmms-eval-ad2 could not register itself: {exc}", stacklevel=1)
        return []


def _is_server() -> bool:
    return any(name in sys.modules for name in _SERVERS)


def _list_models(found: Iterable[Any]) -> None:
    """Enter our models in the dictionaries that `lmms-eval models` prints.

    lmms-eval has built its registry from them by now, and enters those of its older kind of plugins in the same way.
    """
    if host := sys.modules.get("lmms_eval.models"):
        for manifest in found:
            if manifest.chat_class_path:
                host.AVAILABLE_CHAT_TEMPLATE_MODELS.setdefault(manifest.model_id, manifest.chat_class_path)
            if manifest.simple_class_path:
                host.AVAILABLE_SIMPLE_MODELS.setdefault(manifest.model_id, manifest.simple_class_path)


def _list_on_page() -> None:
    """Enter our tasks in the list of `lmms-eval ui`, whose server reads it from lmms-eval's own folder of tasks."""
    if page := sys.modules.get("lmms_eval.tui.discovery"):
        wrap(page, "discover_tasks", _discover_tasks)
        page.get_discovery_cache()._all_tasks = None  # also if it was read before the models


def _discover_tasks(original: Callable[..., Any]) -> Callable[..., Any]:
    def discover_tasks(include_path: Any = None) -> list[tuple[str, str]]:
        ours = {name: f"[Group] {name}" if entry["type"] == "group" else name for name, entry in own_index().items()}
        return sorted({**ours, **dict(original(include_path))}.items())

    return discover_tasks


def install() -> None:
    """Add our tasks to every TaskManager from now on. Idempotent."""
    from lmms_eval.tasks import TaskManager

    wrap(TaskManager, "initialize_tasks", _initialize_tasks)


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace `owner.name` by `make(original)`, once."""
    original = getattr(owner, name)
    if getattr(original, _MARK, False):
        return
    replacement = make(original)
    setattr(replacement, _MARK, True)
    setattr(owner, name, replacement)


def _initialize_tasks(original: Callable[..., Any]) -> Callable[..., Any]:
    def initialize_tasks(self: Any, include_path: Any = None, include_defaults: bool = True) -> Any:
        index = original(self, include_path=include_path, include_defaults=include_defaults)
        if not include_defaults:
            return index
        try:
            if _lists_only():
                install_data()
            else:
                _install_late()
            # Existing names win: no task of lmms-eval is replaced.
            return {**own_index(), **index}
        except Exception as exc:
            warnings.warn(f"lmms-eval-ad2 could not add its tasks: {exc}", stacklevel=1)
            return index

    return initialize_tasks


def own_index() -> dict[str, dict[str, Any]]:
    """Our tasks in TaskManager's index format. Files are named after their tasks, so none is read at start-up."""
    index: dict[str, dict[str, Any]] = {}
    for path in sorted(tasks_dir().rglob("*.yaml")):
        if path.stem.startswith("bench_"):
            index[path.stem] = {"type": "group", "task": -1, "yaml_path": str(path)}
        elif not path.stem.startswith("_"):
            index[path.stem] = {"type": "task", "yaml_path": str(path)}
    return index


def _lists_only() -> bool:
    """Whether this process asks no tasks, so that `lmms_eval.evaluator`, which takes seconds to import, is not needed.

    True of a server, and of lmms-eval's commands `tasks` and `power`.
    """
    return "lmms_eval.evaluator" not in sys.modules and (_is_server() or sys.argv[1:2] in (["tasks"], ["power"]))


def install_data() -> None:
    """Let lmms-eval read the data of our tasks."""
    from lmms_eval.api.task import ConfigurableTask

    wrap(ConfigurableTask, "download", _import_on_call("task_data", "wrap_download"))


def _install_late() -> None:
    """Wrap the functions of an evaluation run; `lmms_eval.evaluator` is fully imported by now."""
    from lmms_eval import evaluator
    from lmms_eval.api.task import ConfigurableTask
    from lmms_eval.evaluator_utils import TaskOutput

    install_data()
    wrap(ConfigurableTask, "build_all_requests", _import_on_call("judging", "wrap_requests"))
    wrap(ConfigurableTask, "apply_filters", _import_on_call("lost_options", "wrap_filters"))
    wrap(TaskOutput, "calculate_aggregate_metric", _import_on_call("judging", "wrap_aggregate"))
    wrap(evaluator, "prepare_print_tasks", _import_on_call("judging", "wrap_print"))
    wrap(evaluator, "_run_generate_until_agentic", _import_on_call("rounds", "wrap_agentic"))
    wrap(evaluator, "evaluate", _import_on_call("run", "wrap_evaluate"))
    wrap(evaluator, "simple_evaluate", _import_on_call("run", "wrap_simple_evaluate"))


def _import_on_call(module: str, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a wrapper whose module is imported on its first call, so that `--tasks list` stays fast."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        ready: list[Callable[..., Any]] = []

        def call(*args: Any, **kwargs: Any) -> Any:
            if not ready:
                ready.append(getattr(importlib.import_module(f"{__package__}.{module}"), name)(original))
            return ready[0](*args, **kwargs)

        return call

    return make
