"""The HTML report: one self-contained page with tables, plots, and the worst samples with their images.

The page loads nothing: styles and plots are inline, images are embedded JPEGs. Texts of models, data sets and judges
are untrusted; the template escapes them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.report import cell_text, tables
from lmms_eval_ad2.report.breakdowns import breakdown_grids
from lmms_eval_ad2.report.floors import COMPUTED
from lmms_eval_ad2.report.grid import ResultGrid, grids
from lmms_eval_ad2.report.page import plots, section_plots
from lmms_eval_ad2.report.page.html_page import HtmlPage
from lmms_eval_ad2.report.page.worst_samples import cards
from lmms_eval_ad2.report.published import PublishedTable
from lmms_eval_ad2.report.repeat_grids import repeat_grids
from lmms_eval_ad2.report.runs import FINISH_HINT, RunSummary, TaskSummary
from lmms_eval_ad2.report.sample_row import plain
from lmms_eval_ad2.report.sections import ReportSection
from lmms_eval_ad2.report.table_layouts import ERROR_KINDS, ErrorKinds
from lmms_eval_ad2.storage.code_state import code_label

PAGE = HtmlPage(__package__, "report", "the report page", plots=True)
COMMAND = "ad2 report"
WORST = 4
LEAST = 10  # minimum number of samples for a group to be plotted
PLOTTED = frozenset({"weather", "severity", "period"})


def write(
    runs: Sequence[RunSummary], path: Path, *, published: bool = True, worst_samples: int = WORST,
    unfinished: Sequence[Path] = (), sections: Sequence[ReportSection] = (), title: str = "",
    command: str = COMMAND, kinds: ErrorKinds = "all", own: Mapping[str, PublishedTable] | None = None,
) -> None:  # fmt: skip
    """Write the page of `runs` to `path` (atomically). `unfinished`: folders of runs that were left out; `sections`:
    of other kinds of runs; `title`: of the page, by default the names of all runs; `command`: the one that writes it;
    `kinds`: of wrong options, as in `grid.grids`; `own`: published rows of a user's benchmarks.

    Raises MissingExtra without matplotlib or Jinja2, Ad2Error if the file cannot be written.
    """
    text = page(
        runs, published=published, worst_samples=worst_samples, unfinished=unfinished, sections=sections, title=title,
        command=command, kinds=kinds, own=own,
    )  # fmt: skip
    PAGE.write(Path(path), text)


def page(
    runs: Sequence[RunSummary], *, published: bool = True, worst_samples: int = WORST,
    unfinished: Sequence[Path] = (), sections: Sequence[ReportSection] = (), title: str = "",
    command: str = COMMAND, kinds: ErrorKinds = "all", own: Mapping[str, PublishedTable] | None = None,
) -> str:  # fmt: skip
    """Return the page as HTML text."""
    tabled = [*grids(runs, with_published=published, kinds=kinds, own=own), *repeat_grids(runs)]
    broken = breakdown_grids(runs)
    colours = plots.palette([*tabled, *broken])
    names = [*(run.name for run in runs), *(run.name for section in sections for run in section.runs)]
    values = {
        "title": title or ", ".join(dict.fromkeys(names)),
        "command": command,
        "version": code_label(),
        "written": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "warnings": [*tables.warnings(runs), *map(_left_out, unfinished)],
        "runs": [_about(run) for run in runs],
        "grids": [_table(g, plots.bars(g, colours)) for g in tabled],
        "status": plots.status(runs),
        "error_kinds": plots.error_kinds(runs, tuple(ERROR_KINDS) if kinds == "paper" else ()),
        "breakdowns": [
            _table(g, plots.bars(g, colours, LEAST) if g.key.split("/")[2] in PLOTTED else None) for g in broken
        ],
        "tasks": [_task(run, task) for run in runs for task in run.tasks.values()],
        "worst": cards(runs, worst_samples),
        "sections": [_section(section) for section in sections],
        "legend": f"{tables.LEGEND_PAGE} {tables.about_intervals(runs)}{tables.COUNTED}",
    }
    return PAGE.render(values)


def _section(section: ReportSection) -> dict[str, Any]:
    """The section with the plots and anchors of its tables."""
    colours = section_plots.palette(section)
    blocks = [
        {"table": table, "plot": section_plots.draw(table.plot, colours), "id": f"{section.name}-{n}"}
        for n, table in enumerate([*section.tables, *section.footer], 1)
    ]
    n = len(section.tables)
    return {"section": section, "tables": blocks[:n], "footer": blocks[n:]}


def _left_out(folder: Path) -> str:
    """Name the run by the end of its path: a page may be shared, and the folders above would reveal the machine."""
    return f"{'/'.join(folder.parts[-3:])}: unfinished run, left out; {FINISH_HINT}"


def _about(run: RunSummary) -> dict[str, Any]:
    about = run.about
    judge = about.get("judge") if isinstance(about.get("judge"), Mapping) else {}
    data = {(str(t.data.get("name")), str(t.data.get("split")), str(t.data.get("sha256"))) for t in run.tasks.values()}
    facts = {
        "model": about.get("model"),
        "arguments": about.get("model_args"),
        "judge": run.judge,
        "judge usage": cell_text.usage(counts) if judge and isinstance(counts := judge.get("usage"), Mapping) else None,
        "date": about.get("date"),
        "seed": about.get("seed"),
        "first records only": about.get("limit"),
        "coordinate frame": about.get("frame"),
        "prompts sha256": about.get("prompts_sha256"),
        "rescored from": about.get("rescored_from"),
        "computed from": about.get(COMPUTED),
        "versions": about.get("versions"),
        "data": "; ".join(f"{name} {split} sha256 {sha[:16]}" for name, split, sha in sorted(data)),
    }
    return {
        "name": run.name,
        "role": run.role,
        "facts": {k: plain(v) for k, v in facts.items() if v not in (None, "", {})},
    }


def _table(grid: ResultGrid, plot: str | None) -> dict[str, Any]:
    """Convert a grid for the template; the counts of a value become its tool tip."""
    rows = []
    for row in grid.rows:
        cells = []
        for cell, column in zip(row.cells, grid.columns, strict=True):
            text = cell_text.official(cell, row, column, grid)
            figure, _, span = text.partition(" [")
            ours = cell if row.kind != "published" else None
            cells.append({
                "figure": figure,
                "span": f"[{span}" if span else "",
                "strict": cell_text.number(ours.strict) if ours and ours.strict is not None else "",
                "tip": cell_text.tip(ours) if ours and not grid.kinds else "",
            })  # fmt: skip
        n, bad = cell_text.counts(row)
        rows.append({"row": row, "cells": cells, "n": n, "bad": bad})
    return {"grid": grid, "rows": rows, "plot": plot}


def _task(run: RunSummary, task: TaskSummary) -> dict[str, Any]:
    return {
        "run": run.name,
        "name": task.name,
        "data": f"{task.data.get('name', '?')} {task.data.get('split', '')}",
        "judge": task.judge or cell_text.NONE,
        "cell": task.score,
        "score": cell_text.NGRAM if task.open_ended else cell_text.interval(task.score),
        "clusters": cell_text.clusters(task.score),
        "strict": cell_text.number(task.score.strict),
        "reasons": ", ".join(f"{reason} {n}" for reason, n in task.reasons.items()),
    }
