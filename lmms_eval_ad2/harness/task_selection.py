"""Which tasks a value of `--tasks` selects: wildcards and groups keep the tasks that can be asked.

A task that is named explicitly must be askable. Names of other tasks (not ours) are passed on unchanged.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import importlib.util
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmms_eval_ad2.harness.task_files import TaskFile, TaskReadiness, groups, task_files

# Earlier names of tasks. Their similar names would be other variants, so that the new name is given.
_RENAMED = {f"ad2x_mcq_{part}_asked": f"ad2_mcq_{part}" for part in ("perception", "prediction", "planning")}
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
        return [name for name in self.names if not name.startswith(_PREFIXES)]

    @property
    def on_records(self) -> bool:
        """Whether a task asks records (a closed-loop task has neither prompts nor a judge of this package)."""
        return any(task.settings for task in self.tasks.values())

    def add(self, names: Iterable[str], tasks: Iterable[TaskFile]) -> None:
        self.names += [name for name in names if name not in self.names]
        self.tasks |= {task.name: task for task in tasks}


def select(text: str, more_folders: bool = False) -> TaskSelection:
    """Resolve a comma list of names, groups and wildcards.

    more_folders: lmms-eval reads tasks of further folders (--include_path).

    A wildcard of which no task can be asked is a fault only if nothing else is left.
    """
    chosen = TaskSelection()
    empty: list[str] = []
    empty_groups: list[str] = []
    for name in filter(None, map(str.strip, text.split(","))):
        if not name.startswith(_PREFIXES):
            chosen.add([name], [])
            if not (more_folders or host_has(name)):
                chosen.faults.append(f"no task matches '{name}'; ours: ad2 tasks; those of lmms-eval: lmms_eval tasks")
        elif "*" not in name:
            _add_named(chosen, name)
        elif name.startswith("bench_"):
            empty_groups += _add_groups(chosen, name, fnmatch.filter(groups(), name))
        else:
            empty += _add_wildcard(chosen, name, more_folders)
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
    """The end of a message about an unknown name: similar ones, else all."""
    if name in _RENAMED:
        return f"; did you mean {_RENAMED[name]}? It shows the cameras that the question asks for"
    close = difflib.get_close_matches(name, known, 3, 0.6)
    return f"; did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(known)}"


def _add_named(chosen: TaskSelection, name: str) -> None:
    files = task_files()
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


def _add_wildcard(chosen: TaskSelection, name: str, more_folders: bool) -> list[str]:
    """Add the tasks that can be asked; returns a fault if none can."""
    ready, without = _by_readiness(t for t in task_files().values() if fnmatch.fnmatch(t.name, name))
    chosen.left_out += _lines(without)
    if without and not ready:
        missing = all(found.state == "no data" for _, found in without)
        why = "the data of its {} tasks are not imported" if missing else "none of its {} tasks can be asked"
        return [f"'{name}': {why.format(len(without))}; see the lines above, or: ad2 demo"]
    if not (ready or more_folders):
        return [f"no task matches '{name}'; all: ad2 tasks"]
    chosen.add([t.name for t in ready] or [name], ready)
    return []


def _by_readiness(tasks: Iterable[TaskFile]) -> tuple[list[TaskFile], list[tuple[TaskFile, TaskReadiness]]]:
    """The tasks that can be asked, and the others with their reasons."""
    found = [(task, task.readiness()) for task in tasks]
    ready = [task for task, readiness in found if readiness.state == "ready"]
    return ready, [(task, readiness) for task, readiness in found if readiness.state != "ready"]


def _lines(without: Sequence[tuple[TaskFile, TaskReadiness]]) -> list[str]:
    """One line for all tasks without data and one per import command; one for each other task."""
    missing = [task for task, found in without if found.state == "no data"]
    lines = [f"left out, no data: {', '.join(task.name for task in missing)}"] if missing else []
    lines += [f"  to import them: {hint}" for hint in dict.fromkeys(task.hint() for task in missing)]
    others = [(task, found) for task, found in without if found.state != "no data"]
    return lines + [f"left out, {found.state}: {task.name}: {found.reason}" for task, found in others]
