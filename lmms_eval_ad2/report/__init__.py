"""Reads the result files of runs (docs/architecture.md) and shows them: tables, a page, a comparison of two."""

from lmms_eval_ad2.report.runs import Cell, Run, Task, load, unfinished

__all__ = ["Cell", "Run", "Task", "load", "unfinished"]
