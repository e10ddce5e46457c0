"""Table of the failures on threat scenarios by cause, for `ad2 report` and `ad2 report compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES, CauseSource, FailureCause, cause_from
from lmms_eval_ad2.report.cell_text import NONE
from lmms_eval_ad2.report.sections import SectionCell, SectionTable

if TYPE_CHECKING:
    from closedloop_plugin.scoring.measures import ComparedEpisode

TITLE = "Failures on threat scenarios, by cause (% of the episodes)"
NOTE = (
    "by the actors of the infractions: the threat's, the standard scenario's, both, or neither (by itself); first: the "
    "threat is the first of them; new: the first infraction is none of the driver's on the standard route"
)


def cause_tables(
    runs: Sequence[tuple[str, Sequence[ComparedEpisode]]], standard: Sequence[ComparedEpisode] | None = None
) -> list[SectionTable]:
    """One table of the runs that played programs, none without such a run. `runs`: (name, episodes); `standard`: the
    driver's episodes on the standard routes."""
    before = {} if standard is None else {e.official.route_id: e.caused for e in standard}
    rows = []
    for name, episodes in runs:
        found = {e.official.key: e for e in episodes if e.program and e.caused is not None}
        causes = [(e.official.route_id, cause_from(e.caused, before.get(e.official.route_id))) for e in found.values()]
        if causes:
            rows.append([name, str(len(causes)), *_cells(causes, known=standard is not None)])
    if not rows:
        return []
    headers = ["run", "episodes", *CAUSE_TITLES.values(), "no failure", "first", "new"]
    return [SectionTable(title=TITLE, headers=headers, rows=rows, align="lr" + "r" * 7, notes=[NOTE])]


def _cells(causes: Sequence[tuple[str, FailureCause | None]], known: bool) -> list[SectionCell | str]:
    by = [[cause is not None and cause.by is source for _, cause in causes] for source in CAUSE_TITLES]
    none = [cause is None for _, cause in causes]
    first = [cause is not None and cause.first.source is CauseSource.THREAT for _, cause in causes]
    routes = [route for route, _ in causes]
    cells: list[SectionCell | str] = [_share(values, routes) for values in (*by, none, first)]
    if not known or any(cause is not None and cause.new is None for _, cause in causes):
        return [*cells, NONE]
    return [*cells, _share([cause is not None and cause.new is True for _, cause in causes], routes)]


def _share(values: Sequence[bool], routes: Sequence[str]) -> SectionCell:
    from lmms_eval_ad2.metrics.intervals import FRACTION, mean_interval

    span = mean_interval([float(value) for value in values], clusters=routes, bounds=FRACTION)
    text = f"[{100 * span.low:.1f}, {100 * span.high:.1f}]" if span else ""
    return SectionCell(f"{100 * sum(values) / len(values):.1f}", text)
