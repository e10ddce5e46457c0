"""Reads the result files of runs (docs/architecture.md) and shows them: tables, a page, a comparison of two."""

from lmms_eval_ad2.report.runs import RunSummary, ScoreCell, TaskSummary, load, unfinished

__all__ = ["RunSummary", "ScoreCell", "TaskSummary", "load", "unfinished"]
