"""The HTML report: one self-contained page with tables, plots, and the worst samples with their images.

The page loads nothing: styles and plots are inline, images are embedded JPEGs. Texts of models, data sets and judges
are untrusted; the template escapes them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmms_eval_ad2.report import cell_text, tables
from lmms_eval_ad2.report.breakdowns import breakdown_grids, repeat_grids
from lmms_eval_ad2.report.floors import COMPUTED
from lmms_eval_ad2.report.grid import ResultGrid, grids
from lmms_eval_ad2.report.page import plots
from lmms_eval_ad2.report.page.html_page import HtmlPage
from lmms_eval_ad2.report.published import PublishedTable
from lmms_eval_ad2.report.runs import FINISH_HINT, RunSummary
from lmms_eval_ad2.report.sample_pictures import cards
from lmms_eval_ad2.report.sample_row import plain
from lmms_eval_ad2.report.table import ReportSection, Table
from lmms_eval_ad2.report.table_layouts import ERROR_KINDS, ErrorKinds
from lmms_eval_ad2.storage.identity import code_label

PAGE = HtmlPage(__package__, "report", "the report page", plots=True)
COMMAND = "ad2 report"
WORST = 4
LEAST = 10  # minimum number of samples for a group to be plotted
PLOTTED = frozenset({"weather", "severity", "period"})


def write(runs: Sequence[RunSummary], path: Path, **options: Any) -> None:
    """Write the page of `runs` to `path` (atomically); options: as for `page`.

    Raises MissingExtra without matplotlib or Jinja2, Ad2Error if the file cannot be written.
    """
    PAGE.write(Path(path), page(runs, **options))


def page(
    runs: Sequence[RunSummary], *, published: bool = True, worst_samples: int = WORST,
    unfinished: Sequence[Path] = (), sections: Sequence[ReportSection] = (), title: str = "",
    command: str = COMMAND, kinds: ErrorKinds = "all", own: Mapping[str, PublishedTable] | None = None,
) -> str:  # fmt: skip
    """Return the page as HTML text. `unfinished`: folders of runs that were left out; `sections`: of other kinds of
    runs; `title`: of the page, by default the names of all runs; `command`: the one that writes it; `kinds`: of wrong
    options, as in `grid.grids`; `own`: published rows of a user's benchmarks.
    """
    tabled = [*grids(runs, with_published=published, kinds=kinds, own=own), *repeat_grids(runs)]
    broken = breakdown_grids(runs)
    colours = plots.grid_colours([*tabled, *broken])
    names = [*(run.name for run in runs), *(run.name for section in sections for run in section.runs)]
    drawn = []
    for section in sections:
        every = [*section.tables, *section.footer]
        drawn.append({"section": section, "blocks": _blocks(section.name, every, plots.section_colours(section))})
    values = {
        "title": title or ", ".join(dict.fromkeys(names)),
        "command": command,
        "version": code_label(),
        "written": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        # The end of a path names a run: a page may be shared, and the folders above would reveal the machine.
        "warnings": tables.warnings(runs)
        + [f"{'/'.join(folder.parts[-3:])}: unfinished run, left out; {FINISH_HINT}" for folder in unfinished],
        "runs": [_about(run) for run in runs],
        "grids": _blocks("table", [_table(grid) for grid in tabled], colours),
        "status": plots.status(runs),
        "error_kinds": plots.error_kinds(runs, tuple(ERROR_KINDS) if kinds == "paper" else ()),
        "breakdowns": _blocks(
            "breakdown", [_table(grid, LEAST, grid.key.split("/")[2] in PLOTTED) for grid in broken], colours
        ),
        "tasks": replace(tables.overview(runs), title="", align="lllll" + "r" * 8 + "l"),
        "worst": cards(runs, worst_samples),
        "sections": drawn,
        "legend": f"{tables.LEGEND_PAGE} {tables.about_intervals(runs)}{tables.COUNTED}",
    }
    return PAGE.render(values)


def _table(grid: ResultGrid, least: int = 0, plotted: bool = True) -> Table:
    return replace(tables.whole(grid, "page"), plot=plots.grid_plot(grid, least) if plotted else None)


def _blocks(name: str, tabled: Sequence[Table], colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """The tables with their drawn plots and anchors."""
    return [
        {"table": table, "plot": plots.draw(table.plot, colours), "id": f"{name}-{n}"}
        for n, table in enumerate(tabled, 1)
    ]


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
    shown = {key: plain(value) for key, value in facts.items() if value not in (None, "", {})}
    return {"name": run.name, "role": run.role, "facts": shown}
