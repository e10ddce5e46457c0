"""Entry-point groups that extend `ad2`: what each entry is, and how entries are found and loaded.

    ad2.commands      function (subparsers) -> None: adds one sub-command of `ad2`
    ad2.run_kinds     RunKind: recognises results; reports on them and compares two of them for `ad2 report`, joins
                      parts of a run for `ad2 merge`
    ad2.task_sources  TaskSource: the data of tasks whose `dataset_path` has its prefix
    ad2.doctor        function () -> list of import_probe.Finding: lines of `ad2 doctor`
    ad2.demo          function (folder) -> list of str: one part of `ad2 demo`; returns the lines printed at the end
    ad2.agents        function (cameras, profile, seed, ...) -> Agent: a driver, by its name after `--agent`
    ad2.releases      data.releases.BenchmarkRelease: reads the files of a benchmark, for `ad2 data import NAME`
    ad2.training_rows export.drives.DriveRowSource: rows of a training file from folders of drives, for `ad2 export`

The entries of lmms_eval_ad2 and closedloop_plugin are declared in setup.cfg; other distributions may add their own.
A package that cannot be imported causes one warning on stderr; the command continues without it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.printed import show

COMMANDS = "ad2.commands"
RUN_KINDS = "ad2.run_kinds"
TASK_SOURCES = "ad2.task_sources"
DOCTOR = "ad2.doctor"
DEMO = "ad2.demo"
AGENTS = "ad2.agents"
RELEASES = "ad2.releases"
TRAINING_ROWS = "ad2.training_rows"

_DISTRIBUTION = "lmms-eval-ad2"
_reported: set[tuple[str, str]] = set()  # package and reason of each warning so far


@dataclass(frozen=True)
class RunKind:
    """A kind of results other than lmms-eval's runs: a test that recognises them, a report, and a comparison of two.

    recognises(path)    whether the path itself is such results: a run folder, or a file
    find(path)          the results at or below a path
    report(paths, routes=, published=), compare(a, b, force=, routes=, published=)    a report.table.ReportSection;
                        with traffic_signs= if the user chose a variant of this ability

    unread(paths)           list of report.unread.UnreadReason: replies that could not be read, by reason
    parts(path)             the run folders at or below a path that `merge` takes
    merge(out, folders, partial=)    joins folders of one run in the folder `out`; the text to print

    `compare` raises Ad2Error if the two are not comparable, unless `force` is given; `merge` if the folders are not
    parts of one run, or, unless `partial`, if a part of it is missing.
    """

    name: str  # key of its section in JSON
    about: str  # completes "not ..." in a message, as in "a run folder of `ad2 drive run`"
    recognises: Callable[[Path], bool]
    find: Callable[[Path], list[Path]]
    report: Callable[..., Any]
    compare: Callable[..., Any]
    unread: Callable[[list[Path]], list[Any]] = lambda paths: []
    parts: Callable[[Path], list[Path]] = lambda path: []
    merge: Callable[..., str] | None = None


@dataclass(frozen=True)
class TaskSource:
    """Data of the tasks whose `dataset_path` is `prefix` followed by a name; both functions receive the name."""

    prefix: str  # including the colon, as in "ad2drive:"
    ready: Callable[[str], bool]  # whether the data is present
    hint: Callable[[str], str]  # the command that provides the data


def declared(group: str) -> list[metadata.EntryPoint]:
    """Entries of a group, sorted by name, not imported. Of several with the same name, ours is kept, else the first."""
    by_name: dict[str, list[metadata.EntryPoint]] = {}
    for entry in metadata.entry_points(group=group):
        by_name.setdefault(entry.name, []).append(entry)
    return [_only(by_name[name]) for name in sorted(by_name)]


def load(entry: metadata.EntryPoint) -> Any:
    """The object of an entry, or None, after a warning, if it cannot be imported.

    A package that fails causes one warning, however many entries it has.
    """
    try:
        return entry.load()
    except (Exception, SystemExit) as exc:
        reason = " ".join(f"{type(exc).__name__}: {exc}".split())
        package = entry.value.partition(":")[0].partition(".")[0]
        if (package, reason) not in _reported:
            _reported.add((package, reason))
            what = f"entry '{entry.name}' of {entry.group}, and any other that fails in the same way, is left out"
            warn(f"{package}: {what}: {reason}")
        return None


@functools.cache
def loaded(group: str) -> tuple[Any, ...]:
    """The objects of a group, ordered by entry name; imported once per process."""
    return tuple(found for entry in declared(group) if (found := load(entry)) is not None)


def warn(text: str) -> None:
    show(f"warning: {text}", file=sys.stderr)


def _only(entries: list[metadata.EntryPoint]) -> metadata.EntryPoint:
    if len(entries) == 1:  # the usual case: reading the name of a distribution is slow
        return entries[0]
    kept = next((e for e in entries if e.dist and e.dist.name == _DISTRIBUTION), entries[0])
    for other in entries:
        if other is not kept:
            warn(f"{other.group} entry '{other.name}' ({other.value}) is left out: {kept.value} has this name")
    return kept
