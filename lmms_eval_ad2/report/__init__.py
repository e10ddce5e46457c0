"""Reports on finished runs: loading result files (docs/architecture.md), tables, HTML page, comparison of two runs."""

from lmms_eval_ad2.report.floors import with_floors
from lmms_eval_ad2.report.runs import RunSummary, ScoreCell, TaskSummary, holds_runs, load, unfinished

__all__ = ["RunSummary", "ScoreCell", "TaskSummary", "holds_runs", "load", "unfinished", "with_floors"]
