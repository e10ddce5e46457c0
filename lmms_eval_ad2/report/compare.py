"""Paired comparison of two runs, sample by sample, with significance tests.

Only samples that both runs have and scored are compared; the others are counted. Runs on different data, or rated by
different judges, are refused: their scores are not comparable.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.printed import printable
from lmms_eval_ad2.report import cell_text, tables
from lmms_eval_ad2.report.floors import is_lexical
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary, judge_sha, sample_rows
from lmms_eval_ad2.report.sample_row import record_of
from lmms_eval_ad2.report.table import WIDTH, Table, escape, wrapped
from lmms_eval_ad2.scoring.metrics import paired_comparison
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION

HEADERS = ("Task", "n (clusters)", "A", "B", "A - B [95 % interval]", "p", "p (Holm)", "test")
MEANS = (
    "A, B: means over the samples that both runs have and scored. The scores of ad2 report are over all samples of a "
    "run, and of tasks with several columns the mean of the columns, as in the papers."
)
METHOD = (
    "Exact McNemar test if all scores are right or wrong, else a sign-flip test over clusters; p (Holm) is corrected "
    "for the number of tasks."
)
FLOOR = "Random answers get a good part of the lexical judge's scale: see the floor rows of ad2 report on the two runs."
_FORCE = "to compare them anyway: --force"
BY_IMAGE = "the tasks have no record in common: paired by image, each with the mean over its samples"
_CHAIN = re.compile(r"#cot(?=@\d+\Z|\Z)")  # of a chain's id, which is that of its question otherwise


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """The comparison of one task. Means are percentages over the `n` paired samples (not means of columns).

    `difference`: mean_a - mean_b. `p_holm`: the p-value corrected for the number of tasks tested (Holm, 1979); None if
    no test is possible. `clusters`: number of scenes or images; the jackknife interval omits one at a time, the
    sign-flip test flips whole clusters. `only_a`, `only_b`: samples missing in the other run; `unscored`: shared
    samples that one of the runs has no score for.
    """

    task: str
    n: int
    only_a: int
    only_b: int
    unscored: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    ci: tuple[float, float] | None
    p_value: float | None
    p_holm: float | None
    test: str
    clusters: int = 0
    notes: tuple[str, ...] = ()


def compare(run_a: RunSummary, run_b: RunSummary, *, force: bool = False, seed: int = 0) -> list[TaskComparison]:
    """Compare all tasks that both runs have; one row per task.

    Raises Ad2Error if there is none, and, unless `force`, if the data (sha256) or judge of a task differ; DataError if
    samples are absent or broken.
    """
    shared = [name for name in run_a.tasks if name in run_b.tasks]
    if not shared:
        raise Ad2Error(
            f"the runs share no task: {run_a.name} has {', '.join(run_a.tasks) or 'none'}; "
            f"{run_b.name} has {', '.join(run_b.tasks) or 'none'}"
        )
    pairs = [(run_a.tasks[name], run_b.tasks[name]) for name in shared]
    return _compared(run_a, run_b, pairs, DATA, force, seed)


DATA = ("name", "split", "sha256")  # fields of a task's data that both runs must share
SAME_QUESTIONS = ("split", "maker")  # the same if only the distractors may differ


def compare_sets(
    run_a: RunSummary, run_b: RunSummary, sets: tuple[str, str], *, force: bool = False, seed: int = 0
) -> list[TaskComparison]:  # fmt: skip
    """Compare the parts that A asked with the first set of distractors and B, in the same way, with the second.

    `sets`: names as in the data (naive, all, a category); A and B may be one run. Questions are paired by id, which all
    sets made from one source share. Raises Ad2Error if no part can be paired, if paired ids have different
    questions, and, unless `force`, if the makers or judges differ.
    """
    pairs = [
        (a, b)
        for a in run_a.tasks.values() for b in run_b.tasks.values()
        if (a.distractors, b.distractors) == sets and not a.open_ended
        and (a.benchmark, a.part, a.asked) == (b.benchmark, b.part, b.asked)
    ]  # fmt: skip
    if not pairs:
        known = [", ".join(sorted({t.distractors for t in r.tasks.values() if t.distractors})) for r in (run_a, run_b)]
        raise Ad2Error(
            f"no part was asked in the same way with the distractors '{sets[0]}' in {run_a.name} and '{sets[1]}' in "
            f"{run_b.name}; the runs have: {known[0] or 'none'}; {known[1] or 'none'}"
        )
    for a, b in pairs:
        _same_questions(run_a, a.name, run_b, b.name)
    return _compared(run_a, run_b, pairs, SAME_QUESTIONS, force, seed)


def compare_tasks(
    run_a: RunSummary, run_b: RunSummary, tasks: tuple[str, str], *, force: bool = False, seed: int = 0
) -> list[TaskComparison]:  # fmt: skip
    """Compare the first task of A with the second of B, which ask about the same data in different ways.

    For the gain of a chain of thought (AD2-Bench Table 3) and the effect of a visual prompt (A.11). Paired by record; a
    chain and the question that it was made from are one. Without common records by image, each with its mean. A and B
    may be one run. Raises Ad2Error for an unknown task, and, unless `force`, if data or judge differ.
    """
    for run, name in zip((run_a, run_b), tasks, strict=True):
        if name not in run.tasks:
            near = difflib.get_close_matches(name, run.tasks, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(run.tasks) or 'none'}"
            raise Ad2Error(f"{run.name} has no task {name}; {hint}")
    pair = run_a.tasks[tasks[0]], run_b.tasks[tasks[1]]
    if any(task.open_ended or task.circular for task in pair):
        raise Ad2Error(f"{tasks[0]} and {tasks[1]}: tasks with rotated options or without scores cannot be paired")
    return _compared(run_a, run_b, [pair], DATA, force, seed, as_asked=False)


def _same_questions(run_a: RunSummary, a: str, run_b: RunSummary, b: str) -> None:
    """Raise Ad2Error if an id has different questions in the two tasks."""
    asked = {str(row["id"]): record_of(row).get("question") for row in sample_rows(run_a, a)}
    for row in sample_rows(run_b, b):
        other = asked.get(str(row["id"]))
        if other is not None and other != record_of(row).get("question"):
            raise Ad2Error(
                f"{a} and {b} have different questions with the same id ({row['id']}); build both from one source"
            )


def _compared(
    run_a: RunSummary,
    run_b: RunSummary,
    pairs: Sequence[tuple[TaskSummary, TaskSummary]],
    required_fields: Sequence[str],
    force: bool,
    seed: int,
    as_asked: bool = True,
) -> list[TaskComparison]:
    other_judge = judge_sha(run_a.about) != judge_sha(run_b.about)
    differences = [_differences(a, b, other_judge, required_fields, as_asked) for a, b in pairs]
    found = [
        f"{a.name}: {difference}" for (a, _), of_pair in zip(pairs, differences, strict=True) for difference in of_pair
    ]
    if found and not force:
        raise Ad2Error(
            f"not comparable: {'; '.join(found)}. Omit these tasks, or run both with the same settings; {_FORCE}"
        )
    rows = [
        row
        for pair, notes in zip(pairs, differences, strict=True) if not pair[0].open_ended
        for row in _rows(run_a, run_b, pair, notes, seed)
    ]  # fmt: skip
    corrected = holm([row.p_value for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, corrected, strict=True)]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction: p_(k) -> max over j <= k of min(1, (m - j + 1) p_(j)), for m sorted p-values.

    The order of the input is kept; None (not tested) stays None and is not counted in m.
    """
    tested = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(tested):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        corrected[i] = highest
    return corrected


def render(
    run_a: RunSummary,
    run_b: RunSummary,
    rows: Sequence[TaskComparison],
    *,
    markdown: bool = False,
    sets: tuple[str, str] | None = None,
    tasks: tuple[str, str] | None = None,
) -> str:
    """Return the comparison as a text table with notes; `sets`, `tasks`: as given to the comparing function."""
    of_a, of_b = (f", distractors {name}" for name in sets) if sets else ("", "")
    of_a, of_b = (f", {name}" for name in tasks) if tasks else (of_a, of_b)
    table = Table(HEADERS, [_cells(row) for row in rows], "lrrrrrrl")
    lines = [f"A: {run_a.name}{of_a}", f"B: {run_b.name}{of_b}"]
    below: list[str] = []
    left_out: list[tuple[str, list[str]]] = []
    for key in ("prompts_sha256", "gen_kwargs", "limit", "image_encoding"):
        if run_a.about.get(key) != run_b.about.get(key):
            below.append(f"Attention: {key} differs: {run_a.about.get(key)} against {run_b.about.get(key)}")
    for row in rows:
        counts = ((row.only_a, "only in A"), (row.only_b, "only in B"), (row.unscored, "unscored"))
        left_out.append((row.task, list(filter(None, [", ".join(f"{n} {word}" for n, word in counts if n)]))))
    below += _by_note("Left out", left_out)
    below += _by_note("Attention", [(row.task, row.notes) for row in rows])
    below += [MEANS, *_reported(run_a, run_b, rows), METHOD, tables.INTERVALS]
    if any(is_lexical(task.judge) for run in (run_a, run_b) for task in run.tasks.values()):
        below.append(FLOOR)
    body = table.markdown() if markdown else table.within(WIDTH)
    head, notes = ([escape(x) if markdown else wrapped(x, WIDTH, "  ") for x in texts] for texts in (lines, below))
    return printable("\n".join([*head, "", body, "", *notes])) + "\n"


def _cells(row: TaskComparison) -> list[str]:
    difference = cell_text.NONE
    if row.difference is not None:
        difference = f"{row.difference:+.1f}{cell_text.span(row.ci, row.clusters, '+')}"
    means = [cell_text.number(row.mean_a), cell_text.number(row.mean_b)]
    p_values = [_p(row.p_value), _p(row.p_holm)]
    return [row.task, f"{row.n} ({row.clusters})", *means, difference, *p_values, row.test]


def _reported(run_a: RunSummary, run_b: RunSummary, rows: Sequence[TaskComparison]) -> list[str]:
    """The scores in `ad2 report` of tasks where they are means of columns and differ from the means here."""
    notes = []
    for row in rows:
        a, b = run_a.tasks.get(row.task), run_b.tasks.get(row.task)
        if a is None or b is None or max(len(a.mean_of), len(b.mean_of)) < 2:
            continue
        scores = [cell_text.number(task.score.official) for task in (a, b)]
        if scores != [cell_text.number(mean) for mean in (row.mean_a, row.mean_b)]:
            columns = ", ".join(dict.fromkeys((*a.mean_of, *b.mean_of)))
            notes.append(f"{row.task}: {scores[0]} and {scores[1]} in ad2 report, the mean of its columns ({columns})")
    return notes


def _p(value: float | None) -> str:
    if value is None:
        return cell_text.NONE
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _by_note(title: str, of_tasks: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """One line per note with the tasks that have it."""
    found: dict[str, list[str]] = {}
    for task, notes in of_tasks:
        for note in notes:
            found.setdefault(note, []).append(task)
    return [
        f"{title}, {'all tasks' if 1 < len(tasks) == len(of_tasks) else ', '.join(tasks)}: {note}"
        for note, tasks in found.items()
    ]


def _differences(
    a: TaskSummary, b: TaskSummary, other_judge: bool, required_fields: Sequence[str], as_asked: bool
) -> list[str]:
    """as_asked: whether the way of asking must be the same."""
    found = []
    for field in required_fields:
        if a.data.get(field) != b.data.get(field):
            found.append(f"data {field} {str(a.data.get(field))[:12]} against {str(b.data.get(field))[:12]}")
    if a.judge != b.judge:
        found.append(f"judge {a.judge or 'none'} against {b.judge or 'none'}")
    elif a.judge and other_judge:
        found.append(f"judge {a.judge} with other rubrics or settings")
    if as_asked and a.asked != b.asked:
        found.append(f"asked as {a.asked} against {b.asked}")
    return found


def _rows(
    run_a: RunSummary, run_b: RunSummary, pair: tuple[TaskSummary, TaskSummary], differences: Sequence[str], seed: int
) -> list[TaskComparison]:
    """One row; of tasks whose samples have no score, since the judge cannot mark all columns, one per marked column."""
    sides = ((run_a, pair[0]), (run_b, pair[1]))
    rows = []
    for columns in _column_pairs(sides):
        a, b = (scores_of(*side, column) for side, column in zip(sides, columns, strict=True))
        named = " / ".join(dict.fromkeys(column for column in columns if column))
        rows.append(_row(pair, a, b, f" ({named})" if named else "", differences, seed))
    return [row for row in rows if row.n] or rows[:1]


def _row(
    pair: tuple[TaskSummary, TaskSummary], a: SampleScores, b: SampleScores, suffix: str, differences: Sequence[str],
    seed: int,
) -> TaskComparison:  # fmt: skip
    name = " / ".join(dict.fromkeys(task.name for task in pair)) + suffix
    makers = dict.fromkeys(t.maker for t in pair if t.maker)
    notes = list(differences)
    if pair[0].frame != pair[1].frame:  # each model answers in its own: a difference is named, not refused
        notes.append(f"coordinates in the frame {pair[0].frame} against {pair[1].frame}")
    notes += [f"distractors made by {maker}" for maker in makers]
    if pair[0].name != pair[1].name:
        a, b, unit = _matched(a, b)
        notes += unit
    shared = a.scores.keys() & b.scores.keys()
    left = {i: v / 100 for i in shared if (v := a.scores[i]) is not None and b.scores[i] is not None}
    right = {i: v / 100 for i in left if (v := b.scores[i]) is not None}
    counts = {
        "only_a": len(a.scores) - len(shared), "only_b": len(b.scores) - len(shared),
        "unscored": len(shared) - len(left),
    }  # fmt: skip
    if not left:
        reason = "no sample that both runs scored"
        return TaskComparison(
            name, 0, **counts, mean_a=None, mean_b=None, difference=None, ci=None, p_value=None, p_holm=None,
            test="none", notes=(*notes, reason),
        )  # fmt: skip
    # As fractions: McNemar's test needs 0 and 1.
    clusters = {**b.clusters, **a.clusters}
    result = paired_comparison.paired(left, right, clusters=clusters, bounds=FRACTION, seed=seed)
    ci = (100 * result.ci.low, 100 * result.ci.high) if result.ci else None
    return TaskComparison(
        name, result.n, **counts, mean_a=100 * result.mean_a, mean_b=100 * result.mean_b,
        difference=100 * result.difference, ci=ci, p_value=result.p_value, p_holm=None, test=result.test,
        clusters=result.units, notes=tuple(notes),
    )  # fmt: skip


# --- scores of samples ---


@dataclass(frozen=True, slots=True)
class SampleScores:
    """Scores in percent (None: unscored) and clusters by id: of samples, or of questions with circular evaluation."""

    scores: Mapping[str, float | None]
    clusters: Mapping[str, str]

    def of_questions(self) -> SampleScores:
        """The same with the ids of the questions that chains of thought were made from."""
        names = {key: _CHAIN.sub("", key) for key in self.scores}
        if len(set(names.values())) < len(names):
            return self
        return SampleScores({names[k]: v for k, v in self.scores.items()}, {names[k]: self.clusters[k] for k in names})

    def by_image(self) -> SampleScores:
        """The mean of the scored samples of each cluster; None for a cluster without any."""
        values: dict[str, list[float]] = {}
        for key, score in self.scores.items():
            values.setdefault(self.clusters[key], []).extend([] if score is None else [score])
        means = {cluster: sum(of) / len(of) if of else None for cluster, of in values.items()}
        return SampleScores(means, {cluster: cluster for cluster in means})


def scores_of(run: RunSummary, task: TaskSummary, column: str | None = None) -> SampleScores:
    """Read the scores of a task's samples, or their values in one `column`."""
    scores: dict[str, float | None] = {}
    clusters: dict[str, str] = {}
    missing: dict[str, int] = {}  # rotations of a question not read yet
    for row in sample_rows(run, task.name):
        key, score = str(row["id"]), _score(row, column)
        if task.circular:  # right in all rotations; None if one of them is None
            key = key.rpartition("#")[0]
            options = record_of(row).get("options")
            rotations = len(options) if isinstance(options, list) else 0  # one per option
            missing[key] = missing.get(key, rotations) - 1
            before = scores.get(key, score)
            score = None if score is None or before is None else min(score, before)
        scores[key] = score
        clusters[key] = str(row.get("cluster") or key)
    return SampleScores({key: score for key, score in scores.items() if not missing.get(key)}, clusters)


def _column_pairs(sides: Sequence[tuple[RunSummary, TaskSummary]]) -> Iterator[tuple[str | None, ...]]:
    """The values to compare of two sides: their scores (None), then the columns of a side that has no score at all.

    A judge that can mark only some columns of a mean leaves its samples without a score.
    """
    yield None, None
    bare = [all(score is None for score in scores_of(*side).scores.values()) for side in sides]
    names = (task.mean_of for (_, task), without in zip(sides, bare, strict=True) if without)
    for column in dict.fromkeys(column for columns in names for column in columns):
        yield tuple(column if without else None for without in bare)


def _matched(a: SampleScores, b: SampleScores) -> tuple[SampleScores, SampleScores, tuple[str, ...]]:
    """The scores of two different tasks with common ids, and a note if these are images."""
    by_question = a.of_questions(), b.of_questions()
    if by_question[0].scores.keys() & by_question[1].scores.keys():
        return *by_question, ()
    return a.by_image(), b.by_image(), (BY_IMAGE,)


def _score(row: Mapping[str, Any], column: str | None) -> float | None:
    values = row.get("values")
    found = row.get("score") if column is None else values.get(column) if isinstance(values, Mapping) else None
    if not is_number(found):
        return None
    return float(found) if column is None else 100 * float(found)
