"""Tables of both sections of drives: failures on threat scenarios by cause, figures of the Bench2ADVLM paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES, CauseSource, cause_from
from lmms_eval_ad2.report.cell_text import NONE
from lmms_eval_ad2.report.table import Table, TableCell
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval

if TYPE_CHECKING:
    from closedloop_plugin.scoring.measures import ComparedEpisode
    from closedloop_plugin.scoring.published import PublishedThreatTables

CAUSES = "Failures on threat scenarios, by cause (% of the episodes)"
CAUSE_NOTE = (
    "by the actors of the infractions: the threat's, the standard scenario's, both, or neither (by itself); first: the "
    "threat is the first of them; new: the first infraction is none of the driver's on the standard route"
)
CAUSE_COLUMNS = {**{source.value: title for source, title in CAUSE_TITLES.items()},
           "none": "no failure", "first": "first", "new": "new"}  # fmt: skip
TITLES = {
    "success_rate": "Success Rate",
    "driving_score": "Driving Score",
    "efficiency": "Efficiency",
    "comfortness": "Comfortness",
    "skill_score": "Skill Score",
}


def cause_shares(
    runs: Sequence[tuple[str, Sequence[ComparedEpisode]]], standard: Sequence[ComparedEpisode] | None = None
) -> list[dict[str, Any]]:
    """Of each run with programs: run, episodes, and by CAUSE_COLUMNS {"share", "interval"} in percent, None if unknown.

    `runs`: (name, episodes); `standard`: the driver's episodes on the standard routes. Intervals: 95 %, over routes.
    """
    before = {} if standard is None else {e.official.route_id: e.caused for e in standard}
    found = []
    for name, episodes in runs:
        kept = {e.official.key: e for e in episodes if e.program and e.caused is not None}.values()
        causes = [cause_from(e.caused, before.get(e.official.route_id)) for e in kept]
        failed = [cause for cause in causes if cause is not None]
        hits: dict[str, Sequence[bool] | None] = {
            **{source.value: [c is not None and c.by is source for c in causes] for source in CAUSE_TITLES},
            "none": [cause is None for cause in causes],
            "first": [c is not None and c.first.source is CauseSource.THREAT for c in causes],
            "new": [c is not None and c.new is True for c in causes],
        }
        if standard is None or any(cause.new is None for cause in failed):
            hits["new"] = None
        routes = [e.official.route_id for e in kept]
        if not causes:
            continue
        shares: dict[str, Any] = dict.fromkeys(hits)
        for key, column in hits.items():
            if column is not None:
                span = mean_interval([float(value) for value in column], clusters=routes, bounds=FRACTION)
                ends = [round(100 * span.low, 4), round(100 * span.high, 4)] if span else None
                shares[key] = {"share": round(100 * sum(column) / len(column), 4), "interval": ends}
        found.append({"run": name, "episodes": len(causes), **shares})
    return found


def cause_tables(shares: Sequence[Mapping[str, Any]]) -> list[Table]:
    """One table of the results of `cause_shares`; none without a run."""
    if not shares:
        return []
    rows = []
    for row in shares:
        found = [row[key] or {"share": None, "interval": None} for key in CAUSE_COLUMNS]
        cells = [TableCell.of(share["share"], share["interval"], 1) for share in found]
        rows.append([row["run"], str(row["episodes"]), *cells])
    headers = ["run", "episodes", *CAUSE_COLUMNS.values()]
    align = "lr" + "r" * len(CAUSE_COLUMNS)
    return [Table(title=CAUSES, headers=headers, rows=rows, align=align, notes=[CAUSE_NOTE])]


def published_tables(paper: PublishedThreatTables, worlds: str, which: Sequence[str]) -> list[Table]:
    """Tables of the Bench2ADVLM paper, apart from ours: another world, other models. With "drop", then the points where
    its text disagrees with them.

    `worlds`: where our figures were driven; `which`: of "standard" (Table 1), "threat" (Table 2), "drop", "section 5".
    """
    label = f"driven in {paper.world}, means of {paper.repetitions} repetitions; ours above: {worlds} world"
    titles = {
        "standard": f"{paper.paper}, Table 1 (standard routes), {label}",
        "threat": f"{paper.paper}, Table 2 (threat scenarios), {label}",
        "drop": f"{paper.paper}, Table 1 less Table 2 (the drop), {label}",
    }
    found = [_paper_table(paper, title, name) for name, title in titles.items() if name in which]
    if "section 5" in which:
        found.append(_extensions(paper, worlds))
    if "drop" not in which:
        return found
    lines = [f"{c.where}: {c.says}. In the tables: {c.computed}" for c in paper.contradictions]
    title = f"The text of {paper.paper} does not agree with its own tables:"
    return [*found, Table(title=title, headers=(), rows=(), notes=lines)]


def _paper_table(paper: PublishedThreatTables, title: str, which: str) -> Table:
    sign = "+" if which == "drop" else ""
    rows = [
        [d.fast, d.slow, d.mode.upper(), *(f"{getattr(d, which)[name]:{sign}.2f}" for name in paper.columns)]
        for d in paper.drivers
    ]
    headers = ["Fast system", "Slow system", "Mode", *(TITLES[name] for name in paper.columns)]
    return Table(title=title, headers=headers, rows=rows, align="lll" + "r" * len(paper.columns))


def _extensions(paper: PublishedThreatTables, worlds: str) -> Table:
    columns = [name for name in paper.columns if any(name in e.figures for e in paper.extensions)]
    rows = [
        [e.name, e.fast, e.slow, e.option,
         *(f"{e.figures[name]:.2f}" if name in e.figures else NONE for name in columns)]
        for e in paper.extensions
    ]  # fmt: skip
    return Table(
        title=f"{paper.paper}, section 5 (standard routes), driven in {paper.world}; ours above: {worlds} world",
        headers=["Setting", "Fast system", "Slow system", "Here", *(TITLES[name] for name in columns)],
        rows=rows,
        align="llll" + "r" * len(columns),
    )
