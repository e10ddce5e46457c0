"""Failures on threat scenarios by cause, for `ad2 report` and `ad2 report compare`: as a table and for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES, CauseSource, cause_from
from lmms_eval_ad2.report.cell_text import NONE
from lmms_eval_ad2.report.sections import SectionCell, SectionTable

if TYPE_CHECKING:
    from closedloop_plugin.scoring.measures import ComparedEpisode

TITLE = "Failures on threat scenarios, by cause (% of the episodes)"
NOTE = (
    "by the actors of the infractions: the threat's, the standard scenario's, both, or neither (by itself); first: the "
    "threat is the first of them; new: the first infraction is none of the driver's on the standard route"
)
COLUMNS = {**{source.value: title for source, title in CAUSE_TITLES.items()},
           "none": "no failure", "first": "first", "new": "new"}  # fmt: skip


def cause_shares(
    runs: Sequence[tuple[str, Sequence[ComparedEpisode]]], standard: Sequence[ComparedEpisode] | None = None
) -> list[dict[str, Any]]:
    """Of each run with programs: run, episodes, and by COLUMNS {"share", "interval"} in percent, None if unknown.

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
        if causes:
            shares = {key: None if column is None else _share(column, routes) for key, column in hits.items()}
            found.append({"run": name, "episodes": len(causes), **shares})
    return found


def _share(column: Sequence[bool], routes: Sequence[str]) -> dict[str, Any]:
    from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval

    span = mean_interval([float(value) for value in column], clusters=routes, bounds=FRACTION)
    ends = [round(100 * span.low, 4), round(100 * span.high, 4)] if span else None
    return {"share": round(100 * sum(column) / len(column), 4), "interval": ends}


def cause_tables(shares: Sequence[Mapping[str, Any]]) -> list[SectionTable]:
    """One table of the results of `cause_shares`; none without a run."""
    if not shares:
        return []
    rows = [[row["run"], str(row["episodes"]), *(_cell(row[key]) for key in COLUMNS)] for row in shares]
    headers = ["run", "episodes", *COLUMNS.values()]
    return [SectionTable(title=TITLE, headers=headers, rows=rows, align="lr" + "r" * len(COLUMNS), notes=[NOTE])]


def _cell(share: Mapping[str, Any] | None) -> SectionCell | str:
    if share is None:
        return NONE
    ends = share["interval"]
    return SectionCell(f"{share['share']:.1f}", f"[{ends[0]:.1f}, {ends[1]:.1f}]" if ends else "")
