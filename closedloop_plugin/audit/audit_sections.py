"""The sections of an audit's report: titles, sentences and tables, which text, Markdown and the page show alike."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from closedloop_plugin.audit.audited_result import AuditedResult
from closedloop_plugin.audit.file_audit import FileAudit
from closedloop_plugin.audit.printed_figures import MEASURES, ExplainedFigure
from closedloop_plugin.audit.rankings import PairedDifference
from closedloop_plugin.audit.sample_size import POINTS, POWER, SampleSizePlan
from lmms_eval_ad2.metrics.intervals import ConfidenceInterval
from lmms_eval_ad2.report.text_table import TextTable, escape

NONE = "–"
MARK = " *"  # behind a difference whose interval excludes 0
WIDTH = 120


@dataclass(frozen=True)
class AuditSection:
    """One section. `notes`: sentences below the table."""

    title: str
    paragraphs: Sequence[str]
    table: TextTable | None = None
    notes: Sequence[str] = ()


def sections(found: FileAudit) -> list[AuditSection]:
    """All sections in their order."""
    return [
        _figures(found),
        _printed(found),
        _missing(found),
        *_inconsistent(found),
        *(_ranking(found, measure) for measure in MEASURES),
        *(_matrix(found, measure) for measure in MEASURES),
        *_sample_size(found),
        _files(found),
        *_not_available(found),
    ]


def as_text(parts: Sequence[AuditSection]) -> str:
    """The sections as text."""
    blocks = []
    for part in parts:
        blocks.append(f"{part.title}\n{'=' * len(part.title)}")
        blocks += [textwrap.fill(text, WIDTH) for text in part.paragraphs]
        blocks += [part.table.plain()] if part.table else []
        blocks += [textwrap.fill(text, WIDTH) for text in part.notes]
    return "\n\n".join(blocks) + "\n"


def as_markdown(title: str, intro: Sequence[str], parts: Sequence[AuditSection]) -> str:
    """The sections as one Markdown page. `intro`: Markdown paragraphs, taken over as they are."""
    blocks = [f"# {title}", *intro]
    for part in parts:
        blocks.append(f"## {escape(part.title)}")
        blocks += [textwrap.fill(escape(text), WIDTH) for text in part.paragraphs]
        blocks += [part.table.markdown()] if part.table else []
        blocks += [textwrap.fill(escape(text), WIDTH) for text in part.notes]
    return "\n\n".join(blocks) + "\n"


def _figures(found: FileAudit) -> AuditSection:
    n = len(found.routes)
    rows = []
    for i, result in enumerate(found.results, 1):
        summary = result.summary
        spans = [_with_span(summary[name], summary["intervals"][name]) for name in MEASURES]
        rows.append([i, result.name, summary["n_records"], len(result.missing), summary["n_crashed"], *spans])
    headers = ["#", "result", "records", "missing", "crashed", "Driving Score [95 %]", "Success Rate % [95 %]"]
    text = (
        f"Both figures are means over all {n} routes. A route without a record counts 0, which is the rule of the "
        "benchmark's maintainers (Thinklab-SJTU/Bench2Drive, issue 150). The intervals leave out one route at a time: "
        "they say how far the figure would move on other routes of the same kind, driven once."
    )
    return AuditSection(f"Figures over all {n} routes", [text], TextTable(headers, rows, "rlrrrll"))


def _printed(found: FileAudit) -> AuditSection:
    rows = []
    for result, figures in zip(found.results, found.explained, strict=True):
        for source in dict.fromkeys(one.source for one in figures):
            of_source = {one.measure: one for one in figures if one.source == source}
            printed = _two([one.printed if (one := of_source.get(m)) else None for m in MEASURES])
            recomputed = _two([one.recomputed if (one := of_source.get(m)) else None for m in MEASURES])
            rows.append([result.name, source, printed, recomputed, _meaning([*of_source.values()])])
    everything = [one for figures in found.explained for one in figures]
    whole = sum(one.reproduced for one in everything)
    elsewhere = sum(one.equal_over is not None and not one.reproduced for one in everything)
    text = (
        f"Of {len(everything)} printed figures {whole} are the mean over all {len(found.routes)} routes to the last "
        f"printed decimal. {elsewhere} are the mean over another number of records or of another file, and "
        f"{len(everything) - whole - elsewhere} could not be reproduced. A mean over the records that exist is a "
        "different question, not a mistake in the drive: it leaves out routes that no record was written for."
    )
    notes = [f"{result.name}: {result.listed.note}" for result in found.results if result.listed.note]
    headers = ["result", "printed in", "printed DS / SR", "over all routes", "the printed figures are"]
    return AuditSection("Printed and recomputed", [text], TextTable(headers, rows, "llrrl"), notes)


def _meaning(figures: Sequence[ExplainedFigure]) -> str:
    """What the figures of one source are, in one text if both are the same."""
    texts = dict.fromkeys(one.text for one in figures)
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(f"{MEASURES[one.measure]}: {one.text}" for one in figures)


def _missing(found: FileAudit) -> AuditSection:
    rows = [[r.name, len(r.missing), ", ".join(r.missing)] for r in found.results if r.missing]
    counts = Counter(route for result in found.results for route in result.missing)
    often = [f"{route} in {n}" for route, n in counts.most_common() if n > 2]
    title = "Missing routes"
    if not rows:
        return AuditSection(title, ["Every file has a record for every route."])
    text = f"{len(rows)} of {len(found.results)} results lack records of {len(counts)} different routes."
    if often:
        text += f" Missing in more than two of them: {', '.join(often)} results."
    return AuditSection(title, [text], TextTable(["result", "n", "routes"], rows, "lrl"))


def _inconsistent(found: FileAudit) -> list[AuditSection]:
    """Records whose scores contradict each other, from summaries that check it."""
    checked = [result for result in found.results if "inconsistent" in result.summary]
    if not checked:
        return []
    rows = [[r.name, one["text"]] for r in checked for one in r.summary["inconsistent"]]
    text = (
        f"{sum(r.summary['n_inconsistent'] for r in checked)} records of {len(checked)} results have a composed score "
        "that is not route score times penalty, or a penalty that is not that of their infractions. They count as the "
        "file says."
    )
    table = TextTable(["result", "contradiction"], rows) if rows else None
    return [AuditSection("Inconsistent records", [text], table)]


def _ranking(found: FileAudit, measure: str) -> AuditSection:
    ranked = found.rankings[measure]
    rows = []
    for place, i in enumerate(ranked.order, 1):
        result = found.results[i]
        pair = ranked.next_pairs[place - 1] if place <= len(ranked.next_pairs) else None
        gap = [NONE, NONE] if pair is None else [_with_span(pair.value, pair.ci, signed=True), pair.verdict]
        figures = [f"{result.printed_figure(measure):.2f}", f"{result.summary[measure]:.2f}"]
        rows.append([place, result.name, *figures, ranked.recomputed_ranks[i], *gap])
    headers = ["place", "result", "printed", "recomputed", "place then", "less the next [95 %]", "order"]
    counts = ranked.verdicts
    text = (
        f"Ordered by the printed {MEASURES[measure]}. The order of two results holds if the 95 % interval of their "
        "paired difference by route excludes 0, and is open if it includes 0: these files do not decide it. Of all "
        f"{sum(counts.values())} pairs, {counts['holds']} hold, {counts['open']} are open, {counts['reversed']} are "
        f"reversed and {counts['tie']} are printed as equal. A route without a record is 0 here too, whatever the "
        "cause; the intervals are not adjusted for the number of pairs."
    )
    return AuditSection(f"Published ranking by {MEASURES[measure]}", [text], TextTable(headers, rows, "rlrrrll"))


def _matrix(found: FileAudit, measure: str) -> AuditSection:
    by_place = {(pair.a, pair.b): pair for pair in found.pairs[measure]}
    n = len(found.results)
    rows = []
    for j in range(1, n):
        cells = [_cell(by_place[i, j]) if i < j else "" for i in range(n - 1)]
        rows.append([f"{j + 1} {found.results[j].name}", *cells])
    text = (
        f"{MEASURES[measure]} of the column's result less that of the row's, paired by route, with half the width of "
        "the 95 % interval. A star: the interval excludes 0. The columns have the numbers of the first table; "
        "audit.json has both limits."
    )
    headers = ["less", *(str(i + 1) for i in range(n - 1))]
    return AuditSection(
        f"Paired differences: {MEASURES[measure]}", [text], TextTable(headers, rows, "l" + "r" * (n - 1))
    )


def _cell(pair: PairedDifference) -> str:
    half = NONE if pair.ci is None else f"{(pair.ci.high - pair.ci.low) / 2:.1f}"
    return f"{pair.value:+.1f} ±{half}" + (MARK if pair.excludes_zero else "")


def _sample_size(found: FileAudit) -> list[AuditSection]:
    plans = {measure: one for measure, one in found.plans.items() if one is not None}
    if not plans:
        return []
    rows = [row for measure, one in plans.items() for row in _demands(measure, one)]
    headers = ["", "s by route", "seen on these routes", "routes", f"routes, {100 * POWER:.0f} % power"]
    first = next(iter(plans.values()))
    text = (
        f"From the differences by route of {first.pairs} pairs of results; the rows are the quartiles of their "
        "standard deviation s. Third column: the smallest difference whose interval excludes 0 on these "
        f"{len(found.routes)} routes, driven once by each of two models. Last columns: how many routes of the same "
        f"kind a difference of {POINTS:g} points needs, driven once, for an interval of ±{POINTS:g} points, and for an "
        f"interval that excludes 0 in {100 * POWER:.0f} % of repetitions."
    )
    notes = [note for measure, one in plans.items() for note in _plan_notes(measure, one, len(found.routes))]
    title = f"How many routes and seeds to see {_number(POINTS)} points"
    return [AuditSection(title, [text], TextTable(headers, rows, "lrrrr"), notes)]


def _demands(measure: str, one: SampleSizePlan) -> list[list[object]]:
    names = ("first quartile", "median", "third quartile")
    return [
        [f"{MEASURES[measure]}, {name}", f"{d.spread:.1f}", f"{d.visible:.1f}", d.routes, d.routes_with_power]
        for name, d in zip(names, one.demands, strict=True)
    ]


def _plan_notes(measure: str, one: SampleSizePlan, n: int) -> list[str]:
    shares = ", ".join(f"{100 * c.share:.1f} % over {c.n} routes" for c in one.coverages)
    notes = [
        f"{MEASURES[measure]}: of {one.coverages[0].draws} intervals of differences, each over routes drawn with "
        f"replacement from a pair of files, these shares contain the pair's mean: {shares}."
    ]
    if (seeds := one.seeds) is not None:
        notes.insert(
            0,
            f"{MEASURES[measure]} on the same {n} routes with more seeds: {', '.join(seeds.models)} driven with other "
            f"seeds differs by a standard deviation of {seeds.spread:.1f} points per route. To see {POINTS:g} points "
            f"between two such models on exactly these routes takes {seeds.seeds} seeds of each "
            f"({seeds.seeds_with_power} for {100 * POWER:.0f} % power). Seeds do not replace routes: they say nothing "
            "about other routes.",
        )
    return notes


def _files(found: FileAudit) -> AuditSection:
    named: list[tuple[str, AuditedResult | None]] = [("route file", None), *((r.name, r) for r in found.results)]
    rows = []
    for name, result in named:
        file = found.listed.routes if result is None else result.listed
        rows.append([name, file.repository, file.commit, file.path, file.sha256, file.license])
    text = (
        "Each file is identified by its commit and its sha256 (of a listing of all files, where there is one per "
        "route). The files belong to their authors and are not part of this repository."
    )
    return AuditSection(
        "Files", [text], TextTable(["result", "repository", "commit", "path", "sha256", "licence"], rows)
    )


def _not_available(found: FileAudit) -> list[AuditSection]:
    rows = [[one.name, one.reason] for one in found.listed.not_available]
    text = (
        "Published results without a result file in a public repository that could be read. A file can be added to "
        "the list."
    )
    return [AuditSection("Not available", [text], TextTable(["result", "reason"], rows))] if rows else []


def _with_span(value: float, span: Sequence[float] | ConfidenceInterval | None, signed: bool = False) -> str:
    text = f"{value:+.2f}" if signed else f"{value:.2f}"
    if span is None:
        return text
    low, high = (span.low, span.high) if isinstance(span, ConfidenceInterval) else span
    return f"{text} [{low:.1f}, {high:.1f}]"


def _two(values: Sequence[float | None]) -> str:
    return " / ".join(NONE if value is None else f"{value:.2f}" for value in values)


def _number(points: float) -> str:
    return {1.0: "one", 2.0: "two", 5.0: "five"}.get(points, f"{points:g}")
