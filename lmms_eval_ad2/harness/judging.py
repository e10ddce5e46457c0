"""All answers of a task are known: judge them in one batch, make the table, hand the columns to lmms-eval.

Runs on rank 0 only, after gathering. Never raises on account of a sample: what cannot be
scored is counted. lmms-eval gets numbers where there are numbers, and no entry where there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lmms_eval_ad2.harness import run
from lmms_eval_ad2.harness.data import TASKS, task_settings
from lmms_eval_ad2.harness.hooks import METRIC
from lmms_eval_ad2.scoring import judged
from lmms_eval_ad2.scoring.layout import LOWER_IS_BETTER
from lmms_eval_ad2.scoring.sample import Sample
from lmms_eval_ad2.scoring.table import summarise

FILTER = "none"


def wrap_aggregate(original: Callable[..., Any]) -> Callable[..., Any]:
    def calculate_aggregate_metric(self: Any, bootstrap_iters: int = 100000) -> None:
        payloads = self.sample_metrics.pop((METRIC, FILTER), None)
        if payloads is None or task_settings(self.task) is None:
            original(self, bootstrap_iters=bootstrap_iters)
            return
        if "bypass" in self.task.aggregation():  # --predict_only: answers without scores, as asked
            return
        samples = collect(payloads)
        table = score_task(self.task_name, samples)
        publish(self, table, samples)

    return calculate_aggregate_metric


def collect(payloads: Sequence[dict[str, Any]]) -> list[Sample]:
    """Samples by id, once each: padding of ranks can bring one twice."""
    unique: dict[str, Sample] = {}
    for payload in payloads:
        unique.setdefault(payload["id"], Sample.from_message(payload))
    return list(unique.values())


def score_task(name: str, samples: list[Sample]) -> dict[str, Any]:
    """Judge what waits, make the table, keep both for the result files."""
    current = run.current()
    info = TASKS[name]
    judge = current.judge() if any(s.pending for s in samples) else None
    if judge is not None:
        judged.apply(samples, judge)
    table = summarise(samples, info.variant, judge.label if judge else None, seed=current.seed)
    table["data"] = info.data
    current.keep(name, table, samples)
    return table


def publish(output: Any, table: dict[str, Any], samples: Sequence[Sample]) -> None:
    """Columns as lmms-eval's metrics. Its later steps read `sample_metrics` for standard errors and group sizes."""
    columns = {"score": table["score"], **table["columns"]}
    output.sample_metrics.clear()
    for name, cell in columns.items():
        if cell["official"] is None:
            continue
        _metric(output, name, cell["official"], _scores(samples, name))
    if table["score"]["strict"] is not None:
        _metric(output, "score_strict", table["score"]["strict"], [])
    _metric(output, "unparsed", table["n_unparsed"], [])
    _metric(output, "unscored", table["n_unscored"], [])
    output.sample_len = len(samples)
    directions = output.task.higher_is_better()
    for name in columns:
        directions[name] = name not in LOWER_IS_BETTER
    directions |= {"unparsed": False, "unscored": False, "score_strict": True}
    rows = {s.id: s for s in samples}
    for logged in output.logged_samples:
        payload = logged.get(METRIC)
        if isinstance(payload, dict) and payload.get("id") in rows:
            logged[METRIC] = {k: v for k, v in rows[payload["id"]].to_dict().items() if k != "record"}


def _scores(samples: Sequence[Sample], column: str) -> list[float]:
    if column == "score":
        return [s.score for s in samples if s.score is not None]
    return [100 * v for s in samples if (v := s.values.get(column)) is not None]


def _metric(output: Any, name: str, value: float, values: list[float]) -> None:
    output.sample_metrics[(name, FILTER)] = values
    output.agg_metrics[f"{name},{FILTER}"] = value
    # lmms-eval would bootstrap its own aggregation; our interval stands beside (wrap_print).
    output.agg_metrics[f"{name}_stderr,{FILTER}"] = "N/A"


def wrap_print(original: Callable[..., Any]) -> Callable[..., Any]:
    def prepare_print_tasks(task_dict: Any, results: Any, *args: Any, **kwargs: Any) -> Any:
        tasks, groups = original(task_dict, results, *args, **kwargs)
        for name, table in run.current().tables.items():
            row = tasks.get(name)
            if row is None:
                continue
            for column, cell in {"score": table["score"], **table["columns"]}.items():
                if cell["ci"]:
                    row[f"{column} 95% CI,{FILTER}"] = f"{cell['ci'][0]:.2f} to {cell['ci'][1]:.2f}"
            if table["judge"]:
                row[f"judge,{FILTER}"] = table["judge"]
        return tasks, groups

    return prepare_print_tasks
