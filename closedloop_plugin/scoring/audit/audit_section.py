"""The report of an audit as a ReportSection: captions, tables and notes for text, Markdown, page and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from closedloop_plugin.scoring.audit.audited_result import AuditedResult
from closedloop_plugin.scoring.audit.file_audit import FileAudit, to_json
from closedloop_plugin.scoring.audit.printed_figures import MEASURES, OWN_KEYS, UNEXPLAINED, ExplainedFigure
from closedloop_plugin.scoring.audit.rankings import PairedDifference, PublishedRanking
from closedloop_plugin.scoring.audit.sample_size import POINTS, POWER, SampleSizePlan
from lmms_eval_ad2.report.cell_text import NONE
from lmms_eval_ad2.report.table import ReportSection, Span, Table, TableCell

SECTION = "audit"
MARK = " *"  # behind a difference whose interval excludes 0


def audit_section(found: FileAudit) -> ReportSection:
    """All tables of the audit in their order; `data` is that of audit.json."""
    return ReportSection(
        name=SECTION,
        title="Recomputed figures",
        runs=(),
        tables=[
            _figures(found),
            _printed(found),
            _missing(found),
            _inconsistent(found),
            *(_ranking(found, measure) for measure in MEASURES),
            *(_matrix(found, measure) for measure in MEASURES),
            *_sample_size(found),
        ],
        footer=[_files(found), *_not_available(found), *_other_sets(found)],
        data=to_json(found),
    )


def _figures(found: FileAudit) -> Table:
    n = len(found.routes)
    rows: list[list[TableCell | str]] = []
    for i, result in enumerate(found.results, 1):
        summary = result.summary
        counts = [summary["n_records"], len(result.missing), summary["n_crashed"]]
        spans = [_with_span(summary[name], summary["intervals"][name]) for name in MEASURES]
        rows.append([str(i), result.name, *map(str, counts), *spans])
    text = (
        f"Both figures are means over all {n} routes. A route without a record counts 0, which is the rule of the "
        "benchmark's maintainers (Thinklab-SJTU/Bench2Drive, issue 150). The 95 % intervals come from leaving out one "
        "route at a time; they describe how far a figure could change on other routes of the same kind, each driven "
        "once. missing: routes without a record. crashed: records whose status is a crash of the simulator or the "
        "agent, or which never ended; they count with the score that they have."
    )
    headers = ["#", "result", "records", "missing", "crashed", "Driving Score [95 %]", "Success Rate % [95 %]"]
    return Table(headers, rows, "rlrrrrr", f"Figures over all {n} routes", caption=[text])


def _printed(found: FileAudit) -> Table:
    rows = []
    for result, figures in zip(found.results, found.explained, strict=True):
        for source in dict.fromkeys(one.source for one in figures):
            of_source = {one.measure: one for one in figures if one.source == source}
            printed = _two([one.printed if (one := of_source.get(m)) else None for m in MEASURES])
            recomputed = _two([one.recomputed if (one := of_source.get(m)) else None for m in MEASURES])
            rows.append([result.name, source, printed, recomputed, _meaning([*of_source.values()])])
    everything = [one for figures in found.explained for one in figures]
    whole = sum(one.reproduced for one in everything)
    own = sum(one.source == OWN_KEYS for one in everything)
    elsewhere = sum(one.equal_over is not None and not one.reproduced for one in everything)
    text = (
        f"Published figures: {len(everything)}, of which {len(everything) - own} are printed and {own} are {OWN_KEYS}. "
        f"Equal to the mean over all {len(found.routes)} routes: {whole}. Equal to the mean over another number of "
        f"records, or of another file: {elsewhere}. Unexplained: {len(everything) - whole - elsewhere}. Equal means "
        "within 0.01, so that a figure whose decimals are cut off instead of rounded counts "
        f"({_not_rounded(found)}). The figures of one source are explained together: they "
        "must be means of one result over the same routes, and another result is named only if both measures are "
        "printed and equal. A mean over the records of a file leaves out "
        "the routes without a record; the drives behind it are the same. DS: Driving Score, SR: Success Rate (%)."
    )
    notes = [f"{result.name}: {result.listed.note}" for result in found.results if result.listed.note]
    headers = ["result", "published in", "published DS / SR", "over all routes", "the published figures are"]
    return Table(headers, rows, "llrrl", "Published and recomputed", caption=[text], notes=notes)


def _not_rounded(found: FileAudit) -> str:
    names = [
        f"{result.name}, {MEASURES[one.measure]} {one.printed:.2f} for {one.not_rounded:.3f}"
        for result, figures in zip(found.results, found.explained, strict=True)
        for one in figures
        if one.not_rounded is not None
    ]
    return "; ".join(names) or "none here"


def _meaning(figures: Sequence[ExplainedFigure]) -> str:
    """What the figures of one source are, in one text if both are the same."""
    texts = dict.fromkeys(one.text for one in figures)
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(f"{MEASURES[one.measure]}: {one.text}" for one in figures)


def _missing(found: FileAudit) -> Table:
    rows = [[r.name, str(len(r.missing)), ", ".join(r.missing)] for r in found.results if r.missing]
    counts = Counter(route for result in found.results for route in result.missing)
    often = [f"{route} ({n} results)" for route, n in counts.most_common() if n > 2]
    text = f"Results with missing routes: {len(rows)} of {len(found.results)}. Different routes: {len(counts)}."
    if often:
        text += f" Missing in more than two results: {', '.join(often)}."
    if not rows:
        text = "Every file has a record for every route."
    return Table(["result", "n", "routes"], rows, "lrl", "Missing routes", caption=[text])


def _inconsistent(found: FileAudit) -> Table:
    """Records whose scores contradict each other, and those that could not be checked."""
    rows = [[r.name, one["text"]] for r in found.results for one in r.summary["inconsistent"]]
    notes = [
        f"{r.name}: not checked, {reason}: {len(routes)} record(s)"
        for r in found.results
        for reason, routes in r.summary["unchecked"].items()
    ]
    text = (
        "A record is inconsistent if its composed score is not route score times penalty, or its penalty is not that "
        "of the listed infractions under the benchmark's rules, beyond the rounding of the file. It counts as the file "
        f"says. Inconsistent: {sum(r.summary['n_inconsistent'] for r in found.results)} of "
        f"{sum(r.summary['n_records'] for r in found.results)} records."
    )
    return Table(["result", "contradiction"], rows, title="Inconsistent records", caption=[text], notes=notes)


def _ranking(found: FileAudit, measure: str) -> Table:
    ranked = found.rankings[measure]
    rows: list[list[TableCell | str]] = []
    figures_of = [_first_figure(found, measure, i) for i in ranked.order]
    for place, (i, figure) in enumerate(zip(ranked.order, figures_of, strict=True), 1):
        pair = ranked.next_pairs[place - 1] if place <= len(ranked.next_pairs) else None
        gap = [NONE, NONE] if pair is None else [_with_span(pair.value, pair.ci, signed=True), pair.verdict]
        figures = [f"{figure.printed:.2f}", figure.over, f"{figure.recomputed:.2f}", str(ranked.recomputed_ranks[i])]
        rows.append([str(place), found.results[i].name, *figures, *gap, figure.source])
    headers = ["place", "result", "published", "over", "recomputed", "place recomputed"]
    headers += ["difference to the next [95 %]", "order", "published in"]
    title = f"Published ranking by {MEASURES[measure]}"
    text, notes = _ranking_text(ranked), _ranking_notes(found, ranked, figures_of)
    return Table(headers, rows, "rlrlrrrll", title, caption=[text], notes=notes)


def _first_figure(found: FileAudit, measure: str, i: int) -> ExplainedFigure:
    """The figure that gives result `i` its place: AuditedResult.printed_figure with its source."""
    return next(one for one in found.explained[i] if one.measure == measure)


def _ranking_text(ranked: PublishedRanking) -> str:
    counts = ranked.verdicts
    return (
        f"Ordered by the published {MEASURES[ranked.measure]}: the first one that the authors print, else the one that "
        f"the file states itself ({OWN_KEYS}). The published figures are means over different routes (over); they are "
        "ordered as they are. The difference to the next result is recomputed over all routes, paired by "
        "route; a route without a record is 0, whatever the cause. The order of two results holds if the 95 % interval "
        "of their difference excludes 0 on the published side, is reversed if it excludes 0 on the other side, and is "
        "open if it includes 0: these files do not decide it. tie: published as equal to two decimals. Of all "
        f"{sum(counts.values())} pairs: holds {counts['holds']}, open {counts['open']}, reversed {counts['reversed']}, "
        f"tie {counts['tie']}. The intervals are not adjusted for the number of pairs."
    )


def _ranking_notes(found: FileAudit, ranked: PublishedRanking, figures: Sequence[ExplainedFigure]) -> list[str]:
    """What limits the ranking: different denominators, figures that nobody printed, results without a figure."""
    over = Counter(UNEXPLAINED if one.equal_over is None else str(one.equal_over) for one in figures)
    notes = [f"published figures over {', '.join(f'{what}: {n}' for what, n in over.most_common())}"] if over else []
    names = [found.results[i].name for i, one in zip(ranked.order, figures, strict=True) if one.source == OWN_KEYS]
    if names:
        notes.append(f"not printed, but stated by the file itself: {'; '.join(names)}")
    if ranked.unprinted:
        names = [found.results[i].name for i in ranked.unprinted]
        notes.append(f"no {MEASURES[ranked.measure]} published, without a place and a verdict: {'; '.join(names)}")
    return notes


def _matrix(found: FileAudit, measure: str) -> Table:
    by_place = {(pair.a, pair.b): pair for pair in found.pairs[measure]}
    n = len(found.results)
    rows = []
    for j in range(1, n):
        cells = [_cell(by_place[i, j]) if i < j else "" for i in range(n - 1)]
        rows.append([f"{j + 1} {found.results[j].name}", *cells])
    text = (
        f"{MEASURES[measure]} of the column's result less that of the row's, in points, paired by route, and half the "
        "width of its 95 % interval. A star marks an interval that excludes 0. The columns have the numbers of the "
        "first table; audit.json has both limits of each interval."
    )
    title = f"Paired differences: {MEASURES[measure]}"
    headers = ["", *(str(i + 1) for i in range(n - 1))]
    notes = [
        f"{found.results[pair.a].name} and {found.results[pair.b].name}: over {pair.routes} routes; the others have "
        "different towns or scenarios under the same id in the two files"
        for pair in found.pairs[measure]
        if pair.routes < len(found.routes)
    ]
    return Table(headers, rows, "l" + "r" * (n - 1), title, caption=[text], notes=notes)


def _cell(pair: PairedDifference) -> TableCell:
    half = NONE if pair.ci is None else f"{(pair.ci[1] - pair.ci[0]) / 2:.1f}"
    mark = MARK if pair.excludes_zero else ""
    return TableCell(f"{pair.value:+.1f}{mark}", f"±{half}", marked=pair.excludes_zero)


def _sample_size(found: FileAudit) -> list[Table]:
    plans = {measure: one for measure, one in found.plans.items() if one is not None}
    if not plans:
        return []
    rows = [row for measure, one in plans.items() for row in _demands(measure, one)]
    power = f"{100 * POWER:.0f} %"
    n = len(found.routes)
    headers = ["", "s", f"visible on {n} routes", f"routes for ±{POINTS:g}", f"routes for {power} power"]
    first = next(iter(plans.values()))
    text = (
        f"From the differences by route of {first.pairs} pairs of results of different models. s: the standard "
        "deviation of a pair's differences over routes, in points; the rows are its quartiles over the pairs. Visible: "
        f"the smallest difference in points whose interval excludes 0 on {n} routes, driven once by each of two "
        f"models. The last two columns concern a difference of {POINTS:g} points on routes of the same kind, driven "
        f"once: the number of routes for an interval of ±{POINTS:g} points, and for an interval that excludes 0 in "
        f"{power} of repetitions."
    )
    notes = [note for measure, one in plans.items() for note in _plan_notes(measure, one, n)]
    title = f"Routes and seeds needed to see a difference of {POINTS:g} points"
    return [Table(headers, rows, "lrrrr", title, caption=[text], notes=notes)]


def _demands(measure: str, one: SampleSizePlan) -> list[list[str]]:
    names = ("first quartile", "median", "third quartile")
    return [
        [f"{MEASURES[measure]}, {name}", f"{d.spread:.1f}", f"{d.visible:.1f}", str(d.routes), str(d.routes_with_power)]
        for name, d in zip(names, one.demands, strict=True)
    ]


def _plan_notes(measure: str, one: SampleSizePlan, n: int) -> list[str]:
    shares = ", ".join(f"{100 * c.share:.1f} % over {c.n} routes" for c in one.coverages)
    notes = [
        f"{MEASURES[measure]}, check of the intervals: {one.coverages[0].draws} times, routes of a random pair of "
        "files were drawn with replacement and the interval of their mean difference was computed. Share of intervals "
        f"that contain the mean of the pair's whole files (95 % expected): {shares}."
    ]
    if (seeds := one.seeds) is not None:
        notes.insert(
            0,
            f"{MEASURES[measure]}, more seeds on the same {n} routes: over the seeds of {', '.join(seeds.models)}, the "
            f"score of a route has a standard deviation of {seeds.spread:.1f} points. To see {POINTS:g} points between "
            f"two such models on exactly these routes takes {seeds.seeds} seeds of each ({seeds.seeds_with_power} for "
            f"{100 * POWER:.0f} % power). More seeds do not replace more routes: they say nothing about other routes.",
        )
    return notes


def _files(found: FileAudit) -> Table:
    named: list[tuple[str, AuditedResult | None]] = [("route file", None), *((r.name, r) for r in found.results)]
    rows = []
    for name, result in named:
        file = found.listed.routes if result is None else result.listed
        rows.append([name, file.repository, file.path, file.license, file.commit, file.sha256])
    text = (
        "Each file is identified by its commit and its sha256. Where a result has one file per route, the sha256 is "
        "that of a listing of its files. The files belong to their authors and are not part of this repository."
    )
    headers = ["result", "repository", "path", "licence", "commit", "sha256"]
    return Table(headers, rows, title="Files", caption=[text])


def _not_available(found: FileAudit) -> list[Table]:
    rows = [[one.name, one.reason] for one in found.listed.not_available]
    text = "Results of which no public file was found that could be read. A file at a public commit can be added."
    return [Table(["result", "reason"], rows, title="Not available", caption=[text])] if rows else []


def _other_sets(found: FileAudit) -> list[Table]:
    headers = ["result", "published Driving Score", "published Success Rate %"]
    return [
        Table(
            headers,
            [[row.name, *(NONE if v is None else f"{v:.2f}" for v in (row.driving_score, row.success_rate))]
             for row in one.printed],
            "lrr",
            f"{one.name}: published, not recomputed",
            caption=[f"As printed in {one.source}. Figures of other routes: not comparable with those above."],
            notes=[one.note],
        )
        for one in found.listed.other_sets
    ]  # fmt: skip


def _with_span(value: float, span: Span | None, signed: bool = False) -> TableCell:
    figure = f"{value:{'+' if signed else ''}.2f}"
    return TableCell(figure, f"[{span[0]:.1f}, {span[1]:.1f}]" if span else "")


def _two(values: Sequence[float | None]) -> str:
    return " / ".join(NONE if value is None else f"{value:.2f}" for value in values)
