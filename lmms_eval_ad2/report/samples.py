"""Samples of runs as text: one with everything about it (`ad2 report RUN --sample ID`), and those that lost points
(`--wrong`)."""

from __future__ import annotations

import difflib
import heapq
import itertools
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.printed import one_line, printable, shortened
from lmms_eval_ad2.report import cell_text, sample_row
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary, sample_rows
from lmms_eval_ad2.report.sample_pictures import FULL_MARKS, files
from lmms_eval_ad2.report.table import WIDTH, Table, few, wrapped

_LABEL = 12  # columns of the labels
_NEAREST = 3  # ids named in an error
_EMPTY = "(empty)"
_FIRST_ROUND = (
    "\n\n(the first of {} rounds; a later one asks its own step, and repeats those before with their replies)"
)
# Keys of a record's `meta` that name the question of a reply (`--repeats`) or of a rotation (`circular`).
_DERIVED = ("reply", "rotated")
_TEXT = 60  # characters of an answer or a reference


@dataclass(frozen=True)
class RunSample:
    """A row of samples/<task>.jsonl with its run and task."""

    run: RunSummary
    task: TaskSummary
    row: Mapping[str, Any]


def tasks_of(runs: Sequence[RunSummary], name: str | None) -> list[tuple[RunSummary, TaskSummary]]:
    """Each run with each of its tasks, or with the task `name`. Raises Ad2Error if no run has it."""
    found = [(run, task) for run in runs for task in run.tasks.values() if name in (None, task.name)]
    if not found:
        known = list(dict.fromkeys(task for run in runs for task in run.tasks))
        raise Ad2Error(f"--task {name}: no such task in {few([run.name for run in runs], 3)}; there: {few(known)}")
    return found


def find(runs: Sequence[RunSummary], sample: str, task: str | None) -> list[RunSample]:
    """The samples of an id in all tasks, or in one; of a question that was asked several times, all its samples.

    Raises Ad2Error if there is none.
    """
    found: list[RunSample] = []
    ids: dict[str, None] = {}
    for run, table in (asked := tasks_of(runs, task)):
        for row in sample_rows(run, table.name):
            known = str(row["id"])
            meta = sample_row.record_of(row).get("meta")
            made = [meta.get(key) for key in _DERIVED] if isinstance(meta, Mapping) else []
            if sample in (known, *(str(one["id"]) for one in made if isinstance(one, Mapping) and "id" in one)):
                found.append(RunSample(run, table, row))
            elif not found:
                ids[known] = None
    if not found:
        names = list(dict.fromkeys(table.name for _, table in asked))
        hint = _nearest(sample, list(ids)) if ids else "it is empty"
        raise Ad2Error(f"--sample {one_line(sample)}: no sample of {few(names, 3)} has this id; {one_line(hint)}")
    return found


def _nearest(sample: str, ids: Sequence[str]) -> str:
    """Ids that contain it, else similar ones, else the first ones, as a hint."""
    lowered = {known.lower(): known for known in reversed(ids)}
    near = list(itertools.islice((known for known in ids if sample.lower() in known.lower()), _NEAREST))
    near = near or [lowered[close] for close in difflib.get_close_matches(sample.lower(), lowered, _NEAREST)]
    return f"did you mean {few(near)}?" if near else f"ids there are such as {few(ids[:_NEAREST])}"


def as_json(found: RunSample) -> dict[str, Any]:
    """The sample with its run, its task and the paths of its images."""
    images = [str(path) for path in files(found.row, found.task)]
    where = {"run": found.run.name, "folder": str(found.run.folder), "task": found.task.name}
    return {**where, "images": images, "sample": dict(found.row)}


def render_sample(found: RunSample) -> str:
    """All about a sample, one labelled part after the other; texts keep their lines."""
    row = found.row
    title = f"{one_line(str(row['id']))}  {found.task.name}, {one_line(found.run.name)} ({found.run.folder})"
    lines = [title]
    for label, text in _parts(found):
        if text.strip():
            body = wrapped(text, WIDTH - _LABEL).split("\n")
            lines += [f"{label if i == 0 else '':<{_LABEL}}{line}".rstrip() for i, line in enumerate(body)]
    return printable("\n".join(lines)) + "\n"


def _parts(found: RunSample) -> Iterator[tuple[str, str]]:
    row, record = found.row, sample_row.record_of(found.row)
    kinds = [row.get("benchmark"), row.get("part"), row.get("subtask"), row.get("form"), row.get("lang")]
    yield "about", ", ".join(str(kind) for kind in kinds if kind)
    yield "question", sample_row.question(row)
    right = record.get("letter")
    yield (
        "options",
        "\n".join(
            f"{letter}. {text} [{kind.replace('_', ' ')}]{' <- right' if letter == right else ''}"
            for letter, text, kind in sample_row.options(row)
        ),
    )
    yield "reference", sample_row.reference(row)
    yield "mark", sample_row.mark(row)
    yield "images", "\n".join(map(str, files(row, found.task)))
    replies = sample_row.replies(row)
    rounds = len(replies) > 1
    yield "prompt", str(row.get("prompt", "")) + (_FIRST_ROUND.format(len(replies)) if rounds else "")
    numbered = [f"round {i}: {text or _EMPTY}" for i, text in enumerate(replies, 1)] if rounds else replies
    yield "reply", "\n\n".join(numbered) or _EMPTY
    yield "read as", _reading(row, found.task)
    yield "status", ": ".join(str(row[key]) for key in ("status", "reason") if row.get(key))
    yield "score", _scores(row)
    for title, mark, words in sample_row.judged(row):
        yield "judge", "\n".join([f"{title}: {mark}", *words])


def _reading(row: Mapping[str, Any], task: TaskSummary) -> str:
    answer = row.get("answer")
    if answer is None:
        return f"nothing: {row.get('reason') or row.get('status')}"
    if row.get("form") == "chain" and isinstance(answer, list):
        return "\n".join(f"{i}. {step}" for i, step in enumerate(answer, 1))
    notes = [str(row["note"])] if row.get("note") else []
    notes += [f"frame {task.frame}"] if row.get("form") in ("point", "box") else []
    return sample_row.plain(answer) + (f" ({', '.join(notes)})" if notes else "")


def _scores(row: Mapping[str, Any]) -> str:
    """The score, then each column under both rules, in percent."""
    lines = [_percent(row.get("score"), 1)]
    official, strict = (value if isinstance(value := row.get(key), Mapping) else {} for key in ("values", "strict"))
    for column in official:
        lines.append(f"{column} {_percent(official[column], 100)}, strict {_percent(strict.get(column), 100)}")
    return "\n".join(lines)


def _percent(value: Any, times: float) -> str:
    return cell_text.number(times * value if is_number(value) else None)


# --- samples that lost points ---


@dataclass(frozen=True, slots=True)
class LostPoints:
    """A sample below full marks. read: the parsed answer, or why there is none; texts are shortened."""

    score: float
    id: str
    run: str
    task: str
    status: str
    read: str
    reference: str


@dataclass(frozen=True)
class LostPointsList:
    """The worst samples, and counts of all: below full marks, without a score, asked."""

    samples: tuple[LostPoints, ...]
    lost: int
    unscored: int
    asked: int


def lost_points(runs: Sequence[RunSummary], task: str | None, limit: int) -> LostPointsList:
    """The `limit` samples with the lowest scores; equal ones in the order of the files. Floors and ceilings are left
    out beside models. Raises Ad2Error if no run has the task."""
    counts: Counter[str] = Counter()
    models = [run for run in runs if run.role == "run"] or runs

    def below() -> Iterator[LostPoints]:
        for run, table in tasks_of(models, task):
            for row in sample_rows(run, table.name):
                counts["asked"] += 1
                score = row.get("score")
                if not is_number(score):
                    counts["unscored"] += not table.open_ended  # n-gram metrics have no score of a sample
                elif score < FULL_MARKS:
                    counts["lost"] += 1
                    parsed = row.get("answer")
                    read = str(row.get("reason")) if parsed is None else sample_row.plain(parsed)
                    texts = [shortened(text, _TEXT) for text in (read, sample_row.reference(row))]
                    status = str(row.get("status"))
                    yield LostPoints(float(score), str(row["id"]), run.name, table.name, status, *texts)

    worst = heapq.nsmallest(limit, below(), key=lambda sample: sample.score)
    return LostPointsList(tuple(worst), counts["lost"], counts["unscored"], counts["asked"])


def render_lost(found: LostPointsList, results: Sequence[str]) -> str:
    """One row per sample, then the counts and the command that shows one. results: the paths of the command."""
    lines = []
    if found.samples:
        columns = {
            "score": [cell_text.number(sample.score) for sample in found.samples],
            "sample": [one_line(sample.id) for sample in found.samples],
            "task": [sample.task for sample in found.samples],
            "model": [one_line(sample.run) for sample in found.samples],
            "read as": [("" if s.status == "ok" else f"{s.status}: ") + one_line(s.read) for s in found.samples],
            "reference": [one_line(sample.reference) for sample in found.samples],
        }
        # What is the same in all rows is said once, in the title.
        same = {name for name in ("task", "model") if len(set(columns[name])) == 1}
        shown = {name: cells for name, cells in columns.items() if name not in same}
        lines = [", ".join(columns[name][0] for name in ("model", "task") if name in same)]
        table = Table(list(shown), list(zip(*shown.values(), strict=True)), "r" + "l" * (len(shown) - 1))
        lines += [table.within(WIDTH), ""]
    more = f"; shown {len(found.samples)}, see --limit" if found.lost > len(found.samples) else ""
    lines.append(f"{found.lost} of {found.asked} samples lost points{more}")
    if found.unscored:
        reasons = shlex.join(["ad2", "report", *results, "--wide"])
        lines.append(f"{found.unscored} more have no score, which is not the model's fault; the reasons: {reasons}")
    if found.samples:
        command = shlex.join(
            ["ad2", "report", *results, "--sample", found.samples[0].id, "--task", found.samples[0].task]
        )
        lines.append(f"one of them: {one_line(command)}")
    return printable("\n".join(line for i, line in enumerate(lines) if line or i)) + "\n"
