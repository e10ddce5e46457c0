"""Loading of finished runs from summary.json (format: docs/architecture.md, schema "ad2-run/1").

All scores are percentages. Absent values are None, never 0.
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

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.printed import one_line
from lmms_eval_ad2.report.summary_fields import (
    RERUN_HINT,
    AnswerStability,
    DistractorRates,
    JudgementSpread,
    ScoreCell,
    SummaryBlock,
)
from lmms_eval_ad2.storage.saved_samples import read_sample
from lmms_eval_ad2.storage.shards import SHARDS, shards_text
from lmms_eval_ad2.storage.untrusted_json import lines, parse
from lmms_eval_ad2.storage.untrusted_json import load as load_json

SCHEMA = "ad2-run/1"
FLOORS = {"ad2_chance": "chance", "ad2_majority": "majority"}
CEILINGS = {"ad2_oracle": "oracle"}
# Order of benchmarks and parts, as in the papers; others follow.
ORDER = {
    "ad2_bench": ("perception_base", "perception_advanced", "relation", "reasoning", "cot"),
    "coda_lm": ("general", "region", "suggestion"),
    "autodrive_qa": ("perception", "prediction", "planning"),
    "world": (
        "existence", "counting", "location", "detection", "relation", "cot", "perception", "prediction", "planning",
    ),
}  # fmt: skip

FRAME_SETTINGS = ("frame", "model_input")  # of a variant: how coordinates are read

# Also of a run with --predict_only, which has all its answers and no scores.
FINISH_HINT = "run the same command again, without --predict_only: it asks only what is missing, and scores"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """The table of one task. `variant`: the settings that differ from the canonical task."""

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
    coordinates: Mapping[str, Any] = field(default_factory=dict)  # scoring/pipeline.py; empty without points, boxes
    repeats: JudgementSpread | None = None  # None: each text was rated once, or no judge was needed
    replies: AnswerStability | None = None  # None: each question was asked once
    mean_of: tuple[str, ...] = ()  # the columns whose mean is the score; empty in summaries that do not name them

    @property
    def frame(self) -> str:
        """The frame in which points and boxes are read, as in --frame."""
        frame, more = self.variant.get("frame"), self.variant.get("model_input")
        return f"{frame}:{more}" if frame and more else str(frame or "auto")

    @property
    def asked(self) -> dict[str, Any]:
        """The settings of the question: the variant without the frame, in which each model answers in its own way."""
        return {key: value for key, value in self.variant.items() if key not in FRAME_SETTINGS}

    @property
    def open_ended(self) -> bool:
        """Free text scored by n-gram metrics alone (the open-ended columns of AutoDrive-QA Table 1)."""
        return self.variant.get("judge") is False

    @property
    def circular(self) -> bool:
        """True if each question is asked once per rotation of its options."""
        return self.variant.get("circular") is True

    @property
    def distractors(self) -> str | None:
        """The set of distractors of its questions (all, naive, a category); None if the data do not state it."""
        return _named(self.data, "distractors")

    @property
    def maker(self) -> str | None:
        """The maker of the distractors: "rules" or a model; None if the data do not state it."""
        return _named(self.data, "maker")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A finished run. `about`: the block "run" of its summary; `name`: unique among the runs loaded together."""

    folder: Path
    name: str
    about: Mapping[str, Any]
    tasks: Mapping[str, TaskSummary]

    @property
    def role(self) -> str:
        """ "run"; "floor" for chance and majority baselines, "ceiling" for the oracle."""
        model = self.about.get("model")
        return "floor" if model in FLOORS else "ceiling" if model in CEILINGS else "run"

    @property
    def judge(self) -> str | None:
        judge = self.about.get("judge")
        return judge.get("label") if isinstance(judge, Mapping) else None


def load(paths: Sequence[Path]) -> list[RunSummary]:
    """Load every run at or below `paths`: models first, then floors and ceilings.

    A path is a summary.json, a run folder, or any folder above runs. Unfinished runs (answers but no summary) and
    folders without a run are left out with a warning. Raises DataError if no run is found, for an absent path, and for
    a summary that is broken or of another schema.
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
        hint = f"the answers so far are kept; {FINISH_HINT}" if left_out else ""
        found_text = f"only unfinished runs ({', '.join(str(u) for u in left_out)})" if left_out else "none"
        searched = Path(paths[0]) if len(paths) == 1 else Path(", ".join(str(p) for p in paths))
        raise DataError(searched, None, "summary.json", "a finished run at or below this folder", found_text, hint)
    for folder in left_out:
        _log.warning("%s: unfinished run, left out; %s", folder, FINISH_HINT)
    for path in empty:
        if not unfinished([path]):
            _log.warning("%s: no run at or below it, left out", path)
    found = [_read(file) for file in files.values()]
    suffixes = _judge_suffixes([summary.block("run").data for summary in found])
    runs = _distinct([_run(summary, suffix) for summary, suffix in zip(found, suffixes, strict=True)])
    return sorted(runs, key=lambda run: ("run", "floor", "ceiling").index(run.role))


def _summaries(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(path, None, "path", "a run folder, or a folder above runs", "nothing there")
    return sorted(path.rglob("summary.json"))


def holds_runs(path: Path) -> bool:
    """True if `load` finds something at or below a path: a summary.json, or an unfinished run."""
    if path.is_file():
        return path.name == "summary.json"
    return any(path.rglob("summary.json")) or bool(unfinished([path]))


def unfinished(paths: Sequence[Path]) -> list[Path]:
    """Return the folders of runs at or below `paths` that have answers but no summary yet."""
    journals = (j for path in paths for j in sorted(Path(path).rglob("journal")) if j.is_dir())
    return list(dict.fromkeys(j.parent for j in journals if not (j.parent / "summary.json").exists()))


def _read(path: Path) -> SummaryBlock:
    """Read a summary with the blocks "run" and "tasks"."""
    try:
        data = load_json(path)
    except (OSError, ValueError) as exc:
        raise DataError(path, None, "file", "the summary of a run, as JSON", str(exc), RERUN_HINT) from exc
    found = data.get("schema") if isinstance(data, dict) else type(data).__name__
    if found != SCHEMA:
        raise DataError(path, None, "schema", f"'{SCHEMA}'", found or "no schema", RERUN_HINT)
    return SummaryBlock(path, data)


def _run(summary: SummaryBlock, judge_suffix: str) -> RunSummary:
    about, tasks, path = summary.block("run"), replace(summary.block("tasks"), judge_suffix=judge_suffix), summary.file
    label = one_line(str(about.data.get("label") or about.data.get("model") or path.parent.name)) + _part(about)
    read = {name: read_task(tasks, name) for name in tasks.data}
    return RunSummary(path.parent, label, about.data, dict(sorted(read.items(), key=lambda item: _position(item[1]))))


def _part(about: SummaryBlock) -> str:
    """ " (shard 2/3)" of a run that is only some shards of one; empty for a whole run."""
    if (block := about.data.get(SHARDS)) is None:
        return ""
    try:
        return f" ({shards_text([int(i) for i in block['included']], int(block['of']))})"
    except (TypeError, ValueError, KeyError, IndexError) as exc:
        raise about.wrong(SHARDS, "the shards of this folder") from exc


def _position(task: TaskSummary) -> tuple[int, str, int, str]:
    """Sort key of a task: benchmark, then part in the papers' order, then name."""
    benchmarks, parts = list(ORDER), ORDER.get(task.benchmark, ())
    benchmark = benchmarks.index(task.benchmark) if task.benchmark in ORDER else len(benchmarks)
    return benchmark, task.benchmark, parts.index(task.part) if task.part in parts else len(parts), task.name


# Fields of a judge's description that do not affect its marks.
_NOT_RATING = frozenset({"label", "usage", "served_as", "base_url", "max_tokens"})


def judge_sha(about: Mapping[str, Any]) -> str | None:
    """Return a short hash of the judge settings that affect marks (model, rubrics, temperature, seed), or None."""
    judge = about.get("judge")
    if not isinstance(judge, Mapping):
        return None
    settings = {key: value for key, value in judge.items() if key not in _NOT_RATING}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]


def _judge_suffixes(abouts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a suffix for each judge label: judges with equal labels but different settings get a hash."""
    named = []
    for about in abouts:
        judge = about.get("judge")
        named.append((judge.get("label") if isinstance(judge, Mapping) else None, judge_sha(about)))
    several = Counter(label for label, _ in set(named))
    return [f" (settings {sha})" if label and several[label] > 1 else "" for label, sha in named]


def _distinct(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Give runs of the same model different names: by judge if these differ, else by folder."""
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
    """Return for each path the shortest part that is unique, from where the paths diverge: runs/bench, runs/chance."""
    shortest = min(len(f.parts) for f in folders)
    fork = next((i for i in range(shortest) if len({f.parts[i] for f in folders}) > 1), shortest - 1)
    longest = max(len(f.parts) for f in folders)
    marks: dict[Path, str] = {}
    for end in range(fork + 1, longest + 1):
        marks = {f: "/".join(f.parts[fork:end]) for f in folders}
        if len(set(marks.values())) == len(set(folders)):
            break
    return marks


def read_task(tasks: SummaryBlock, name: str) -> TaskSummary:
    """Read the table of one task; raises DataError for an invalid field."""
    if Path(name).name != name or not name.isprintable():  # the name is used in file names
        raise DataError(tasks.file, None, "tasks", "names of tasks", name, RERUN_HINT)
    table = tasks.block(name)
    data, breakdowns = table.block("data"), table.block("breakdowns", optional=True)
    return TaskSummary(
        name=name,
        benchmark=table.text("benchmark"),
        part=table.text("part"),
        variant=table.block("variant", optional=True).data,
        data=data.data,
        score=table.cell("score"),
        columns=table.cells("columns"),
        subtasks=table.cells("subtasks"),
        breakdowns={key: breakdowns.cells(key) for key in breakdowns.data},
        error_kinds=table.counts("error_kinds"),
        reasons=table.counts("reasons"),
        judge=table.judge(),
        kinds=table.kinds("offered_kinds"),
        position=table.position("position"),
        correctness=data.correctness("correctness"),
        repeats=table.spread("judge_repeats"),
        replies=table.stability("replies"),
        interval_method=_named(table.data, "interval_method"),
        coordinates=table.block("coordinates", optional=True).data,
        mean_of=table.block("score").names("columns"),
    )


def _named(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) and value else None


def sample_rows(run: RunSummary, task: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of samples/<task>.jsonl; an incomplete last line is skipped with a warning."""
    path = run.folder / "samples" / f"{task}.jsonl"
    try:
        for number, line in lines(path):
            if not line.endswith(b"\n"):
                try:
                    parse(line)  # the last line, without its newline: a JSON text, or the file was cut off
                except ValueError:
                    _log.warning("%s: line %d breaks off; left out", path, number)
                    return
            yield read_sample(path, number, line)
    except FileNotFoundError:
        raise DataError(path, None, "file", "the samples of a finished run", "no such file") from None
