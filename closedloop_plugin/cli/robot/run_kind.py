"""The run kind of `ad2 report` for folders of `ad2 robot run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.plugins import RunKind
from lmms_eval_ad2.storage.untrusted_json import load

if TYPE_CHECKING:
    from closedloop_plugin.robots.course.report import CourseRun
    from lmms_eval_ad2.report.table import ReportSection
    from lmms_eval_ad2.report.unread import UnreadReason


def is_course_run(path: Path) -> bool:
    """Whether `ad2 robot run` wrote the folder, and at least one run has ended."""
    if not ((path / "run.json").is_file() and (path / "episodes.jsonl").is_file()):
        return False
    try:
        identity = load(path / "run.json")["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        return False  # whose it is cannot be told: the drives' run kind reports it
    return isinstance(identity, dict) and "course" in identity


def find(path: Path) -> list[Path]:
    """The run folders at or below a path."""
    if is_course_run(path) or not path.is_dir():
        return [path] if is_course_run(path) else []
    return sorted(file.parent for file in path.rglob("run.json") if is_course_run(file.parent))


def report(paths: Sequence[Path], *, published: bool, **_: Any) -> ReportSection:
    """The table of all vehicles and models; the other arguments are of drives and have no effect."""
    from closedloop_plugin.robots.course.report import course_section
    from closedloop_plugin.robots.course.report import published as paper

    return course_section([_read(path) for path in paths], paper() if published else None)


def compare(a: Path, b: Path, **_: Any) -> ReportSection:
    raise Ad2Error(f"courses are not tested against each other; both in one table: ad2 report {a} {b}")


def unread(paths: Sequence[Path]) -> list[UnreadReason]:
    """Counts of replies that could not be read; their texts are in the folder's logs."""
    from lmms_eval_ad2.report.unread import UnreadReason

    found = []
    for run in map(_read, paths):
        n, asked = (sum(record.counts.get(key, 0) for record in run.records) for key in ("unparsed", "cycles"))
        if n:
            found.append(UnreadReason(run.model, f"robot course, {run.vehicle}", "unparsed", n, asked))
    return found


def _read(path: Path) -> CourseRun:
    from closedloop_plugin.robots.course.records import read_records
    from closedloop_plugin.robots.course.report import CourseRun
    from lmms_eval_ad2.storage.identity import read_run

    latest = {record.key: record for record in read_records(path)}
    return CourseRun(path, tuple(latest.values()), read_run(path)["identity"])


RUN_KIND = RunKind(
    name="robot",
    about="a run folder of `ad2 robot run`",
    recognises=is_course_run,
    find=find,
    report=report,
    compare=compare,
    unread=unread,
)
