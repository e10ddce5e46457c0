"""Scoring of a task: judge the samples in chunks, write them, and summarise them in a table.

The table has one cell per column under both rules (official, strict), the mean of the part, intervals, counts and
breakdowns; its layout is that of docs/architecture.md (summary.json). All figures are percentages. Only a short summary
per sample stays in memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.coordinates import FRAMES, LIMITS, Frame, InputResizing
from lmms_eval_ad2.core.records import BREAKDOWNS, Answer, Unscored
from lmms_eval_ad2.judge.base import Judge
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.scoring import distractors, judge_ratings, question_scores
from lmms_eval_ad2.scoring.judge_ratings import repeats_block
from lmms_eval_ad2.scoring.metrics import answer_metrics
from lmms_eval_ad2.scoring.metrics.caption import caption_scores, in_language
from lmms_eval_ad2.scoring.metrics.intervals import (
    METHOD,
    NOT_NEGATIVE,
    PERCENT,
    Bounds,
    ConfidenceInterval,
    mean_interval,
    mean_of_means_interval,
)
from lmms_eval_ad2.scoring.result_files import sample_writer
from lmms_eval_ad2.scoring.sample import ScoredSample, input_size, target_of
from lmms_eval_ad2.scoring.sample_summary import SampleSummary
from lmms_eval_ad2.scoring.score_columns import DISTRACTOR_BENCHMARK, LOWER_IS_BETTER, mean_columns
from lmms_eval_ad2.scoring.variant import TaskVariant

CHUNK = 4096  # samples judged together: many more than an endpoint processes at once, few enough for memory

Cell = dict[str, Any]
JUDGED_FORMS = ("vqa", "chain")


def score_task(
    samples: Iterable[ScoredSample], task: str, variant: TaskVariant, judge: Callable[[], Judge], folder: Path | None,
    *, progress: bool = True, resizing: InputResizing | None = None,
) -> tuple[dict[str, Any], list[SampleSummary]]:  # fmt: skip
    """Judge the pending samples, write samples/<task>.jsonl below `folder` (None: no file), return table and lines.

    `judge` is called only if a task has samples for it. `resizing`: as given to `score_sample`.
    """
    lines: list[SampleSummary] = []
    label = None
    check = FrameCheck(variant, resizing)
    with sample_writer(folder, task) as write:
        source = iter(samples)
        while chunk := list(islice(source, CHUNK)):
            if any(s.pending for s in chunk):
                judge_ratings.apply(chunk, judge(), progress=progress)
                label = judge().label
            for sample in chunk:
                write(sample)
                lines.append(SampleSummary.of(sample, variant))
                check.add(sample)
    if label is None and variant.judge and any(line.form in JUDGED_FORMS for line in lines):
        label = judge().label  # of answers that all failed too: their scores stay in the judge's columns
    table = summarise(lines, variant, label)
    coordinates = check.summary()
    return table | ({"coordinates": coordinates} if coordinates else {}), lines


def summarise(asked: Sequence[SampleSummary], variant: TaskVariant, judge: str | None) -> dict[str, Any]:
    """Return the table of one task. `asked`: one line per answer; `judge`: label of the judge, if one was used.

    With circular evaluation, scores and groups are over questions (all rotations right or not); the counts at the top,
    the reasons and the column "accuracy" are over answers.
    """
    groups = question_scores.whole_questions(asked) if variant.circular else []
    lines = [question_scores.circular(group) for group in groups] if variant.circular else asked
    by_column, order = _lines_by_column(lines, variant)
    rest = sorted(set(by_column) - set(order))
    columns = {c: _column_cell(by_column[c], c, judge) for c in [*order, *rest]} if variant.judge else {}
    if variant.circular:
        columns |= _circular_columns(asked, groups)
    repeats = repeats_block(by_column, order) if variant.judge else None
    questions = question_scores.questions_of(asked)
    used = judge if variant.judge and any(x.form in JUDGED_FORMS for x in lines) else None
    grouped = lines if variant.judge else ()  # n-gram metrics are defined for the corpus, not for samples: no groups
    return {
        "benchmark": variant.benchmark,
        "part": variant.part,
        "lang": variant.lang,
        "variant": variant.changes(),
        "captions": list(variant.captions),
        **_counts(asked, lambda line: line.status),
        "reasons": dict(Counter(f"{x.status}:{x.reason}" for x in asked if x.status != "ok").most_common()),
        "score": {
            **_mean({c: columns[c] for c in order if c in columns}, by_column),
            **_counts(lines, _own_status),
            "judge": used,
            "columns": order,
            "missing_columns": [c for c in _mean_columns(lines, variant) if c not in by_column],
        },
        "columns": columns | _captions(lines, variant),
        "subtasks": _grouped(grouped, None, judge),
        "breakdowns": {k: cells for k in BREAKDOWNS if (cells := _grouped(grouped, k, judge))},
        "error_kinds": dict(Counter(str(x.kind) for x in distractors.wrong(asked))),
        "offered_kinds": distractors.kind_table(asked) if variant.benchmark == DISTRACTOR_BENCHMARK else {},
        "position": question_scores.position(groups, len(asked)) if variant.circular else None,
        "judge": used,
        "interval_method": METHOD,
        **({"judge_repeats": repeats} if repeats else {}),
        **({"replies": _replies(questions)} if questions else {}),
    }


def _mean_columns(lines: Sequence[SampleSummary], variant: TaskVariant) -> tuple[str, ...]:
    """The columns of the task's mean."""
    if variant.circular:
        return (question_scores.CIRCULAR,)
    chained = any(x.form == "chain" for x in lines)
    return mean_columns(variant.benchmark, "cot" if chained else variant.part)


def _lines_by_column(
    lines: Sequence[SampleSummary], variant: TaskVariant
) -> tuple[dict[str, list[SampleSummary]], list[str]]:
    """Return the lines of each column, and the names of the columns in the mean, in order."""
    by_column: dict[str, list[SampleSummary]] = defaultdict(list)
    for line in lines:
        for column, _, _ in line.marks:
            by_column[column].append(line)
    return by_column, [c for c in _mean_columns(lines, variant) if c in by_column]


def _circular_columns(asked: Sequence[SampleSummary], groups: Sequence[Sequence[SampleSummary]]) -> dict[str, Cell]:
    """Additional columns of circular evaluation: consistency over questions, accuracy over all answers."""
    same = [question_scores.consistency(group) for group in groups]
    cells = {question_scores.CONSISTENCY: _column_cell(same, question_scores.CONSISTENCY, None)} if same else {}
    return cells | {"accuracy": _column_cell(asked, "accuracy", None)}


def _replies(questions: Sequence[Sequence[SampleSummary]]) -> dict[str, Any]:
    """The block "replies" of a task whose questions were asked several times: shares of the questions, in percent."""
    right = [line for question in questions if (line := question_scores.always_right(question)) is not None]
    lines = {
        question_scores.ALIKE: [question_scores.alike(question) for question in questions],
        question_scores.ALWAYS_RIGHT: right,
    }
    shares = {name: _column_cell(of, name, None) for name, of in lines.items() if of}
    return {"per_question": max(map(len, questions)), "questions": len(questions), **shares}


# (official | None, strict) of a line, as percentages
Mark = Callable[[SampleSummary], tuple[float | None, float]]


def _column(name: str) -> Mark:
    """Return a function that gives a line's marks in the column `name`."""

    def mark(line: SampleSummary) -> tuple[float | None, float]:
        official, strict = next((o, s) for c, o, s in line.marks if c == name)
        return (None if official is None else 100 * official), 100 * strict

    return mark


def _own_score(line: SampleSummary) -> tuple[float | None, float]:
    """A line's score: the mean over its columns that are scored (of a chain four)."""
    strict = [v for c, _, v in line.marks if c in line.scored_in]
    return line.score, 100 * sum(strict) / len(strict)


def _column_cell(lines: Sequence[SampleSummary], name: str, judge: str | None) -> Cell:
    # An error rate may exceed 100 %.
    bounds = NOT_NEGATIVE if name in LOWER_IS_BETTER else PERCENT
    return cell(lines, _column(name), judge, lambda line: line.status_in([name]), bounds)


def cell(
    lines: Sequence[SampleSummary], mark: Mark, judge: str | None, status: Status, bounds: Bounds = PERCENT
) -> Cell:
    """One cell over `lines`, in percent. `clusters`: the number of clusters that the interval is computed over."""
    values = [v for x in lines if (v := mark(x)[0]) is not None]
    means, clusters = _official(lines, mark)
    strict = [mark(x)[1] for x in lines]
    return {
        "official": _round(sum(values) / len(values)) if values else None,
        "strict": _round(sum(strict) / len(strict)) if strict else None,
        "ci": _span(mean_interval(means, clusters=clusters, bounds=bounds)),
        "clusters": len(set(clusters)),
        **_counts(lines, status),
        "judge": judge if any(x.form in JUDGED_FORMS for x in lines) else None,
    }


def _official(lines: Sequence[SampleSummary], mark: Mark) -> tuple[list[float], list[str]]:
    """The official marks of the scored lines, and their clusters, for an interval.

    Of several replies to a question the mean: repeated replies that are equal must not narrow the interval.
    """
    known = [(x, value) for x in lines if (value := mark(x)[0]) is not None]
    if not known or known[0][0].reply is None:
        return [value for _, value in known], [x.cluster for x, _ in known]
    by_question: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line, value in known:
        if line.reply is not None:
            by_question[line.reply.question, line.cluster].append(value)
    return [sum(values) / len(values) for values in by_question.values()], [cluster for _, cluster in by_question]


def _mean(cells: Mapping[str, Cell], by_column: Mapping[str, Sequence[SampleSummary]]) -> Cell:
    """The part's score: the unweighted mean of its columns, as in AD2-Bench's tables."""
    official = [c["official"] for c in cells.values() if c["official"] is not None]
    strict = [c["strict"] for c in cells.values() if c["strict"] is not None]
    full = bool(cells) and len(official) == len(cells)
    # Columns share images (a chain's four metrics all of them), so the jackknife omits a cluster in all at once.
    known = [_official(by_column[c], _column(c)) for c in cells] if full else []
    interval = mean_of_means_interval([v for v, _ in known], clusters=[c for _, c in known], bounds=PERCENT)
    return {
        "official": _round(sum(official) / len(official)) if full else None,
        "strict": _round(sum(strict) / len(strict)) if strict else None,
        "ci": _span(interval),
        "clusters": len({cluster for _, clusters in known for cluster in clusters}),
    }


def _span(interval: ConfidenceInterval | None) -> list[float] | None:
    return None if interval is None else [_round(interval.low), _round(interval.high)]


def _round(value: float) -> float:
    return round(value, 6)


Status = Callable[[SampleSummary], str]


def _own_status(line: SampleSummary) -> str:
    return line.status_in(line.scored_in)


def _counts(lines: Sequence[SampleSummary], status_of: Status) -> dict[str, int]:
    """`n_partly`, lines of which a judge rated a part, only if there are any."""
    status = Counter(map(status_of, lines))
    partly = {"n_partly": status["partly"]} if status["partly"] else {}
    return {
        "n": len(lines),
        "n_ok": status["ok"],
        "n_unparsed": status["unparsed"],
        "n_unscored": status["unscored"],
        **partly,
    }


def _grouped(lines: Iterable[SampleSummary], breakdown: str | None, judge: str | None) -> dict[str, Cell]:
    """One cell per group, over the samples' scores (micro mean, as for CODA-LM's region classes).

    breakdown: one of records.BREAKDOWNS; None: by sub-task.
    """
    groups: dict[str, list[SampleSummary]] = defaultdict(list)
    for line in lines:
        name = line.subtask if breakdown is None else dict(line.groups).get(breakdown)
        if name and line.marks:
            groups[name].append(line)
    return {name: cell(group, _own_score, judge, _own_status) for name, group in sorted(groups.items())}


def _captions(lines: Sequence[SampleSummary], variant: TaskVariant) -> dict[str, Cell]:
    """Corpus n-gram metrics of the free-text answers (x100, CODA-LM Table 6, AutoDrive-QA Table 1): no interval."""
    free = [x for x in lines if x.form == "vqa"]
    pairs = {x.id: x.text for x in free if x.text is not None}
    if not pairs:
        return {}
    answers = {k: answer for k, (answer, _) in pairs.items()}
    references: dict[str, list[str]] = {k: [reference] for k, (_, reference) in pairs.items()}
    kept = in_language(references, answers, variant.lang)
    foreign = len(pairs) - len(kept)
    results = caption_scores(
        {k: references[k] for k in pairs if k in kept}, {k: answers[k] for k in pairs if k in kept},
        variant.captions, lang=variant.lang,
    )  # fmt: skip
    left_out = f"{foreign} of {len(pairs)} answers are not compared: answer or reference is not in Chinese"
    cells: dict[str, Cell] = {}
    for name, result in results.items():
        value = None if isinstance(result, Unscored) else _round(100 * result.value)
        counts = _counts(free, _own_status)
        cells[name] = {"official": value, "strict": value, "ci": None, "clusters": None, **counts, "judge": None}
        why = f"{result.reason}: {result.detail}" if isinstance(result, Unscored) else result.note
        if notes := "; ".join(filter(None, (why, left_out if foreign else ""))):
            cells[name]["reason"] = notes
        if foreign:
            cells[name]["n_foreign"] = foreign
    return cells


class FrameCheck:
    """Scores of the points and boxes of one task in every coordinate frame: the same replies, read in each.

    A model that answers in another frame than it is read in gets boxes near 0, which looks like a bad model. The
    figures are written beside the scores and warned of (coordinates.misfit_warnings); they never replace them.
    resizing: as in `score_sample`.
    """

    def __init__(self, variant: TaskVariant, resizing: InputResizing | None) -> None:
        self._variant, self._resizing = variant, resizing
        self._counts: dict[str, int] = {}
        self._sums: dict[str, dict[Frame, float]] = {}

    def add(self, sample: ScoredSample) -> None:
        """Add a sample; one that is no point or box, or that could not be scored, is left out."""
        if sample.form not in LIMITS or sample.status == "unscored" or not isinstance(sample.raw, str):
            return
        record = sample.record
        target = target_of(record, sample.form, self._variant.lang)
        if not isinstance(target, Answer):
            return
        size = input_size(record, self._variant, self._resizing)
        metric: Any = answer_metrics.iou if sample.form == "box" else answer_metrics.location_score
        self._counts[sample.form] = self._counts.get(sample.form, 0) + 1
        sums = self._sums.setdefault(sample.form, dict.fromkeys(FRAMES, 0.0))
        for frame in FRAMES:
            read = parse(sample.raw, sample.form, image_size=record.image_size, frame=frame, model_input=size)
            if isinstance(read, Answer):
                sums[frame] += float(metric(read.value, target.value))

    def summary(self) -> dict[str, Any] | None:
        """The block `coordinates` of the task's table; None without points and boxes.

        frame: as in --frame. model_input: how the model resizes images (InputResizing.to_json), None if not known.
        by_frame: form -> {n, scores: frame -> mean in percent, unparsed replies as 0}.
        """
        if not self._counts:
            return None
        used = self._variant.resizing() or self._resizing
        return {
            "frame": self._variant.frame_text,
            "model_input": used.to_json() if used else None,
            "by_frame": {
                form: {"n": n, "scores": {f: round(100 * total / n, 6) for f, total in self._sums[form].items()}}
                for form, n in self._counts.items()
            },
        }
