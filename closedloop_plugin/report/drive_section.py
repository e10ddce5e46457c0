"""`ad2 report` for drives: scores of run folders and official result files side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.report.results import DriveResults, read_results, short_names
from closedloop_plugin.report.score_text import tests_none
from closedloop_plugin.report.section_tables import cause_shares, cause_tables, published_tables
from closedloop_plugin.scenarios.suites.lookup import BENCH2DRIVE, EMBEDDED
from closedloop_plugin.scoring.ability import VARIANTS
from closedloop_plugin.scoring.ceilings import version_text
from closedloop_plugin.scoring.driving import latest
from closedloop_plugin.scoring.published import published as papers
from closedloop_plugin.scoring.run_records import UNKNOWN, DriveProvenance
from closedloop_plugin.scoring.summary import summarise
from lmms_eval_ad2.report.cell_text import NONE, number
from lmms_eval_ad2.report.table import (
    CategoryPlot,
    PlotSeries,
    ReportSection,
    SectionRun,
    Span,
    Table,
    TableCell,
)

SECTION = "drive"
COMFORT = "official"
SCORES = ("driving_score", "success_rate", "efficiency", "comfortness", "skill_score")
PAPER = ("success_rate", "driving_score", "efficiency", "comfortness", "skill_score")  # the order of its tables
IN_PERCENT = ("driving_score", "success_rate", "comfortness", "skill_score")  # one axis; efficiency may exceed 100
TITLES = {
    "driving_score": "Driving Score", "success_rate": "Success Rate %", "efficiency": "Efficiency %",
    "comfortness": "Comfortness %", "skill_score": "Skill Score %",
}  # fmt: skip
HEADERS = {name: title.replace(" ", "\n", 1) for name, title in TITLES.items()}
LABELS = {"backend": "world", "comfort": "comfort mode", "waiting": "model time"}
INTERVALS = (
    "In brackets 95 % intervals over routes (leave one out, Student's t). An episode without a record counts 0 in "
    "Driving Score and Success Rate and is left out of the other figures. † partial, see the notes."
)
ELSEWHERE = "NOT comparable with figures driven in CARLA"


@dataclass(frozen=True)
class ScoredRun:
    """Results with their summary (keys: scoring/summary.py) and their provenance."""

    results: DriveResults
    scores: Mapping[str, Any]
    provenance: DriveProvenance

    @property
    def name(self) -> str:
        return self.results.name


def scored(results: DriveResults, traffic_signs: str | None = None) -> ScoredRun:
    """Score results over the routes that were to be driven. Raises Ad2Error if their routes are not known.

    traffic_signs: variant of this ability; None: that of the suite.
    """
    found = summarise(
        results.records, results.routes, results.profile, results.repetitions, comfort_mode=COMFORT,
        identity=results.identity, traffic_signs=traffic_signs or results.signs,
    )  # fmt: skip
    return ScoredRun(results, found, DriveProvenance(**found["provenance"]))


def report(
    paths: Sequence[Path], *, routes: str | None, published: bool, traffic_signs: str | None = None
) -> ReportSection:
    """The section of these results, each one of `results.find`."""
    named = zip(paths, short_names(paths), strict=True)
    results = [read_results(path, routes, name) for path, name in named]
    return report_section(results, published=published, traffic_signs=traffic_signs)


def report_section(
    results: Sequence[DriveResults], *, published: bool, traffic_signs: str | None = None
) -> ReportSection:
    """The section of all runs: scores, abilities, scenario types, inconsistent records, routes without success."""
    runs = [scored(one, traffic_signs) for one in results]
    caption = captions([(run.name, run.provenance) for run in runs])
    able = [run for run in runs if not tests_none(run.scores)]
    tabled = [_scores(runs, caption), *([_abilities(able, caption)] if able else []), _types(runs, caption)]
    tabled += [_decisions(runs)] if any(run.results.costs for run in runs) else []
    tabled += [_inconsistent(runs, caption)] if any(run.scores["inconsistent"] for run in runs) else []
    failing = [run for run in runs if run.scores["n_faulted"] or run.scores["success_rate"] not in (None, 100.0)]
    tabled += [_unsuccessful(run) for run in failing]
    tabled[1:1] = _by_systems(runs)
    notes = []
    for run in runs:
        whole, n = len(run.results.suite.routes) if run.results.suite else 0, len(run.results.asked)
        fewer = f"{n} of the {whole} routes of its suite were asked for: its figures are over these"
        own = [*([fewer] if n < whole else []), *run.results.notes, *run.scores["notes"]]
        notes += [f"{run.name}: {note}" for note in own]
    # The paper's standard routes beside runs on these routes under its profile.
    suites = (BENCH2DRIVE, EMBEDDED)
    under = [r for r in runs if r.results.profile.name == "bench2advlm" and r.provenance.suite in suites]
    worlds = " and ".join(dict.fromkeys(run.provenance.backend for run in under))
    shares = cause_shares([(run.name, run.results.episodes) for run in runs])
    tabled += cause_tables(shares)
    return ReportSection(
        name=SECTION,
        title="Closed loop",
        runs=[SectionRun(run.name, facts_of(run.results, run.provenance)) for run in runs],
        tables=tabled,
        warnings=[
            *(f"{run.name}: {run.results.training}" for run in runs if run.results.training),
            *elsewhere([(run.name, run.provenance) for run in runs]),
        ],
        notes=[*notes, *_variants(runs), INTERVALS],
        footer=published_tables(papers(), worlds, ("standard", "section 5")) if published and under else (),
        data={"runs": [_data(run) for run in runs], "causes": shares},
    )


def captions(runs: Sequence[tuple[str, DriveProvenance]]) -> list[str]:
    """The provenance of all runs: facts that they share in one line, then what differs by run."""
    every = [about.facts() for _, about in runs]
    if len(runs) == 1:
        return [runs[0][1].line()]
    shared = {key: value for key, value in every[0].items() if all(facts[key] == value for facts in every)}
    alike: dict[str, list[str]] = {}  # text -> runs
    for (name, about), facts in zip(runs, every, strict=True):
        own = {key: value for key, value in facts.items() if key not in shared}
        if own:
            alike.setdefault(about.line() if about.official else _joined(own), []).append(name)
    lines = [f"All: {_joined(shared)}"] if shared else []
    return lines + [f"{', '.join(names)}: {text}" for text, names in alike.items()]


def _joined(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{LABELS.get(key, key)} {value}" for key, value in facts.items())


def elsewhere(runs: Sequence[tuple[str, DriveProvenance]]) -> list[str]:
    """One warning for the runs of another world than CARLA."""
    worlds: dict[str, list[str]] = {}
    for name, about in runs:
        if not about.official and about.backend != "carla":
            worlds.setdefault(about.backend, []).append(name)
    return [f"{', '.join(names)}: {world} world; {ELSEWHERE}" for world, names in worlds.items()]


def facts_of(results: DriveResults, about: DriveProvenance) -> dict[str, str]:
    """Facts of a run for the page, and the names of those not recorded. Its path is short: a page may be shared."""
    n, whole = len(results.asked), len(results.suite.routes) if results.suite else len(results.asked)
    routes = f"{n} of {results.suite.name}" if results.suite else str(n)
    named = {LABELS.get(key, key): value for key, value in about.facts().items()}
    found = {key: value for key, value in named.items() if value != UNKNOWN}
    if absent := [key for key in named if key not in found]:
        found[UNKNOWN] = ", ".join(absent)
    found["routes"] = routes + (f", which has {whole}" if n < whole else "")
    found["records"] = str(len(results.records))
    if results.training:
        found["trained on"] = results.training.removeprefix("trained on ")
    found["from"] = "/".join(results.path.absolute().parts[-2:])
    return found


def _scores(runs: Sequence[ScoredRun], caption: Sequence[str]) -> Table:
    rows: list[list[TableCell | str]] = []
    for run in runs:
        found = run.scores
        absent = f"({found['n_missing']} / {found['n_crashed']} / {found['n_faulted']})"
        counts = TableCell(str(found["n_episodes"]), absent)
        name = f"{run.name} ({run.results.training.partition(' (')[0]})" if run.results.training else run.name
        cells = [_cell(found, score, mark=score in found["partial"]) for score in SCORES]
        rows.append([name, counts, *cells, str(found["n_inconsistent"])])
    # The expert and each ceiling of the runs' tasks and interpreters, on all routes of a suite.
    known = [run.scores["ceiling"][key] for key in ("expert", "ceiling") for run in runs if run.scores["ceiling"]]
    references = list({str(row): row for row in known if row}.values())
    for row in references:
        what = f"{row['task']} through {row['interpreter']}: ceiling" if row["task"] else row["driver"]
        scores = [f"{row['driving_score']:.2f}", f"{row['success_rate']:.2f}"]
        rest = [NONE] * (len(SCORES) - len(scores) + 1)
        rows.append([f"{what} ({row['suite']}, {row['profile']})", str(row["n_routes"]), *scores, *rest])
    headers = ["run", "episodes\n(missing/\ncrashed/\nfaulted)", *(HEADERS[name] for name in SCORES), "inconsistent"]
    if not any(run.scores["n_inconsistent"] for run in runs):
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    series = [_series(run, run.scores, IN_PERCENT) for run in runs]
    return Table(
        title="Driving scores",
        headers=headers,
        rows=rows,
        align="l" + "r" * (len(headers) - 1),
        caption=caption,
        notes=[f"reference rows: {text}" for text in dict.fromkeys(version_text(row["version"]) for row in references)],
        plot=CategoryPlot([TITLES[name] for name in IN_PERCENT], series, "percent", 100.0),
    )


def _by_systems(runs: Sequence[ScoredRun]) -> list[Table]:
    """Fast system by slow system and mode, in the layout of the paper's Tables 1 and 2: a table for each suite that
    several pairs of systems drove. Runs whose driver sets the controls itself have no slow system."""
    by_suite: dict[tuple[str, bool], list[tuple[tuple[str, str, str], ScoredRun]]] = {}
    for run in runs:
        origin = run.results.records[0].origin
        if origin.get("interpreter"):
            systems = (origin.get("agent", ""), origin["interpreter"], origin.get("mode", "").upper())
            threats = bool(run.results.suite and run.results.suite.programs)
            by_suite.setdefault((run.provenance.suite, threats), []).append((systems, run))
    found = []
    for (suite, threats), drivers in by_suite.items():
        if len({systems for systems, _ in drivers}) > 1:
            rows: list[list[TableCell | str]] = [
                [*systems, *(_cell(run.scores, name, mark=name in run.scores["partial"]) for name in PAPER), run.name]
                for systems, run in sorted(drivers, key=lambda driver: driver[0])
            ]
            title = f"Fast system by slow system and mode: {suite} (layout of Bench2ADVLM, Table {2 if threats else 1})"
            headers = ["Fast system", "Slow system", "Mode", *(HEADERS[name] for name in PAPER), "run"]
            found.append(Table(title=title, headers=headers, rows=rows, align="lll" + "r" * len(PAPER) + "l"))
    return found


def _abilities(runs: Sequence[ScoredRun], caption: Sequence[str]) -> Table:
    names = list(runs[0].scores["abilities"])
    rows: list[list[TableCell | str]] = [
        [run.name, *(_cell(run.scores, name, "abilities", name in run.scores["partial"]) for name in names)]
        for run in runs
    ]
    titles = [name.replace("_", " ") for name in names]
    series = [_series(run, run.scores, names, "abilities") for run in runs]
    return Table(
        title="Abilities (Success Rate by kind of scenario, %)",
        headers=["run", *titles],
        rows=rows,
        align="l" + "r" * len(names),
        caption=caption,
        plot=CategoryPlot(titles, series, "percent", 100.0),
    )


def _types(runs: Sequence[ScoredRun], caption: Sequence[str]) -> Table:
    by_run = [{row["type"]: row for row in run.scores["types"]} for run in runs]
    types = sorted({name for rows in by_run for name in rows})
    body = []
    for name in types:
        cells = [name]
        for rows in by_run:
            row = rows.get(name)
            cells += [NONE] * 3 if row is None else [
                str(row["n"]), number(row["driving_score"], 1), number(row["success_rate"], 1)]  # fmt: skip
        body.append(cells)
    heads = [f"{run.name}: {part}" if len(runs) > 1 else part for run in runs for part in ("n", "DS", "SR %")]
    values = [[rows[name]["driving_score"] if name in rows else None for name in types] for rows in by_run]
    series = [PlotSeries(run.name, v, [None] * len(types)) for run, v in zip(runs, values, strict=True)]
    return Table(
        title="Driving Score by scenario type",
        headers=["scenario type", *heads],
        rows=body,
        align="l" + "r" * len(heads),
        caption=caption,
        plot=CategoryPlot(types, series, "Driving Score", 100.0, lines=True),
        detail=True,
    )


def _decisions(runs: Sequence[ScoredRun]) -> Table:
    """Wall time and tokens, of the runs in which models were asked."""
    rows = [
        [run.name, f"{costs.decisions:,}", costs.seconds_text, costs.each_text, costs.all_text]
        for run in runs
        if (costs := run.results.costs)
    ]
    return Table(
        title="Decisions of the models",
        headers=["run", "decisions", "seconds per decision", "tokens per decision", "tokens in all"],
        rows=rows,
        align="lrlll",
    )


def _inconsistent(runs: Sequence[ScoredRun], caption: Sequence[str]) -> Table:
    rows = [
        [run.name, found["route"], str(found["repetition"]), found["field"], f"{found['found']:.6g}",
         f"{found['expected']:.6g}", found["basis"]]
        for run in runs for found in run.scores["inconsistent"]
    ]  # fmt: skip
    return Table(
        title="Inconsistent records (counted as the file says)",
        headers=["run", "route", "rep", "score", "file", "expected", "expected is"],
        rows=rows,
        align="llrlrrl",
        caption=caption,
    )


def _unsuccessful(run: ScoredRun) -> Table:
    """The routes of one run that count as no success."""
    records, _ = latest(run.results.records)
    rows = []
    for route in run.results.routes:
        for k in range(run.results.repetitions):
            record = records.get((route.id, k))
            if record is None:
                rows.append([route.id, str(k), route.scenario, "no record", NONE, NONE])
            elif not record.success:
                kinds = (name for name, texts in record.infractions.items() if texts)
                hits = ", ".join(kind for kind in kinds if kind != "min_speed_infractions") or "none"
                score = NONE if record.fault else f"{record.score:.2f}"
                status = f"fault of the {record.fault}" if record.fault else record.status
                rows.append([route.id, str(k), route.scenario, status, score, hits])
    return Table(
        title=f"{run.name}: routes without success",
        headers=["route", "rep", "scenario type", "status", "score", "infractions"],
        rows=rows,
        align="lrllrl",
        caption=[run.provenance.line()],
        detail=True,
    )


def _variants(runs: Sequence[ScoredRun]) -> list[str]:
    """The variants of Traffic_Signs, if they are not the usual one of all runs."""
    by_variant: dict[str, list[str]] = {}
    for run in runs:
        by_variant.setdefault(run.scores["traffic_signs"], []).append(run.name)
    if [*by_variant] == [VARIANTS[0]]:
        return []
    named = "; ".join(f"{variant} for {', '.join(names)}" for variant, names in by_variant.items())
    return [f"Traffic_Signs and the Skill Score are those of Bench2Drive's variant {named}"]


def _data(run: ScoredRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "path": str(run.results.path),
        "suite": run.results.suite.name if run.results.suite else None,
        "asked": len(run.results.asked),
        "training": run.results.training or None,
        "model_decisions": asdict(run.results.costs) if run.results.costs else None,
        **run.scores,
        "n_lost": run.results.lost,
        "notes": [*run.results.notes, *run.scores["notes"]],
    }


def _cell(found: Mapping[str, Any], name: str, group: str = "", mark: bool = False) -> TableCell:
    return TableCell.of(*_of(found, name, group), 2, mark="†" if mark else "")


def _series(run: ScoredRun, found: Mapping[str, Any], names: Sequence[str], group: str = "") -> PlotSeries:
    pairs = [_of(found, name, group) for name in names]
    return PlotSeries(run.name, [value for value, _ in pairs], [span for _, span in pairs])


def _of(found: Mapping[str, Any], name: str, group: str) -> tuple[float | None, Span | None]:
    """(value, interval) of a figure of a summary."""
    values, spans = (found[group], found["intervals"][group]) if group else (found, found["intervals"])
    return values[name], spans[name]
