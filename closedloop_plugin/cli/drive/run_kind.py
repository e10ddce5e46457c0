"""The run kind of `ad2 report`: run folders of `ad2 drive run` and official result files, in any combination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from closedloop_plugin.report import results
from closedloop_plugin.report.unread_replies import unread
from lmms_eval_ad2.core.plugins import RunKind

if TYPE_CHECKING:
    from lmms_eval_ad2.report.table import ReportSection


def _report(*args: Any, **options: Any) -> ReportSection:
    from closedloop_plugin.report.drive_section import report

    return report(*args, **options)


def _compare(*args: Any, **options: Any) -> ReportSection:
    from closedloop_plugin.report.comparison import compare

    return compare(*args, **options)


def _merge(*args: Any, **options: Any) -> str:
    from closedloop_plugin.report.score_text import merge

    return merge(*args, **options)


RUN_KIND = RunKind(
    name="drive",
    about="a run folder of `ad2 drive run` (run.json and episodes.jsonl) or an official Bench2Drive result file",
    recognises=results.is_results,
    find=results.find,
    report=_report,
    compare=_compare,
    unread=unread,
    parts=results.parts,
    merge=_merge,
)
