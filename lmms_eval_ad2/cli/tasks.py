"""`ad2 tasks`: list the tasks and whether their data are imported. Reads the YAML files without importing lmms_eval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.options import add_command, option


@dataclass(frozen=True, kw_only=True)
class TasksOptions:
    """`ad2 tasks`."""

    pattern: str = option(
        "pattern of names of tasks or groups, e.g. 'ad2_*'", default="*", positional=True, metavar="PATTERN"
    )
    json: bool = option("print JSON", default=False)
    folder: bool = option(
        "print only the folder of the task files, for lmms-eval tasks and power: --include-path", default=False
    )


def register(subparsers: Any) -> None:
    add_command(subparsers, "tasks", run, TasksOptions, help="list the tasks and whether their data are imported")


def run(options: TasksOptions) -> int:
    import difflib
    import fnmatch
    import json

    from lmms_eval_ad2.harness.task_files import catalogue, groups, tasks_dir

    if options.folder:
        print(tasks_dir())
        return 0
    tasks = catalogue()
    members = {name for group in fnmatch.filter(groups(), options.pattern) for name in groups()[group]}
    rows = [t for t in tasks if t.name in members or fnmatch.fnmatch(t.name, options.pattern)]
    if not rows:
        near = difflib.get_close_matches(options.pattern, [*(t.name for t in tasks), *groups()], 3, 0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "all: ad2 tasks"
        raise Ad2Error(f"no task matches '{options.pattern}'; {hint}")
    if options.json:
        print(json.dumps([{"task": t.name, "dataset": t.dataset, "split": t.split, "ready": t.ready(),
                           "about": t.description} for t in rows], indent=1))  # fmt: skip
        return 0
    from lmms_eval_ad2.report.text_table import TextTable

    cells = [(t.name, t.readiness().state, f"{t.dataset}/{t.split}", t.description) for t in rows]
    if cells:
        print(TextTable(("task", "state", "data", "about"), cells).plain())
    return 0
