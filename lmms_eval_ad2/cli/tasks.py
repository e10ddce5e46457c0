"""`ad2 tasks`: list the tasks and whether their data are imported. Reads the YAML files without importing lmms_eval."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lmms_eval_ad2.options import add_command, option

if TYPE_CHECKING:
    from lmms_eval_ad2.plugins import TaskSource


class _Loader(yaml.SafeLoader):
    """Reads lmms-eval's `!function` tags as text; nothing is imported."""


_Loader.add_constructor("!function", lambda loader, node: node.value)


@dataclass(frozen=True, slots=True)
class TaskFile:
    """The entries of a task's YAML file that `ad2 tasks` prints."""

    name: str
    dataset: str
    split: str
    description: str
    group: bool = False

    def ready(self) -> bool:
        if ":" in self.dataset:
            source = self._source()
            return source is not None and source.ready(self.dataset.removeprefix(source.prefix))
        from lmms_eval_ad2.data.home import open_dataset
        from lmms_eval_ad2.errors import Ad2Error

        if self.dataset.startswith("sample_"):
            return True
        try:
            open_dataset(self.dataset, self.split)
        except Ad2Error:
            return False
        return True

    def _source(self) -> TaskSource | None:
        """The plugin that provides the data if they are no release (the closed loop's suites of routes)."""
        from lmms_eval_ad2 import plugins

        found = plugins.loaded(plugins.TASK_SOURCES)
        return next((source for source in found if self.dataset.startswith(source.prefix)), None)

    def hint(self) -> str:
        if ":" in self.dataset:
            source = self._source()
            if source is None:
                return f"install the package that reads {self.dataset}"
            return str(source.hint(self.dataset.removeprefix(source.prefix)))
        from lmms_eval_ad2.data.releases import RELEASES

        split = "" if self.split == "test" else f" --split {self.split}"
        # A dataset in the layout of a release under another name: autodrive_qa_naive.
        release = next((name for name in RELEASES if self.dataset.startswith(f"{name}_")), None)
        named = f" --as {self.dataset}" if release else ""
        return f"ad2 data import {release or self.dataset} SOURCE{split}{named}"


def tasks_dir() -> Path:
    """The folder of YAML files: lmms_eval_ad2/tasks if installed, tasks/ in a checkout."""
    import lmms_eval_ad2

    installed = Path(lmms_eval_ad2.__file__).parent / "tasks"
    return installed if installed.is_dir() else Path(lmms_eval_ad2.__file__).parents[1] / "tasks"


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a task file and merge its `include`, as lmms-eval does."""
    data = yaml.load(path.read_text("utf-8"), _Loader) or {}
    if "include" in data:
        base = load_yaml(path.parent / data.pop("include"))
        data = {**base, **data}
    return dict(data)


@functools.cache
def catalogue() -> tuple[TaskFile, ...]:
    """All our tasks (not the groups), sorted by name."""
    found = []
    for path in sorted(tasks_dir().rglob("*.yaml")):
        if path.name.startswith("_"):
            continue
        data = load_yaml(path)
        if isinstance(data.get("task"), str):
            metadata = data.get("metadata") or {}
            found.append(
                TaskFile(
                    data["task"], str(data["dataset_path"]).removeprefix("ad2:"), data.get("test_split", "test"),
                    str(metadata.get("about", "")),
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda t: t.name))


@functools.cache
def groups() -> list[str]:
    """Names of our groups, which are the stems of their files."""
    return sorted(p.stem for p in tasks_dir().rglob("bench_*.yaml"))


@dataclass(frozen=True, kw_only=True)
class TasksOptions:
    """`ad2 tasks`."""

    pattern: str = option("pattern of task names, e.g. 'ad2_*'", default="*", positional=True, metavar="PATTERN")
    json: bool = option("print JSON", default=False)


def register(subparsers: Any) -> None:
    add_command(subparsers, "tasks", run, TasksOptions, help="list the tasks and whether their data are imported")


def run(options: TasksOptions) -> int:
    import fnmatch
    import json

    rows = [t for t in catalogue() if fnmatch.fnmatch(t.name, options.pattern)]
    if options.json:
        print(json.dumps([{"task": t.name, "dataset": t.dataset, "split": t.split, "ready": t.ready(),
                           "about": t.description} for t in rows], indent=1))  # fmt: skip
        return 0
    from lmms_eval_ad2.report.text_table import TextTable

    cells = [(t.name, "ready" if t.ready() else "no data", f"{t.dataset}/{t.split}", t.description) for t in rows]
    if cells:
        print(TextTable(("task", "state", "data", "about"), cells).plain())
    return 0
