"""Which tasks a value of `--tasks` selects: wildcards and groups keep the tasks that can be asked.

A task that is named explicitly must be askable. Names of other tasks (not ours) are passed on unchanged.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness.task_files import IncludedFiles, TaskFile, TaskReadiness, groups, included, task_files

# Earlier name of a task -> its name now, and what it asks. Similar names would be other variants.
_RENAMED = {
    **{
        f"ad2x_mcq_{part}_asked": (f"ad2_mcq_{part}", "It shows the cameras that the question asks for")
        for part in ("perception", "prediction", "planning")
    },
    **{
        f"{stem}_mark_text": (
            f"{stem}_mark_coords",
            f"It gives coordinates in the text; {stem}_mark_reference names the target in words",
        )
        for stem in ("ad2x_relation", "ad2x_reasoning", "ad2x_cot", "ad2demo_relation")
    },
}
# A line with a task, group or tag, or an entry of a list of them.
_NAMING_LINE = re.compile(r"^\s*(?:-|(?:task|group|tag)\s*:).*$", re.M)
_WORD = re.compile(r"[\w.-]+")
_PREFIXES = ("ad2", "bench_")  # names that begin like ours are ours, so that a misspelt one is reported


@dataclass
class TaskSelection:
    """`names`: the value of `--tasks` for lmms-eval; `tasks`: ours among them, without groups.

    `left_out`: lines about tasks of a wildcard or group that cannot be asked. `faults`: one line for each name that
    keeps the run from starting.
    """

    names: list[str] = field(default_factory=list)
    tasks: dict[str, TaskFile] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def others(self) -> list[str]:
        """Names of tasks that are not ours."""
        return [name for name in self.names if not name.startswith(_PREFIXES) and name not in self.tasks]

    @property
    def on_records(self) -> bool:
        """Whether a task asks records (a closed-loop task has neither prompts nor a judge of this package)."""
        return any(task.settings for task in self.tasks.values())

    def add(self, names: Iterable[str], tasks: Iterable[TaskFile]) -> None:
        self.names += [name for name in names if name not in self.names]
        self.tasks |= {task.name: task for task in tasks}


def select(text: str, folder: str | Path | None = None) -> TaskSelection:
    """Resolve a comma list of names, groups and wildcards.

    folder: of further tasks (--include_path). Its tasks on records are ours, whatever their names; one that has the
    name of a packaged task replaces it, as in lmms-eval. Raises Ad2Error if there is no such folder.

    A wildcard of which no task can be asked is a fault only if nothing else is left.
    """
    chosen = TaskSelection()
    if folder and not Path(folder).is_dir():
        raise Ad2Error(f"--include_path {folder}: no such folder")
    more = included(folder)
    files = {**task_files(), **more.tasks}
    empty: list[str] = []
    empty_groups: list[str] = []
    for name in filter(None, map(str.strip, text.split(","))):
        if name in more.tasks:
            _add_named(chosen, name, files)
        elif name in more.names:  # a group, or a task on other data
            _add_included(chosen, name, more.groups.get(name, ()), more)
        elif not name.startswith(_PREFIXES) or Path(name).is_file():  # lmms-eval takes a YAML file too
            _add_included(chosen, name, fnmatch.filter(more.tasks, name), more)
            if not (folder or Path(name).exists() or host_has(name)):
                chosen.faults.append(f"no task matches '{name}'; ours: ad2 tasks; those of lmms-eval: lmms_eval tasks")
        elif "*" not in name:
            _add_named(chosen, name, files)
        elif name.startswith("bench_"):
            empty_groups += _add_groups(chosen, name, fnmatch.filter(groups(), name))
        else:
            empty += _add_wildcard(chosen, name, files)
    if not (chosen.names or chosen.faults or empty or empty_groups):
        chosen.faults.append("--tasks is empty; name tasks, a wildcard or a group: ad2 tasks")
    if chosen.names:
        chosen.left_out += [f"left out: {fault}" for fault in empty_groups]
    else:
        chosen.faults += empty_groups + empty
    return chosen


def host_has(pattern: str) -> bool:
    """Whether a name or wildcard can match a task, group or tag of lmms-eval; True if its files are not found.

    Reads all words of the lines of its YAML files that can hold such a name, without importing it.
    """
    words = _host_words()
    return not words or bool(fnmatch.filter(words, pattern))


@functools.cache
def _host_words() -> frozenset[str]:
    spec = importlib.util.find_spec("lmms_eval")
    if spec is None or not spec.origin:
        return frozenset()
    words: set[str] = set()
    for file in (Path(spec.origin).parent / "tasks").rglob("*.y*ml"):
        for line in _NAMING_LINE.findall(file.read_text("utf-8", "replace")):
            words.update(_WORD.findall(line))
    return frozenset(words)


def near_names(name: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown name: similar ones, or nothing."""
    if name in _RENAMED:
        new, what = _RENAMED[name]
        return f"; did you mean {new}? {what}"
    close = difflib.get_close_matches(name, known, 3, 0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _add_named(chosen: TaskSelection, name: str, files: Mapping[str, TaskFile]) -> None:
    if name in groups():
        chosen.faults += _add_groups(chosen, name, [name])
    elif name not in files:
        similar = near_names(name, [*files, *groups()]) if len(name) > 4 else ""
        chosen.faults.append(f"no task '{name}'{similar}; all: ad2 tasks")
    else:
        found = files[name].readiness()
        if found.state == "ready":
            chosen.add([name], [files[name]])
        else:
            chosen.faults.append(f"task {name}: {found.reason}")


def _add_included(chosen: TaskSelection, name: str, members: Iterable[str], more: IncludedFiles) -> None:
    """Keep a group or wildcard of a user's folder; lmms-eval starts all its tasks, so that each must be askable."""
    ready, without = _by_readiness(more.tasks[member] for member in members if member in more.tasks)
    chosen.add([name], ready)
    chosen.faults += [f"task {task.name}: {found.reason}" for task, found in without]


def _add_groups(chosen: TaskSelection, name: str, matched: Sequence[str]) -> list[str]:
    """Keep a group if all its tasks can be asked; else the tasks that can, since lmms-eval's mean needs all of them.

    Returns a fault if none can.
    """
    files = task_files()
    found = {group: _by_readiness(files[member] for member in groups()[group]) for group in matched}
    if not any(ready for ready, _ in found.values()):
        reason = next((f"none of its tasks can be asked: {w[0][1].reason}" for _, w in found.values()), "no such group")
        return [f"{name}: {reason}"]
    for group, (ready, without) in found.items():
        chosen.left_out += _lines(without)
        chosen.add([t.name for t in ready] if without else [group], ready)
    return []


def _add_wildcard(chosen: TaskSelection, name: str, files: Mapping[str, TaskFile]) -> list[str]:
    """Add the tasks that can be asked; returns a fault if none can."""
    ready, without = _by_readiness(t for t in files.values() if fnmatch.fnmatch(t.name, name))
    chosen.left_out += _lines(without)
    if without and not ready:
        missing = all(found.state == "no data" for _, found in without)
        why = "the data of its {} tasks are not imported" if missing else "none of its {} tasks can be asked"
        return [f"'{name}': {why.format(len(without))}; see the lines above, or: ad2 demo"]
    if not ready:
        chosen.faults.append(f"no task matches '{name}'; all: ad2 tasks")
    chosen.add([t.name for t in ready], ready)
    return []


def _by_readiness(tasks: Iterable[TaskFile]) -> tuple[list[TaskFile], list[tuple[TaskFile, TaskReadiness]]]:
    """The tasks that can be asked, and the others with their reasons."""
    found = [(task, task.readiness()) for task in tasks]
    ready = [task for task, readiness in found if readiness.state == "ready"]
    return ready, [(task, readiness) for task, readiness in found if readiness.state != "ready"]


def _lines(without: Sequence[tuple[TaskFile, TaskReadiness]]) -> list[str]:
    """One line for all tasks without data and one per import command; one per damaged dataset; one for each other."""
    missing = [task for task, found in without if found.state == "no data"]
    lines = [f"left out, no data: {', '.join(task.name for task in missing)}"] if missing else []
    lines += [f"  to import them: {hint}" for hint in dict.fromkeys(task.hint() for task in missing)]
    damaged: dict[str, list[str]] = {}
    for task, found in without:
        if found.state == "damaged":
            damaged.setdefault(found.reason, []).append(task.name)
    lines += [f"left out, damaged: {', '.join(names)}: {reason}" for reason, names in damaged.items()]
    others = [(task, found) for task, found in without if found.state not in ("no data", "damaged")]
    return lines + [f"left out, {found.state}: {task.name}: {found.reason}" for task, found in others]
