"""The report of an audit as a ReportSection: captions, tables and notes for text, Markdown, page and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from closedloop_plugin.scoring.audit.recomputed import MEASURES, OWN_KEYS, UNEXPLAINED
from closedloop_plugin.scoring.audit.sample_size import POINTS, POWER
from lmms_eval_ad2.report.cell_text import NONE
from lmms_eval_ad2.report.table import ReportSection, Table, TableCell

SECTION = "audit"
MARK = " *"  # behind a difference whose interval excludes 0

Audit = Mapping[str, Any]  # the content of audit.json
Rows = list[list[TableCell | str]]


def audit_section(found: Audit) -> ReportSection:
    """All tables of the audit in their order."""
    tables = [_figures(found), _printed(found), _missing(found), _inconsistent(found)]
    tables += [_ranking(found, measure) for measure in MEASURES]
    tables += [_matrix(found, measure) for measure in MEASURES]
    plans = [plan for plan in found["sample_size"].values() if plan]
    tables += [_sample_size(plans, found["routes"]["n"])] if plans else []
    footer = [_files(found), *_not_available(found), *map(_other_set, found.get("other_sets", ()))]
    return ReportSection(
        name=SECTION, title="Recomputed figures", runs=(), tables=tables, footer=footer, data=found
    )  # fmt: skip


def _figures(found: Audit) -> Table:
    n = found["routes"]["n"]
    rows: Rows = []
    for i, one in enumerate(found["results"], 1):
        counts = [one["n_records"], one["n_missing"], one["n_crashed"]]
        spans = [_with_span(one[name], one["intervals"][name]) for name in MEASURES]
        rows.append([str(i), one["name"], *map(str, counts), *spans])
    text = (
        f"Both figures are means over all {n} routes. A route without a record counts 0, which is the rule of the "
        "benchmark's maintainers (Thinklab-SJTU/Bench2Drive, issue 150). The 95 % intervals come from leaving out one "
        "route at a time; they describe how far a figure could change on other routes of the same kind, each driven "
        "once. missing: routes without a record. crashed: records whose status is a crash of the simulator or the "
        "agent, or which never ended; they count with the score that they have."
    )
    headers = ["#", "result", "records", "missing", "crashed", "Driving Score [95 %]", "Success Rate % [95 %]"]
    return Table(headers, rows, "rlrrrrr", f"Figures over all {n} routes", caption=[text])


def _printed(found: Audit) -> Table:
    rows = []
    for result in found["results"]:
        for source in dict.fromkeys(one["source"] for one in result["printed"]):
            figures = {one["measure"]: one for one in result["printed"] if one["source"] == source}
            pairs = [
                " / ".join(f"{figures[name][key]:.2f}" if name in figures else NONE for name in MEASURES)
                for key in ("printed", "recomputed")
            ]
            texts = {one["text"] for one in figures.values()}
            named = [f"{MEASURES[name]}: {one['text']}" for name, one in figures.items()]
            rows.append([result["name"], source, *pairs, texts.pop() if len(texts) == 1 else "; ".join(named)])
    everything = [(result["name"], one) for result in found["results"] for one in result["printed"]]
    whole = sum(one["reproduced"] for _, one in everything)
    own = sum(one["source"] == OWN_KEYS for _, one in everything)
    elsewhere = sum(one["equal_over"] is not None and not one["reproduced"] for _, one in everything)
    equal = [(name, one, one["equal_over"][one["measure"]]) for name, one in everything if one["equal_over"]]
    not_rounded = [
        f"{name}, {MEASURES[one['measure']]} {one['printed']:.2f} for {mean:.3f}"
        for name, one, mean in equal
        if f"{mean:.2f}" != f"{one['printed']:.2f}"
    ]
    text = (
        f"Published figures: {len(everything)}, of which {len(everything) - own} are printed and {own} are {OWN_KEYS}. "
        f"Equal to the mean over all {found['routes']['n']} routes: {whole}. Equal to the mean over another number of "
        f"records, or of another file: {elsewhere}. Unexplained: {len(everything) - whole - elsewhere}. Equal means "
        "within 0.01, so that a figure whose decimals are cut off instead of rounded counts "
        f"({'; '.join(not_rounded) or 'none here'}). The figures of one source are explained together: they "
        "must be means of one result over the same routes, and another result is named only if both measures are "
        "printed and equal. A mean over the records of a file leaves out "
        "the routes without a record; the drives behind it are the same. DS: Driving Score, SR: Success Rate (%)."
    )
    notes = [f"{result['name']}: {result['note']}" for result in found["results"] if result["note"]]
    headers = ["result", "published in", "published DS / SR", "over all routes", "the published figures are"]
    return Table(headers, rows, "llrrl", "Published and recomputed", caption=[text], notes=notes)


def _missing(found: Audit) -> Table:
    by_result = {one["name"]: [route for route, _ in one["missing"]] for one in found["results"] if one["missing"]}
    rows = [[name, str(len(routes)), ", ".join(routes)] for name, routes in by_result.items()]
    counts = Counter(route for routes in by_result.values() for route in routes)
    often = [f"{route} ({n} results)" for route, n in counts.most_common() if n > 2]
    text = "Every file has a record for every route."
    if rows:
        n = len(found["results"])
        text = f"Results with missing routes: {len(rows)} of {n}. Different routes: {len(counts)}."
    if often:
        text += f" Missing in more than two results: {', '.join(often)}."
    return Table(["result", "n", "routes"], rows, "lrl", "Missing routes", caption=[text])


def _inconsistent(found: Audit) -> Table:
    """Records whose scores contradict each other, and those that could not be checked."""
    results = found["results"]
    rows = [[result["name"], one["text"]] for result in results for one in result["inconsistent"]]
    notes = [
        f"{result['name']}: not checked, {reason}: {len(routes)} record(s)"
        for result in results
        for reason, routes in result["unchecked"].items()
    ]
    text = (
        "A record is inconsistent if its composed score is not route score times penalty, or its penalty is not that "
        "of the listed infractions under the benchmark's rules, beyond the rounding of the file. It counts as the file "
        f"says. Inconsistent: {sum(result['n_inconsistent'] for result in results)} of "
        f"{sum(result['n_records'] for result in results)} records."
    )
    return Table(["result", "contradiction"], rows, title="Inconsistent records", caption=[text], notes=notes)


def _ranking(found: Audit, measure: str) -> Table:
    ranked, title = found["rankings"][measure], MEASURES[measure]
    names = {one["id"]: one["name"] for one in found["results"]}
    figures: dict[str, Any] = {}  # of each result the one that gives it its place
    for one in found["results"]:
        for figure in reversed(one["printed"]):
            if figure["measure"] == measure:
                figures[one["id"]] = figure
    rows: Rows = []
    for place, id in enumerate(ranked["published_order"], 1):
        gap: list[TableCell | str] = [NONE, NONE]
        if place <= len(ranked["next_pairs"]):
            pair = ranked["next_pairs"][place - 1]
            gap = [_with_span(pair["difference"], pair["interval"], "+"), pair["verdict"]]
        one, recomputed = figures[id], str(ranked["recomputed_ranks"][id])
        published = [f"{one['printed']:.2f}", one["over"], f"{one['recomputed']:.2f}", recomputed]
        rows.append([str(place), names[id], *published, *gap, one["source"]])
    counts = Counter(ranked["verdicts"])
    text = (
        f"Ordered by the published {title}: the first one that the authors print, else the one that "
        f"the file states itself ({OWN_KEYS}). The published figures are means over different routes (over); they are "
        "ordered as they are. The difference to the next result is recomputed over all routes, paired by "
        "route; a route without a record is 0, whatever the cause. The order of two results holds if the 95 % interval "
        "of their difference excludes 0 on the published side, is reversed if it excludes 0 on the other side, and is "
        "open if it includes 0: these files do not decide it. tie: published as equal to two decimals. Of all "
        f"{sum(counts.values())} pairs: holds {counts['holds']}, open {counts['open']}, reversed {counts['reversed']}, "
        f"tie {counts['tie']}. The intervals are not adjusted for the number of pairs."
    )
    placed = [(id, figures[id]) for id in ranked["published_order"]]
    over = Counter(_basis(figure) for _, figure in placed)
    notes = [f"published figures over {', '.join(f'{what}: {n}' for what, n in over.most_common())}"] if over else []
    if stated := [names[id] for id, figure in placed if figure["source"] == OWN_KEYS]:
        notes.append(f"not printed, but stated by the file itself: {'; '.join(stated)}")
    if without := [names[id] for id in ranked["without_a_printed_figure"]]:
        notes.append(f"no {title} published, without a place and a verdict: {'; '.join(without)}")
    headers = ["place", "result", "published", "over", "recomputed", "place recomputed"]
    headers += ["difference to the next [95 %]", "order", "published in"]
    return Table(headers, rows, "rlrlrrrll", f"Published ranking by {title}", caption=[text], notes=notes)


def _basis(figure: Mapping[str, Any]) -> str:
    """The number and kind of routes of a published figure, whichever result they are of."""
    basis = figure["equal_over"]
    return f"{basis['n']} {basis['what']}" if basis else UNEXPLAINED


def _matrix(found: Audit, measure: str) -> Table:
    title, n = MEASURES[measure], len(found["results"])
    names = {one["id"]: one["name"] for one in found["results"]}
    pairs = {(pair["a"], pair["b"]): pair for pair in found["pairs"][measure]}
    rows: Rows = []
    for j, row in list(enumerate(names, 1))[1:]:
        cells = [_difference(pairs[column, row]) if (column, row) in pairs else "" for column in list(names)[: n - 1]]
        rows.append([f"{j} {names[row]}", *cells])
    text = (
        f"{title} of the column's result less that of the row's, in points, paired by route, and half the "
        "width of its 95 % interval. A star marks an interval that excludes 0. The columns have the numbers of the "
        "first table; audit.json has both limits of each interval."
    )
    notes = [
        f"{names[pair['a']]} and {names[pair['b']]}: over {pair['routes']} routes; the others have "
        "different towns or scenarios under the same id in the two files"
        for pair in pairs.values()
        if pair["routes"] < found["routes"]["n"]
    ]
    headers = ["", *(str(i) for i in range(1, n))]
    align = "l" + "r" * (n - 1)
    return Table(headers, rows, align, f"Paired differences: {title}", caption=[text], notes=notes)


def _difference(pair: Mapping[str, Any]) -> TableCell:
    ci = pair["interval"]
    if ci is None:
        return TableCell(f"{pair['difference']:+.1f}", f"±{NONE}")
    marked = ci[0] > 0 or ci[1] < 0
    return TableCell(f"{pair['difference']:+.1f}{MARK * marked}", f"±{(ci[1] - ci[0]) / 2:.1f}", marked=marked)


def _sample_size(plans: Sequence[Mapping[str, Any]], n: int) -> Table:
    power = f"{100 * POWER:.0f} %"
    rows, notes = [], []
    for plan in plans:
        title = MEASURES[plan["measure"]]
        for name, d in zip(("first quartile", "median", "third quartile"), plan["demands"], strict=True):
            figures = [f"{d['spread']:.1f}", f"{d['visible']:.1f}", str(d["routes"]), str(d["routes_with_power"])]
            rows.append([f"{title}, {name}", *figures])
        if seeds := plan["seeds"]:
            notes.append(
                f"{title}, more seeds on the same {n} routes: over the seeds of {', '.join(seeds['models'])}, the "
                f"score of a route has a standard deviation of {seeds['spread']:.1f} points. To see {POINTS:g} points "
                f"between two such models on exactly these routes takes {seeds['seeds']} seeds of each "
                f"({seeds['seeds_with_power']} for {power} power). More seeds do not replace more routes: they say "
                "nothing about other routes."
            )
        shares = ", ".join(f"{100 * one['share']:.1f} % over {one['n']} routes" for one in plan["coverages"])
        notes.append(
            f"{title}, check of the intervals: {plan['coverages'][0]['draws']} times, routes of a random pair of "
            "files were drawn with replacement and the interval of their mean difference was computed. Share of "
            f"intervals that contain the mean of the pair's whole files (95 % expected): {shares}."
        )
    text = (
        f"From the differences by route of {plans[0]['pairs']} pairs of results of different models. s: the standard "
        "deviation of a pair's differences over routes, in points; the rows are its quartiles over the pairs. Visible: "
        f"the smallest difference in points whose interval excludes 0 on {n} routes, driven once by each of two "
        f"models. The last two columns concern a difference of {POINTS:g} points on routes of the same kind, driven "
        f"once: the number of routes for an interval of ±{POINTS:g} points, and for an interval that excludes 0 in "
        f"{power} of repetitions."
    )
    headers = ["", "s", f"visible on {n} routes", f"routes for ±{POINTS:g}", f"routes for {power} power"]
    title = f"Routes and seeds needed to see a difference of {POINTS:g} points"
    return Table(headers, rows, "lrrrr", title, caption=[text], notes=notes)


def _files(found: Audit) -> Table:
    named = [("route file", found["routes"]), *((one["name"], one) for one in found["results"])]
    rows = [[name, *(file[key] for key in ("repository", "path", "license", "commit", "sha256"))]
            for name, file in named]  # fmt: skip
    text = (
        "Each file is identified by its commit and its sha256. Where a result has one file per route, the sha256 is "
        "that of a listing of its files. The files belong to their authors and are not part of this repository."
    )
    headers = ["result", "repository", "path", "licence", "commit", "sha256"]
    return Table(headers, rows, title="Files", caption=[text])


def _not_available(found: Audit) -> list[Table]:
    rows = [[one["name"], one["reason"]] for one in found["not_available"]]
    text = "Results of which no public file was found that could be read. A file at a public commit can be added."
    return [Table(["result", "reason"], rows, title="Not available", caption=[text])] if rows else []


def _other_set(one: Mapping[str, Any]) -> Table:
    rows = [
        [row["name"], *(NONE if row[name] is None else f"{row[name]:.2f}" for name in MEASURES)]
        for row in one["printed"]
    ]
    text = f"As printed in {one['source']}. Figures of other routes: not comparable with those above."
    title, headers = f"{one['name']}: published, not recomputed", ["result"]
    headers += ["published Driving Score", "published Success Rate %"]
    return Table(headers, rows, "lrr", title, caption=[text], notes=[one["note"]])


def _with_span(value: float, span: Sequence[float] | None, sign: str = "") -> TableCell:
    return TableCell(f"{value:{sign}.2f}", f"[{span[0]:.1f}, {span[1]:.1f}]" if span else "")
