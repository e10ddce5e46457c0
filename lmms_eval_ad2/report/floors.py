"""The chance floor: what random answers get from the lexical judge on the samples of the runs of a report.

The lexical judge compares wording, so it gives any answer of the right kind a part of its scale. Its scores are
therefore shown beside those of random answers to the same questions: of a run of ad2_chance if the report has one,
else computed from the references in the samples of a run (scoring/reference_answers.py), as a run of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary, read_task, sample_rows
from lmms_eval_ad2.report.summary_fields import SummaryBlock
from lmms_eval_ad2.storage.shards import SHARDS

LEXICAL = "lexical"
CHANCE = "ad2_chance"
NAME = "random answers"
COMPUTED = "floor_computed_from"  # key of RunSummary.about
MEANING = (
    "The lexical judge marks the words that an answer shares with its reference, from 10 to 100. A random answer is "
    "the reference of another question of its kind: where references share their wording, as in the sample, its mark "
    "is high (the floor rows), and only what a model has above it counts."
)

Key = tuple[str, ...]  # the questions of a task, their judge and limit


def with_floors(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """`runs` and the floors that they lack; a floor that cannot be computed is left to `missing_floors`.

    Reads the samples of one run per set of questions. Benchmarks with a score of the lexical judge have a floor of all
    their tasks, because their averages need it.
    """
    known = _known(runs)
    floors: list[RunSummary] = []
    for run in runs:
        tasks = {}
        for task in _needed(run):
            key = _key(run, task)
            if key not in known and (floor := _floor(run, task)) is not None:
                known.add(key)
                tasks[task.name] = floor
        if tasks:
            name = NAME if not floors else f"{NAME} to {run.name}"
            about = {"model": CHANCE, "label": name, "seed": 0, "limit": run.about.get("limit"),
                     "judge": run.about.get("judge"), COMPUTED: run.name}  # fmt: skip
            if SHARDS in run.about:
                about[SHARDS] = run.about[SHARDS]
            floors.append(RunSummary(run.folder / NAME, name, about, tasks))
    return [*runs, *floors]


def meaning_of_floors(runs: Sequence[RunSummary]) -> list[str]:
    """The meaning of scores of the lexical judge, if the runs have any."""
    judged = any(is_lexical(task.judge) and not task.open_ended for run in runs for task in run.tasks.values())
    return [MEANING] if judged else []


def missing_floors(runs: Sequence[RunSummary]) -> list[str]:
    """One note per run that has scores of the lexical judge without a floor, with the command that gives it."""
    known = _known(runs)
    notes = []
    for run in runs:
        names = [task.name for task in _needed(run) if _key(run, task) not in known]
        if names:
            limit = f" --limit {run.about['limit']}" if run.about.get("limit") else ""
            notes.append(
                f"{run.name}: no chance floor beside the lexical judge (its samples cannot be read): "
                f"ad2 eval --model {CHANCE} --tasks {','.join(names)} --judge {LEXICAL}{limit} --out DIR, then report "
                "both"
            )
    return notes


def _known(runs: Sequence[RunSummary]) -> set[Key]:
    chance = (run for run in runs if run.about.get("model") == CHANCE)
    return {_key(run, task) for run in chance for task in run.tasks.values()}


def _needed(run: RunSummary) -> list[TaskSummary]:
    """The tasks of the benchmarks in which the lexical judge rated the run."""
    if run.about.get("model") == CHANCE:
        return []
    judged = {task.benchmark for task in run.tasks.values() if is_lexical(task.judge) and not task.open_ended}
    return [task for task in run.tasks.values() if task.benchmark in judged and not task.open_ended]


def is_lexical(judge: str | None) -> bool:
    """True if a judge's label, with or without a hash of its settings, is that of the lexical judge."""
    return judge is not None and judge.split(" (")[0] == LEXICAL


def _key(run: RunSummary, task: TaskSummary) -> Key:
    asked = json.dumps(task.asked, sort_keys=True, default=str)
    data = [str(task.data.get(name)) for name in ("name", "split", "sha256")]
    shards = (run.about.get(SHARDS) or {}).get("included")
    return (task.name, asked, *data, str(task.judge), str(run.about.get("limit")), str(shards))


def _floor(run: RunSummary, task: TaskSummary) -> TaskSummary | None:
    """The scores of random answers to the samples of a task; None if its samples cannot be read."""
    from lmms_eval_ad2.core.records import Record
    from lmms_eval_ad2.judge import make_judge
    from lmms_eval_ad2.scoring.reference_answers import chance_floor
    from lmms_eval_ad2.scoring.variant import TaskVariant

    def records() -> Iterator[Record]:
        return (Record.from_dict(row["record"]) for row in sample_rows(run, task.name))

    try:
        variant = TaskVariant.from_dict({"benchmark": task.benchmark, "part": task.part, **task.variant}, task.name)
        table = chance_floor(records, task.name, variant, make_judge(LEXICAL))
    except (Ad2Error, OSError, KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None  # missing or foreign samples: reported by missing_floors
    suffix = str(task.judge).removeprefix(LEXICAL) if task.judge else ""
    tables = {task.name: {**table, "data": dict(task.data)}}
    floor = read_task(SummaryBlock(run.folder / NAME, tables, suffix, "tasks"), task.name)
    # Else the samples are not all that the score is over.
    return replace(floor, judge=task.judge) if floor.score.n == task.score.n else None
