"""`ad2 report compare` for drives: two run folders, or official result files, paired by route."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.cause_table import cause_tables
from closedloop_plugin.cli.drive.published_tables import TITLES, published_tables
from lmms_eval_ad2.report.cell_text import NONE
from lmms_eval_ad2.report.sections import (
    CategoryPlot,
    DifferencePlot,
    PlotSeries,
    ReportSection,
    SectionCell,
    SectionRun,
    SectionTable,
    Span,
)
from lmms_eval_ad2.report.text_table import few

if TYPE_CHECKING:
    from closedloop_plugin.scoring.compare import DrivingComparison, DrivingComparisonRow
    from closedloop_plugin.scoring.consistency import ConsistencyCheck
    from closedloop_plugin.scoring.published import PublishedThreatTables

SECTION = "compare"
MOST_RELATIVE = 500.0  # percent; a wider interval of a ratio says only that its denominator is close to 0
HEAD = 18  # width of a suite's name in its column's header, characters
METHOD = (
    "in brackets 95 % intervals over these routes, as ad2 report has them (leave one out, Student's t; the same routes "
    "for both columns and the drop). Where no route differs, the interval contains what 0 of n routes allow for others "
    "of the same kind; figures without bounds have none there. p: exact McNemar test where every route is right or "
    "wrong, else a sign-flip test over routes; p (Holm) is corrected over the first five rows, and over the others. A "
    "drop above 0 is worse driving, but for rows marked with v, where less is better."
)
RULES = {
    "common": "Figures are means over the routes that both runs drove (n), repetitions averaged by route; ",
    "whole": "Figures are means over the routes that both were to drive (n), repetitions averaged by route; a route "
    "without a record is 0 in Driving Score and Success Rate, the rule of Bench2Drive's maintainers, and left out of "
    "the others; ",
}


def compare_section(
    found: DrivingComparison,
    about: Sequence[Mapping[str, Any]],
    attention: Sequence[str],
    paper: PublishedThreatTables | None,
    checks: Sequence[ConsistencyCheck],
    causes: Sequence[Mapping[str, Any]],
    signs: str,
) -> ReportSection:
    """The section of a comparison. `about`: of A and B, see run_kind; `checks`: of their records; `causes`: see
    cause_table.cause_shares; `signs`: the variant of Traffic_Signs."""
    notes = [f"Attention: {text}" for text in attention] + _left_out(found)
    notes += [f"{row.title}: no figure, {row.reason}" for row in found.rows if row.reason]
    if any(row.ci_relative and _unbounded(row) for row in found.rows if not row.reason):
        notes.append(f"{_drop(about)} in %: no interval where that of A reaches 0, or nearly")
    notes += [*found.notes, *_inconsistent(about, checks), *_ceilings(about), RULES[found.rule] + METHOD]
    tabled = [_figures(found, about), *cause_tables(causes)]
    tabled += [_differences(found, about), _routes(found, about), _types(found, about)]
    worlds = " and ".join(dict.fromkeys(str(side["backend"]) for side in about))
    which = ("standard", "threat", "drop", "section 5")
    return ReportSection(
        name=SECTION,
        title="Comparison",
        runs=[SectionRun(f"{letter}: {s['label']}", s["facts"]) for letter, s in zip("AB", about, strict=True)],
        tables=tabled,
        head=[f"{letter}: {side['line']} ({side['folder']})" for letter, side in zip("AB", about, strict=True)],
        warnings=list(dict.fromkeys(text for side in about for text in side["warnings"])),
        notes=notes,
        footer=published_tables(paper, worlds, which) if paper else (),
        data={**_data(found, about, attention, paper, checks), "causes": list(causes), "traffic_signs": signs},
    )


def _figures(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> SectionTable:
    drop = _drop(about)
    names = [textwrap.fill(str(side["name"]), HEAD) for side in about]
    rows = [row for row in found.rows if not row.reason]
    shown = [row for row in rows if _on_percent_axis(row)]
    series = [
        PlotSeries(f"{letter}: {side['label']}", [getattr(row, key) for row in shown],
                   [getattr(row, f"ci_{key}") for row in shown])
        for letter, key, side in zip("AB", "ab", about, strict=True)
    ]  # fmt: skip
    return SectionTable(
        title="",
        headers=["score", "n", *names, drop, f"{drop} in %", "p", "p (Holm)"],
        rows=[_cells(row) for row in rows],
        align="lrrrrrrr" if found.rule == "whole" else "l" * 8,
        notes=_spread(found, about),
        plot=CategoryPlot([row.title for row in shown], series, "percent", 100.0),
    )


def _on_percent_axis(row: DrivingComparisonRow) -> bool:
    return row.group != "extra" and row.name != "efficiency"


def _drop(about: Sequence[Mapping[str, Any]]) -> str:
    return "drop" if about[0]["name"] != "A" else "A - B"


def _cells(row: DrivingComparisonRow) -> list[SectionCell | str]:
    return [
        row.title + ("" if row.higher_is_better else " v"),
        str(row.n),
        _with_span(row.a, row.ci_a, 2),
        _with_span(row.b, row.ci_b, 2),
        _with_span(row.drop, row.ci_drop, 2, "+"),
        _with_span(row.relative, None if _unbounded(row) else row.ci_relative, 1, "+"),
        _p(row.p_value),
        _p(row.p_holm),
    ]


def _unbounded(row: DrivingComparisonRow) -> bool:
    """Whether a drop in percent of A has no useful interval: A may be 0, or the interval exceeds MOST_RELATIVE."""
    low_a = row.ci_a[0] if row.ci_a else row.a
    return (low_a is not None and low_a <= 0) or any(abs(end) > MOST_RELATIVE for end in row.ci_relative or ())


def _with_span(value: float | None, span: Span | None, decimals: int, sign: str = "") -> SectionCell | str:
    if value is None:
        return NONE
    text = f"[{span[0]:{sign}.{decimals}f}, {span[1]:{sign}.{decimals}f}]" if span else ""
    return SectionCell(f"{value:{sign}.{decimals}f}", text)


def _p(value: float | None) -> str:
    if value is None:
        return NONE
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _spread(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> list[str]:
    """Standard deviation over the repetitions of each run that has several."""
    lines = []
    for side, key, n in zip(about, ("a", "b"), found.repetitions, strict=True):
        known = [
            f"{TITLES[row.name]} {getattr(row, key):.2f} ± {spread:.2f}"
            for row in found.rows
            if row.name in TITLES and (spread := getattr(row, f"spread_{key}")) is not None
        ]
        if known:
            lines.append(f"{side['name']}: over {n} repetitions (± standard deviation): {', '.join(known)}")
    return lines


def _differences(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> SectionTable:
    """The differences with their intervals, as a plot only: the table has them already."""
    shown = [row for row in found.rows if row.drop is not None and _on_percent_axis(row)]
    drop = _drop(about)
    series = PlotSeries(f"{drop}, 95 % intervals", [row.drop for row in shown], [row.ci_drop for row in shown])
    return SectionTable(
        title=f"Paired differences ({drop})",
        headers=(),
        rows=(),
        caption=_captions(about),
        plot=CategoryPlot([row.title for row in shown], [series], f"{drop}, points", None, lines=True),
        detail=True,
    )


def _captions(about: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{letter}: {side['line']}" for letter, side in zip("AB", about, strict=True)]


def _routes(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> SectionTable:
    """One row per route, the largest differences first."""
    pairs = [(r, r.a - r.b) for r in found.by_route if r.a is not None and r.b is not None]
    pairs.sort(key=lambda pair: (-abs(pair[1]), pair[0].route))
    missing = [{route for route, _ in side} for side in found.missing]
    rows = [
        [r.route, r.scenario, *(f"{value:.2f}{' (no record)' if r.route in gone else ''}"
                                for value, gone in zip((r.a, r.b), missing, strict=True)), f"{difference:+.2f}"]
        for r, difference in pairs
    ]  # fmt: skip
    return SectionTable(
        title="Driving Score by route",
        headers=["route", "scenario type", "A", "B", _drop(about)],
        rows=rows,
        align="llrrr",
        caption=_captions(about),
        plot=DifferencePlot(
            [d for _, d in pairs],
            f"Driving Score, {_drop(about)}",
            ("A higher", "B higher"),
            [r.route for r, _ in pairs],
        ),
        detail=True,
    )


def _types(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> SectionTable:
    by_type: dict[str, list[tuple[float, float]]] = {}
    for one in found.by_route:
        if one.a is not None and one.b is not None and one.scenario:
            by_type.setdefault(one.scenario, []).append((one.a, one.b))
    means = {name: (fmean(a for a, _ in pairs), fmean(b for _, b in pairs)) for name, pairs in sorted(by_type.items())}
    rows = [[name, str(len(by_type[name])), f"{a:.1f}", f"{b:.1f}", f"{a - b:+.1f}"] for name, (a, b) in means.items()]
    series = [
        PlotSeries(f"{letter}: {side['label']}", [pair[k] for pair in means.values()], [None] * len(means))
        for k, (letter, side) in enumerate(zip("AB", about, strict=True))
    ]
    return SectionTable(
        title="Driving Score by scenario type",
        headers=["scenario type", "n", "A", "B", _drop(about)],
        rows=rows,
        align="lrrrr",
        caption=_captions(about),
        plot=CategoryPlot(list(means), series, "Driving Score", 100.0, lines=True),
        detail=True,
    )


def _left_out(found: DrivingComparison) -> list[str]:
    lines = [f"{len(found.routes)} route(s) paired"]
    if found.rule == "whole":
        lines[0] += f", of which {found.n_common} have a record in both"
    return lines + [f"left out: {len(routes)} {why}: {few(routes)}" for why, routes in found.left_out.items()]


def _ceilings(about: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the task and the interpreter of each side allow; one line if it is the same."""
    texts = [side["ceiling"]["text"] if side["ceiling"] else "" for side in about]
    if len(set(texts)) == 1:
        return [texts[0]] if texts[0] else []
    return [f"{letter}: {text}" for letter, text in zip("AB", texts, strict=True) if text]


def _inconsistent(about: Sequence[Mapping[str, Any]], checks: Sequence[ConsistencyCheck]) -> list[str]:
    return [f"{side['name']}: {note}" for side, check in zip(about, checks, strict=True) for note in check.notes()]


def _data(
    found: DrivingComparison, about: Sequence[Mapping[str, Any]], attention: Sequence[str],
    paper: PublishedThreatTables | None, checks: Sequence[ConsistencyCheck],
) -> dict[str, Any]:  # fmt: skip
    """The paper's figures are under their own key, with their world."""
    from lmms_eval_ad2.scoring.metrics.intervals import METHOD as INTERVALS

    hidden = {"line", "facts", "label", "warnings"}
    a, b = ({key: value for key, value in side.items() if key not in hidden} for side in about)
    return {
        "a": {**a, **_checked(checks[0])},
        "b": {**b, **_checked(checks[1])},
        "interval_method": INTERVALS,
        **asdict(found),
        "attention": list(attention),
        "published": asdict(paper) if paper else None,
    }


def _checked(check: ConsistencyCheck) -> dict[str, Any]:
    return {"inconsistent": [asdict(one) for one in check.inconsistent], "unchecked": dict(check.unchecked)}
