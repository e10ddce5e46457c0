"""The figures of the Bench2ADVLM paper as tables of a report, apart from ours: another world, other models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmms_eval_ad2.report.sections import SectionTable

if TYPE_CHECKING:
    from closedloop_plugin.scoring.published import PublishedThreatTables

TITLES = {
    "success_rate": "Success Rate",
    "driving_score": "Driving Score",
    "efficiency": "Efficiency",
    "comfortness": "Comfortness",
    "skill_score": "Skill Score",
}


def published_tables(paper: PublishedThreatTables, worlds: str, which: Sequence[str]) -> list[SectionTable]:
    """Tables of the paper; with "drop", then the points where its text disagrees with them.

    `worlds`: where our figures were driven; `which`: of "standard" (Table 1), "threat" (Table 2), "drop", "section 5".
    """
    label = f"driven in {paper.world}, means of {paper.repetitions} repetitions; ours above: {worlds} world"
    titles = {
        "standard": f"{paper.paper}, Table 1 (standard routes), {label}",
        "threat": f"{paper.paper}, Table 2 (threat scenarios), {label}",
        "drop": f"{paper.paper}, Table 1 less Table 2 (the drop), {label}",
    }
    found = [_table(paper, title, name) for name, title in titles.items() if name in which]
    if "section 5" in which:
        found.append(_extensions(paper, worlds))
    if "drop" not in which:
        return found
    lines = [f"{c.where}: {c.says}. In the tables: {c.computed}" for c in paper.contradictions]
    title = f"The text of {paper.paper} does not agree with its own tables:"
    return [*found, SectionTable(title=title, headers=(), rows=(), notes=lines)]


def _table(paper: PublishedThreatTables, title: str, which: str) -> SectionTable:
    sign = "+" if which == "drop" else ""
    rows = [
        [d.fast, d.slow, d.mode.upper(), *(f"{getattr(d, which)[name]:{sign}.2f}" for name in paper.columns)]
        for d in paper.drivers
    ]
    headers = ["Fast system", "Slow system", "Mode", *(TITLES[name] for name in paper.columns)]
    return SectionTable(title=title, headers=headers, rows=rows, align="lll" + "r" * len(paper.columns))


def _extensions(paper: PublishedThreatTables, worlds: str) -> SectionTable:
    columns = [name for name in paper.columns if any(name in e.figures for e in paper.extensions)]
    rows = [
        [
            e.name,
            e.fast,
            e.slow,
            e.option,
            *(f"{e.figures[name]:.2f}" if name in e.figures else "–" for name in columns),
        ]
        for e in paper.extensions
    ]
    return SectionTable(
        title=f"{paper.paper}, section 5 (standard routes), driven in {paper.world}; ours above: {worlds} world",
        headers=["Setting", "Fast system", "Slow system", "Here", *(TITLES[name] for name in columns)],
        rows=rows,
        align="llll" + "r" * len(columns),
    )
