"""Finished runs on disk -> Run. Reads summary.json; its shape is docs/architecture.md, schema "ad2-run/1".

All figures are percentages. What is absent is None, never 0.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.report.summary_fields import AGAIN, DistractorRates, ScoreCell, SummaryReader

SCHEMA = "ad2-run/1"
FLOORS = {"ad2_chance": "chance", "ad2_majority": "majority"}
CEILINGS = {"ad2_oracle": "oracle"}
# The papers' order of benchmarks and their parts; what is not named comes after.
ORDER = {
    "ad2_bench": ("perception_base", "perception_advanced", "relation", "reasoning", "cot"),
    "coda_lm": ("general", "region", "suggestion"),
    "autodrive_qa": ("perception", "prediction", "planning"),
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """The table of one task. `variant` holds what differs from the canonical way of asking."""

    name: str
    benchmark: str
    part: str
    variant: Mapping[str, Any]
    data: Mapping[str, Any]
    score: ScoreCell
    columns: Mapping[str, ScoreCell]
    subtasks: Mapping[str, ScoreCell]
    breakdowns: Mapping[str, Mapping[str, ScoreCell]]
    error_kinds: Mapping[str, int]
    reasons: Mapping[str, int]
    judge: str | None
    kinds: Mapping[str, DistractorRates] = field(default_factory=dict)
    position: ScoreCell | None = None
    correctness: ScoreCell | None = None
    interval_method: str | None = None  # None: an earlier version's bootstrap

    @property
    def open_ended(self) -> bool:
        """Free text scored by n-gram metrics alone (the open-ended columns of AutoDrive-QA Table 1)."""
        return self.variant.get("judge") is False

    @property
    def circular(self) -> bool:
        """Each question once for every rotation of its options."""
        return self.variant.get("circular") is True

    @property
    def distractors(self) -> str | None:
        """Which distractors its questions have (all, naive, a category); None where the data do not say."""
        return _named(self.data, "distractors")

    @property
    def maker(self) -> str | None:
        """Who made the distractors: "rules", or a model; None where the data do not say."""
        return _named(self.data, "maker")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A finished run: `about` is the "run" block of its summary, `name` is unique among the runs loaded together."""

    folder: Path
    name: str
    about: Mapping[str, Any]
    tasks: Mapping[str, TaskSummary]

    @property
    def role(self) -> str:
        """ "run", or "floor" and "ceiling" for the models that answer by chance, by majority, or from the key."""
        model = self.about.get("model")
        return "floor" if model in FLOORS else "ceiling" if model in CEILINGS else "run"

    @property
    def judge(self) -> str | None:
        judge = self.about.get("judge")
        return judge.get("label") if isinstance(judge, Mapping) else None


def load(paths: Sequence[Path]) -> list[RunSummary]:
    """Every run at or below `paths`, models first, then floors and ceilings.

    A path is a summary.json, a run folder, or any folder above runs. A run that has answers but no summary
    is unfinished: it is named in a warning and left out, as is a folder without any run. Raises DataError
    where nothing is left, for a path that is absent, and for a summary that is broken, foreign or of
    another schema.
    """
    files: dict[Path, Path] = {}
    empty = []
    for path in map(Path, paths):
        found_here = _summaries(path)
        empty += [] if found_here else [path]
        for file in found_here:
            files.setdefault(file.resolve(), file)
    left_out = unfinished(paths)
    if not files:
        hint = "run the same command again: it goes on where it stopped" if left_out else ""
        what = f"only unfinished runs ({', '.join(str(u) for u in left_out)})" if left_out else "none"
        where = Path(paths[0]) if len(paths) == 1 else Path(", ".join(str(p) for p in paths))
        raise DataError(where, None, "summary.json", "a finished run at or below this folder", what, hint)
    for folder in left_out:
        _log.warning("%s: unfinished run, left out; run the same command again to finish it", folder)
    for path in empty:
        if not unfinished([path]):
            _log.warning("%s: no run at or below it, left out", path)
    found = [(file, _read(file)) for file in files.values()]
    marks = _judge_marks([about for _, (about, _) in found])
    runs = _distinct([_run(file, *blocks, mark) for (file, blocks), mark in zip(found, marks, strict=True)])
    return sorted(runs, key=lambda run: ("run", "floor", "ceiling").index(run.role))


def _summaries(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(path, None, "path", "a run folder, or a folder above runs", "nothing there")
    return sorted(path.rglob("summary.json"))


def unfinished(paths: Sequence[Path]) -> list[Path]:
    """The folders of runs at or below `paths` that have answers but no summary yet."""
    journals = (j for path in paths for j in sorted(Path(path).rglob("journal")) if j.is_dir())
    return list(dict.fromkeys(j.parent for j in journals if not (j.parent / "summary.json").exists()))


def _read(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The blocks "run" and "tasks" of a summary."""
    try:
        data = json.loads(path.read_text("utf-8"), parse_constant=_not_finite)
    except (OSError, ValueError, RecursionError) as exc:
        raise DataError(path, None, "file", "the summary of a run, as JSON", str(exc), AGAIN) from exc
    found = data.get("schema") if isinstance(data, dict) else type(data).__name__
    if found != SCHEMA:
        raise DataError(path, None, "schema", f"'{SCHEMA}'", found or "no schema", AGAIN)
    place = SummaryReader(path)
    return place.mapping(data, "run"), place.mapping(data, "tasks")


def _run(path: Path, about: Mapping[str, Any], tasks: Mapping[str, Any], judge_mark: str) -> RunSummary:
    place = SummaryReader(path, judge_mark)
    label = str(about.get("label") or about.get("model") or path.parent.name)
    read = {name: _task(place, name, table) for name, table in tasks.items()}
    return RunSummary(path.parent, label, about, dict(sorted(read.items(), key=lambda item: _position(item[1]))))


def _position(task: TaskSummary) -> tuple[int, str, int, str]:
    """Where a task stands: benchmarks, then parts in the papers' order, then by name."""
    benchmarks, parts = list(ORDER), ORDER.get(task.benchmark, ())
    benchmark = benchmarks.index(task.benchmark) if task.benchmark in ORDER else len(benchmarks)
    return benchmark, task.benchmark, parts.index(task.part) if task.part in parts else len(parts), task.name


# Of a judge's description: what does not change its marks.
_NOT_MARKING = frozenset({"label", "usage", "served_as", "base_url", "max_tokens"})


def judge_sha(about: Mapping[str, Any]) -> str | None:
    """A short hash of what a run's judge marks by (model, rubrics, temperature, seed); None without a judge."""
    judge = about.get("judge")
    if not isinstance(judge, Mapping):
        return None
    marking = {key: value for key, value in judge.items() if key not in _NOT_MARKING}
    return hashlib.sha256(json.dumps(marking, sort_keys=True).encode()).hexdigest()[:6]


def _judge_marks(abouts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Judges of one label that mark by other rubrics or settings are other judges: what to add to the label of each."""
    shas: dict[Any, set[str | None]] = {}
    labels = [judge.get("label") if isinstance(judge := about.get("judge"), Mapping) else None for about in abouts]
    for label, about in zip(labels, abouts, strict=True):
        shas.setdefault(label, set()).add(judge_sha(about))
    return [
        f" (settings {judge_sha(about)})" if label and len(shas[label]) > 1 else ""
        for label, about in zip(labels, abouts, strict=True)
    ]


def _not_finite(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _distinct(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Give runs of the same model names of their own: by their judges where these differ, else by their folders."""
    same = Counter(run.name for run in runs)
    judged = Counter((run.name, run.judge) for run in runs)
    alike: dict[str, list[Path]] = {}
    for run in runs:
        alike.setdefault(run.name, []).append(run.folder.resolve())
    marks = {name: _shortest(folders) for name, folders in alike.items()}
    named = []
    for run in runs:
        if same[run.name] > 1:
            by_judge = judged[run.name, run.judge] == 1
            mark = str(run.judge) if by_judge else marks[run.name][run.folder.resolve()]
            run = replace(run, name=f"{run.name} ({mark})")
        named.append(run)
    return named


def _shortest(folders: Sequence[Path]) -> dict[Path, str]:
    """The shortest part of each path that tells it from the others, from where they fork: runs/bench, runs/chance."""
    shortest = min(len(f.parts) for f in folders)
    fork = next((i for i in range(shortest) if len({f.parts[i] for f in folders}) > 1), shortest - 1)
    longest = max(len(f.parts) for f in folders)
    marks: dict[Path, str] = {}
    for end in range(fork + 1, longest + 1):
        marks = {f: "/".join(f.parts[fork:end]) for f in folders}
        if len(set(marks.values())) == len(set(folders)):
            break
    return marks


def _task(place: SummaryReader, name: str, table: Any) -> TaskSummary:
    here = place.inside("tasks").inside(name)
    if Path(name).name != name:  # it names files
        raise place.wrong("tasks", "names of tasks", name)
    if not isinstance(table, dict):
        raise place.inside("tasks").wrong(name, "a mapping", table)
    breakdowns = here.mapping(table, "breakdowns", {})
    return TaskSummary(
        name=name,
        benchmark=here.text(table, "benchmark"),
        part=here.text(table, "part"),
        variant=here.mapping(table, "variant", {}),
        data=here.mapping(table, "data"),
        score=here.cell(table, "score"),
        columns=here.cells(table, "columns"),
        subtasks=here.cells(table, "subtasks"),
        breakdowns={key: here.inside("breakdowns").cells(breakdowns, key) for key in breakdowns},
        error_kinds=here.counts(table, "error_kinds"),
        reasons=here.counts(table, "reasons"),
        judge=here.judge(table),
        kinds=here.kinds(table, "offered_kinds"),
        position=here.position(table, "position"),
        correctness=here.inside("data").correctness(here.mapping(table, "data"), "correctness"),
        interval_method=_named(table, "interval_method"),
    )


def _named(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) and value else None


def sample_rows(run: RunSummary, task: str) -> Iterator[dict[str, Any]]:
    """The rows of samples/<task>.jsonl, one at a time; a last line that breaks off is left out with a warning."""
    path = run.folder / "samples" / f"{task}.jsonl"
    try:
        with path.open(encoding="utf-8", errors="replace") as handle:
            for number, line in enumerate(handle, 1):
                row = _row(path, number, line)
                if row is not None:
                    yield row
    except FileNotFoundError:
        raise DataError(path, None, "file", "the samples of a finished run", "no such file") from None


def _row(path: Path, number: int, line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as exc:
        if not line.endswith("\n"):  # only the last line can lack its end: a copy that was cut off
            _log.warning("%s: line %d breaks off; left out", path, number)
            return None
        raise DataError(path, number, "line", "one JSON object", line[:80]) from exc
    if not isinstance(row, dict) or "id" not in row:
        raise DataError(path, number, "id", "a sample as JSON object with an id", line[:80])
    return row
