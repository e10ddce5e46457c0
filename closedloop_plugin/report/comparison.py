"""`ad2 report compare` for drives: two run folders, or official result files, paired by route."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from closedloop_plugin.report.drive_section import COMFORT, elsewhere, facts_of
from closedloop_plugin.report.results import DriveResults, read_results, short_names, unlike
from closedloop_plugin.report.section_tables import TITLES, cause_shares, cause_tables, published_tables
from closedloop_plugin.scoring.ceilings import beside
from closedloop_plugin.scoring.compare import DrivingComparison, DrivingComparisonRow
from closedloop_plugin.scoring.compare import compare as compared
from closedloop_plugin.scoring.consistency import ConsistencyCheck, check
from closedloop_plugin.scoring.driving import driving_score, success_rate
from closedloop_plugin.scoring.measures import ComparedRun
from closedloop_plugin.scoring.official_record import OfficialRecord
from closedloop_plugin.scoring.published import PublishedThreatTables
from closedloop_plugin.scoring.published import published as papers
from closedloop_plugin.scoring.run_records import provenance
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.cell_text import NONE
from lmms_eval_ad2.report.table import (
    CategoryPlot,
    DifferencePlot,
    PlotSeries,
    ReportSection,
    SectionRun,
    Table,
    TableCell,
    few,
)
from lmms_eval_ad2.scoring.metrics.intervals import METHOD as INTERVAL_METHOD
from lmms_eval_ad2.storage.identity import code_label

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


def compare(
    a: Path, b: Path, *, force: bool, routes: str | None, published: bool, traffic_signs: str | None = None
) -> ReportSection:
    """Compare two results by route; raises Ad2Error if they are not comparable, except with `force`."""
    sides = [read_results(p, routes, name) for p, name in zip((a, b), short_names((a, b)), strict=True)]
    one, two = (side.identity for side in sides)
    whole = one is None or two is None  # an official file: Bench2Drive's own rule
    one_suite = whole or (one or {}).get("suite_sha256") == (two or {}).get("suite_sha256")
    rules = [side.profile for side in sides]
    if one is None or two is None:
        # Profiles with other penalties cannot be compared; an official file states nothing else that could be.
        other = rules[0].penalties != rules[1].penalties
        clashes = [f"profile is {rules[0].name} in the first and {rules[1].name} in the second"] if other else []
    else:
        clashes = unlike(one, two, one_suite)
    if clashes and not force:
        scope = "" if one_suite else " (only the suite may differ)"
        raise Ad2Error(
            f"not comparable: {'; '.join(clashes)}. Use the same settings for both runs{scope}; "
            "to compare them all the same: --force"
        )
    names = ["A", "B"]
    if not one_suite:
        suites = [str((side.identity or {}).get("suite", "")) for side in sides]
        names = suites if suites[0] != suites[1] else [f"A: {suites[0]}", f"B: {suites[1]}"]
    named = zip(sides, names, strict=True)
    runs = [ComparedRun(name, side.asked, side.episodes, side.repetitions) for side, name in named]
    signs = traffic_signs or _one_variant(sides)
    found = compared(runs[0], runs[1], rule="whole" if whole else "common", signs=signs)
    types = {route.id: route.scenario for side in sides if side.suite for route in side.suite.routes}
    # A route without a record in both has no scenario yet.
    by_route = [replace(one, scenario=one.scenario or types.get(one.route, "")) for one in found.by_route]
    found = replace(found, by_route=by_route)
    attention = clashes + [f"{side.name}: {side.training}" for side in sides if side.training]
    attention += _settings(sides) + [f"{s.name}: {note}" for s in sides for note in s.notes]
    attention += [text for side, run in zip(sides, runs, strict=True) if (text := _over_all(side, run, found))]
    last = [list({e.official.key: e for e in run.episodes}.values()) for run in runs]  # the last of each episode
    # Of two suites the one without programs is the standard drive.
    standard = next((side for side in last if not any(e.program for e in side)), None)
    return compare_section(
        found,
        [_about(side, run) for side, run in zip(sides, runs, strict=True)],
        attention,
        papers() if published and not one_suite else None,
        [check([r for r in _records(run) if not r.fault], side.profile) for side, run in zip(sides, runs, strict=True)],
        causes=cause_shares(list(zip(names, last, strict=True)), standard),
        signs=signs,
    )


def _one_variant(sides: Sequence[DriveResults]) -> str:
    """The variant of Traffic_Signs of both suites. Raises Ad2Error if they have different ones."""
    variants = [side.signs for side in sides]
    if len(set(variants)) > 1:
        named = " and ".join(f"{variant} for {side.name}" for variant, side in zip(variants, sides, strict=True))
        raise Ad2Error(f"Traffic_Signs is that of {named}: choose one for both with --config traffic_signs=VARIANT")
    return variants[0]


def _settings(sides: Sequence[DriveResults]) -> list[str]:
    """The versions that drove, if they differ, and what limits a comparison with an official file."""
    known = [side.identity for side in sides if side.identity is not None]
    labels = [code_label(str(identity.get("version")), str(identity.get("commit") or "")) for identity in known]
    if len(known) == len(sides):
        return [f"driven with lmms-eval-ad2 {' and '.join(labels)}"] if len(set(labels)) > 1 else []
    files = [side.name for side in sides if side.identity is None]
    found = [f"{', '.join(files)}: settings of the drive are not in an official file and were not compared"]
    profiles = list(dict.fromkeys(side.profile.name for side in sides))
    if len(profiles) > 1:
        found.append(f"other rates and time limits: profiles {' and '.join(profiles)}")
    return found


def _over_all(side: DriveResults, run: ComparedRun, found: DrivingComparison) -> str:
    """The figures of an official file over its whole route file, if fewer routes are paired."""
    own = [record for record in _records(run) if record.route_id in {*run.routes}]
    records = [record for record in own if not record.fault]
    n = len(run.routes) * run.repetitions - (len(own) - len(records))
    if side.identity is not None or len(found.routes) == len(run.routes) or not n:
        return ""
    return (
        f"{run.name}: over all {len(run.routes)} routes of {side.suite.name if side.suite else '?'}: Driving Score "
        f"{driving_score(records, n):.2f}, Success Rate {success_rate(records, n):.2f} %"
    )


def _records(run: ComparedRun) -> list[OfficialRecord]:
    """The last record of each episode."""
    return list({e.official.key: e.official for e in run.episodes}.values())


def _about(results: DriveResults, run: ComparedRun) -> dict[str, Any]:
    """One side for text, page and JSON."""
    identity = results.identity or {}
    ceiling = beside(results.records[0].origin) if results.records else None
    found = provenance(results.records, results.identity, results.profile.name, COMFORT)
    n = len(_records(run))
    return {
        "name": run.name,
        "label": results.name,
        "folder": str(results.path),
        "suite": identity.get("suite") or (results.suite.name if results.suite else None),
        "suite_sha256": identity.get("suite_sha256") or (results.suite.sha256 if results.suite else None),
        "agent": identity.get("agent"),
        "interpreter": identity.get("interpreter"),
        "profile": results.profile.name,
        "seed": identity.get("seed"),
        "backend": None if found.official else found.backend,
        "provenance": found.facts(),
        "ceiling": ceiling.to_json() if ceiling else None,
        "routes": len(run.routes),
        "episodes": n,
        "line": f"{found.line()}, {n} episodes",
        "facts": facts_of(results, found),
        "warnings": elsewhere([(run.name, found)]),
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
    common = f", of which {found.n_common} have a record in both" if found.rule == "whole" else ""
    notes = [*(f"Attention: {text}" for text in attention), f"{len(found.routes)} route(s) paired{common}"]
    notes += [f"left out: {len(routes)} {why}: {few(routes)}" for why, routes in found.left_out.items()]
    notes += [f"{row.title}: no figure, {row.reason}" for row in found.rows if row.reason]
    if any(row.ci_relative and _unbounded(row) for row in found.rows if not row.reason):
        notes.append(f"{_drop(about)} in %: no interval where that of A reaches 0, or nearly")
    notes += found.notes
    notes += [f"{side['name']}: {note}" for side, one in zip(about, checks, strict=True) for note in one.notes()]
    ceilings = [side["ceiling"]["text"] if side["ceiling"] else "" for side in about]
    if len(set(ceilings)) == 1:
        notes += [ceilings[0]] if ceilings[0] else []
    else:
        notes += [f"{letter}: {text}" for letter, text in zip("AB", ceilings, strict=True) if text]
    notes.append(RULES[found.rule] + METHOD)
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


def _figures(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> Table:
    drop = _drop(about)
    names = [textwrap.fill(str(side["name"]), HEAD) for side in about]
    rows = [row for row in found.rows if not row.reason]
    shown = [row for row in rows if _on_percent_axis(row)]
    series = [
        PlotSeries(f"{letter}: {side['label']}", [getattr(row, key) for row in shown],
                   [getattr(row, f"ci_{key}") for row in shown])
        for letter, key, side in zip("AB", "ab", about, strict=True)
    ]  # fmt: skip
    return Table(
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


def _cells(row: DrivingComparisonRow) -> list[TableCell | str]:
    return [
        row.title + ("" if row.higher_is_better else " v"),
        str(row.n),
        TableCell.of(row.a, row.ci_a, 2),
        TableCell.of(row.b, row.ci_b, 2),
        TableCell.of(row.drop, row.ci_drop, 2, "+"),
        TableCell.of(row.relative, None if _unbounded(row) else row.ci_relative, 1, "+"),
        _p(row.p_value),
        _p(row.p_holm),
    ]


def _unbounded(row: DrivingComparisonRow) -> bool:
    """True if a drop in percent of A has no useful interval: A may be 0, or the interval exceeds MOST_RELATIVE."""
    low_a = row.ci_a[0] if row.ci_a else row.a
    return (low_a is not None and low_a <= 0) or any(abs(end) > MOST_RELATIVE for end in row.ci_relative or ())


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


def _differences(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> Table:
    """The differences with their intervals, as a plot only: the table has them already."""
    shown = [row for row in found.rows if row.drop is not None and _on_percent_axis(row)]
    drop = _drop(about)
    series = PlotSeries(f"{drop}, 95 % intervals", [row.drop for row in shown], [row.ci_drop for row in shown])
    return Table(
        title=f"Paired differences ({drop})",
        headers=(),
        rows=(),
        caption=_captions(about),
        plot=CategoryPlot([row.title for row in shown], [series], f"{drop}, points", None, lines=True),
        detail=True,
    )


def _captions(about: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{letter}: {side['line']}" for letter, side in zip("AB", about, strict=True)]


def _routes(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> Table:
    """One row per route, the largest differences first."""
    pairs = [(r, r.a - r.b) for r in found.by_route if r.a is not None and r.b is not None]
    pairs.sort(key=lambda pair: (-abs(pair[1]), pair[0].route))
    missing = [{route for route, _ in side} for side in found.missing]
    rows = [
        [r.route, r.scenario, *(f"{value:.2f}{' (no record)' if r.route in gone else ''}"
                                for value, gone in zip((r.a, r.b), missing, strict=True)), f"{difference:+.2f}"]
        for r, difference in pairs
    ]  # fmt: skip
    return Table(
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


def _types(found: DrivingComparison, about: Sequence[Mapping[str, Any]]) -> Table:
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
    return Table(
        title="Driving Score by scenario type",
        headers=["scenario type", "n", "A", "B", _drop(about)],
        rows=rows,
        align="lrrrr",
        caption=_captions(about),
        plot=CategoryPlot(list(means), series, "Driving Score", 100.0, lines=True),
        detail=True,
    )


def _data(
    found: DrivingComparison, about: Sequence[Mapping[str, Any]], attention: Sequence[str],
    paper: PublishedThreatTables | None, checks: Sequence[ConsistencyCheck],
) -> dict[str, Any]:  # fmt: skip
    """The paper's figures are under their own key, with their world."""
    hidden = {"line", "facts", "label", "warnings"}
    sides = [
        {
            **{key: value for key, value in side.items() if key not in hidden},
            "inconsistent": [asdict(one) for one in check.inconsistent],
            "unchecked": dict(check.unchecked),
        }
        for side, check in zip(about, checks, strict=True)
    ]
    return {
        "a": sides[0],
        "b": sides[1],
        "interval_method": INTERVAL_METHOD,
        **asdict(found),
        "attention": list(attention),
        "published": asdict(paper) if paper else None,
    }
