"""`ad2 tasks`: list the tasks and whether their data are imported. Reads the YAML files without importing lmms_eval."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show


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
    import fnmatch
    import json

    from lmms_eval_ad2.harness.task_files import catalogue, groups, task_files, tasks_dir
    from lmms_eval_ad2.harness.task_selection import near_names

    if options.folder:
        print(tasks_dir())
        return 0
    members = {task for group in fnmatch.filter(groups(), options.pattern) for task in groups()[group]}
    rows = [t for t in catalogue() if fnmatch.fnmatch(t.name, options.pattern) or t.name in members]
    if not rows:
        similar = near_names(options.pattern, [*task_files(), *groups()])
        raise Ad2Error(f"no task or group matches '{options.pattern}'{similar}; all: ad2 tasks")
    if options.json:
        print(json.dumps([{"task": t.name, "dataset": t.dataset, "split": t.split, "ready": t.ready(),
                           "about": t.description} for t in rows], indent=1))  # fmt: skip
        return 0
    from lmms_eval_ad2.report.table import Table

    found = [(task, task.readiness()) for task in rows]
    cells = [(t.name, state.state, f"{t.dataset}/{t.split}", t.description) for t, state in found]
    print(Table(("task", "state", "data", "about"), cells).plain())
    for reason in dict.fromkeys(state.reason for _, state in found if state.state == "damaged"):
        show(f"warning: {reason}", file=sys.stderr)
    return 0
