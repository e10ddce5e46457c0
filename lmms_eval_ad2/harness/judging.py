"""Scoring of a task after all its answers are gathered: judge them, build the table, report the columns to lmms-eval.

Runs on rank 0 only. No sample raises an error: one that cannot be scored is counted. A column without a score is not
reported to lmms-eval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.harness import run
from lmms_eval_ad2.harness.hooks import METRIC, prompt_of, read_rounds
from lmms_eval_ad2.harness.judge_images import with_images
from lmms_eval_ad2.harness.task_data import TASKS, LoadedTask, task_settings
from lmms_eval_ad2.scoring import pipeline, result_files
from lmms_eval_ad2.scoring.derived_records import reply_record
from lmms_eval_ad2.scoring.sample import ScoredSample, score_sample
from lmms_eval_ad2.scoring.sample_summary import SampleSummary
from lmms_eval_ad2.scoring.score_columns import LOWER_IS_BETTER

# Shards of an evaluation run: `--shard i/N` of `ad2 eval`, or AD2_SHARD for lmms-eval's own commands.
#
# A question belongs to the same shard whatever the limit, offset, order of tasks and number of ranks are (shards.py);
# the rotations of a question stay together. All documents are loaded, since baselines and provenance need them; only
# those of the shard are asked.


def in_shard(task: str, row: int) -> bool:
    """Whether a row of one of our tasks belongs to this run."""
    shard = run.current().shard
    return shard is None or shard.has(TASKS[task].question_of(row))


def wrap_requests(original: Callable[..., Any]) -> Callable[..., Any]:
    def build_all_requests(self: Any, *, limit: Any = None, offset: int = 0, **kwargs: Any) -> None:
        original(self, limit=limit, offset=offset, **kwargs)
        name, current = self.config.task, run.current()
        if current.shard is None or name not in TASKS:
            return
        rows = range(len(self.eval_docs_no_media))[offset or 0 :]
        asked = len(rows[: int(limit)] if limit else rows)
        current.selected[name] = asked * current.repeats  # each reply is a sample
        self._instances = _of_shard(name, self._instances)

    return build_all_requests


def _of_shard(task: str, instances: list[Any]) -> list[Any]:
    """The requests of this shard. If there are none, one marked as padding: lmms-eval cannot handle an empty task."""
    kept = [instance for instance in instances if in_shard(task, instance.doc_id)]
    if kept:
        return kept
    padding = instances[0]
    padding.metadata = {**(padding.metadata or {}), "__padding_only__": True}
    return [padding]


FILTER = "none"


def wrap_aggregate(original: Callable[..., Any]) -> Callable[..., Any]:
    def calculate_aggregate_metric(self: Any, bootstrap_iters: int = 100000) -> None:
        payloads = self.sample_metrics.pop((METRIC, FILTER), None)
        if payloads is None or task_settings(self.task) is None:
            original(self, bootstrap_iters=bootstrap_iters)
            return
        payloads = [p for p in payloads if in_shard(self.task_name, p["row"])]  # else padding of an empty shard
        self.logged_samples[:] = [x for x in self.logged_samples if in_shard(self.task_name, x[METRIC]["row"])]
        if "bypass" in self.task.aggregation():  # --predict_only: answers without scores
            return
        publish(self, *score(self.task_name, payloads))

    return calculate_aggregate_metric


def samples_of(task: LoadedTask, payloads: Sequence[dict[str, Any]]) -> Iterator[ScoredSample]:
    """Yield scored samples in the order of the data set, each reply once (rank padding can repeat a row)."""
    answers = {p["row"]: p["raw"] for p in reversed(payloads)}
    for row in sorted(answers):
        asked = Record.from_json(task.records[row].as_py())
        prompt = prompt_of(asked, task)
        texts = answers[row] if isinstance(answers[row], list) else [answers[row]]
        for number, text in enumerate(texts, 1):
            record = reply_record(asked, number, of=len(texts)) if len(texts) > 1 else asked
            raw = read_rounds(text) if task.variant.rounds else text
            sample = score_sample(record, raw, task.variant, task.name, prompt, run.current().resizing)
            # Of all replies, so that a merge can put them in order.
            sample.row = row * len(texts) + number - 1 if run.current().shard else None
            yield sample


def score(name: str, payloads: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[SampleSummary]]:
    """Judge and summarise one task; its samples are written to the run's folder."""
    current, task = run.current(), TASKS[name]
    samples = with_images(samples_of(task, payloads), current.judge(), task.image_root, task.variant)
    table, lines = pipeline.score_task(
        samples, name, task.variant, current.judge, current.folder, resizing=current.resizing
    )
    table["data"] = task.data
    if current.shard:
        table[result_files.SELECTED] = current.selected[name]
    current.tables[name] = table
    return table, lines


def publish(output: Any, table: dict[str, Any], lines: Sequence[SampleSummary]) -> None:
    """Report the columns as lmms-eval metrics; it uses `sample_metrics` for standard errors and group sizes."""
    columns = {"score": table["score"], **table["columns"]}
    values = {name: [100 * v for x in lines for c, v, _ in x.marks if c == name and v is not None] for name in columns}
    # With circular evaluation the score is over questions but `lines` are answers: no standard error.
    rotated = table["position"] is not None
    values["score"] = [] if rotated else [x.score for x in lines if x.score is not None]
    output.sample_metrics.clear()
    for name, cell in columns.items():
        if cell["official"] is not None:
            _metric(output, name, cell["official"], values[name])
    if table["score"]["strict"] is not None:
        _metric(output, "score_strict", table["score"]["strict"], [])
    _metric(output, "unparsed", table["n_unparsed"], [])
    _metric(output, "unscored", table["n_unscored"], [])
    if "n_partly" in table:
        _metric(output, "partly_scored", table["n_partly"], [])
    output.sample_len = len(lines)
    directions = output.task.higher_is_better()
    directions |= {name: name not in LOWER_IS_BETTER for name in columns}
    directions |= {"unparsed": False, "unscored": False, "partly_scored": False, "score_strict": True}
    _fill_log(output, lines)


def _fill_log(output: Any, lines: Sequence[SampleSummary]) -> None:
    """For --log_samples: replace the raw answer by its status and scores; of several replies, by a list of them."""
    rows = sorted({logged[METRIC]["row"] for logged in output.logged_samples})
    replies = len(lines) // len(rows) if rows else 1
    by_row = {row: lines[i * replies : (i + 1) * replies] for i, row in enumerate(rows)}
    for logged in output.logged_samples:
        found = [
            {
                "id": line.id,
                "status": line.status,
                "reason": line.reason,
                "score": line.score,
                "values": {c: v for c, v, _ in line.marks},
            }
            for line in by_row[logged[METRIC]["row"]]
        ]
        logged[METRIC] = found if replies > 1 else found[0]


def _metric(output: Any, name: str, value: float, values: list[float]) -> None:
    output.sample_metrics[(name, FILTER)] = values
    output.agg_metrics[f"{name},{FILTER}"] = value
    # lmms-eval would bootstrap its own aggregation; our interval is printed instead (wrap_print).
    output.agg_metrics[f"{name}_stderr,{FILTER}"] = "N/A"


def wrap_print(original: Callable[..., Any]) -> Callable[..., Any]:
    def prepare_print_tasks(task_dict: Any, results: Any, *args: Any, **kwargs: Any) -> Any:
        tasks, groups = original(task_dict, results, *args, **kwargs)
        known = run.current().tables
        for name, table in known.items():
            if name in tasks:
                _annotate(tasks[name], table)
        for group, members in _group_members(task_dict).items():
            missing = [m for m in members if m in known and known[m]["score"]["official"] is None]
            for row in (tasks.get(group), groups.get(group)):
                if row is not None and missing:
                    _remove_mean(row, missing)
        return tasks, groups

    return prepare_print_tasks


def _annotate(row: dict[str, Any], table: dict[str, Any]) -> None:
    """Add our intervals and the judge's name as text, which lmms-eval prints."""
    for column, cell in {"score": table["score"], **table["columns"]}.items():
        if cell["ci"]:
            row[f"{column} 95% CI,{FILTER}"] = f"{cell['ci'][0]:.2f} to {cell['ci'][1]:.2f}"
    if result_files.SELECTED in table:
        row[f"shard,{FILTER}"] = str(run.current().shard)
    if table["judge"]:
        row[f"judge,{FILTER}"] = table["judge"]
    if (frame := (table.get("coordinates") or {}).get("frame", "auto")) != "auto":
        row[f"coordinate frame,{FILTER}"] = frame
    if maker := table.get("data", {}).get("maker"):
        row[f"distractors made by,{FILTER}"] = maker


def _group_members(task_dict: Any) -> dict[str, list[str]]:
    from lmms_eval.evaluator_utils import get_subtask_list

    return {str(group): list(members) for group, members in get_subtask_list(task_dict).items() if members}


def _remove_mean(row: dict[str, Any], missing: Sequence[str]) -> None:
    """Replace the group's mean by a text: lmms-eval would average only the parts that have a score."""
    for key in [k for k in row if k.split(",")[0] in ("score", "score_stderr", "score_stderr_clt")]:
        del row[key]
    row[f"score,{FILTER}"] = f"not scored: {', '.join(missing)}"
