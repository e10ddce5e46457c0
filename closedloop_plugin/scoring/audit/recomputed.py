"""The audit itself: scores every result of a list, explains its printed figures, and compares the results.

Its results are the plain values of audit.json, from which the report is written.

A printed figure is equal to a mean if it differs by less than 0.01, its last decimal: rounded or cut off. The figures
of one source are explained together: all of them must be means of one result over the same routes. A list has dozens of
means, so that one figure alone can equal that of another result by chance; another result is named only if both
measures are equal.

Differences of two results are those of scoring/compare.py under its rule "whole": paired by route over all routes; a
route without a record is 0, as in the means. The published order of two results holds if the 95 % interval of their
difference excludes 0 on its side, is reversed if it excludes 0 on the other side, and is open if it includes 0. The
intervals are not adjusted for the number of pairs. A result without a printed figure of a measure has no place and no
verdict in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.scoring import official
from closedloop_plugin.scoring.audit.public_files import FileSources
from closedloop_plugin.scoring.audit.result_list import ListedResult, PrintedFigures, ResultList
from closedloop_plugin.scoring.audit.sample_size import plan
from closedloop_plugin.scoring.compare import compare
from closedloop_plugin.scoring.driving import driving_score, latest, success_rate
from closedloop_plugin.scoring.measures import ComparedEpisode, ComparedRun, parts_of
from closedloop_plugin.scoring.official_record import OfficialRecord
from closedloop_plugin.scoring.summary import summarise
from lmms_eval_ad2.core.numbers import is_bounded
from lmms_eval_ad2.scoring.metrics.intervals import METHOD, Floats
from lmms_eval_ad2.storage.identity import code_label
from lmms_eval_ad2.storage.untrusted_json import load

PROFILE = "bench2drive"
MEASURES = {"driving_score": "Driving Score", "success_rate": "Success Rate"}
LAST_DECIMAL = 0.01  # percent
OWN_KEYS = "keys of the file"  # source of the means that a file states itself
UNEXPLAINED = "unexplained"

# Two means over the same routes: {what, n, driving_score, success_rate, whole (all routes of the benchmark)}.
MeanBasis = dict[str, Any]


@dataclass(frozen=True)
class AuditedResult:
    """A scored result. `printed`: the figures of the list, then those that the file states itself."""

    listed: ListedResult
    run: ComparedRun  # its episodes, at most one per route, and all routes
    summary: Mapping[str, Any]  # the scores as of `ad2 drive score`
    bases: Sequence[MeanBasis]  # means that a printed figure may be
    printed: Sequence[PrintedFigures]

    def values(self) -> dict[str, Floats]:
        """measure -> value of each route in percent, shape (routes,); 0 for a route without a record."""
        present = {episode.official.route_id for episode in self.run.episodes}
        missing = [route for route in self.run.routes if route not in present]
        parts = parts_of(self.run.episodes, signs=None, missing=missing)
        return {name: np.array([parts[name][0][route][0] for route in self.run.routes]) for name in MEASURES}

    def printed_figure(self, measure: str) -> float | None:
        """The first figure of `printed` in percent, to the two decimals of a printed one; None if there is none."""
        named = [value for figures in self.printed if (value := getattr(figures, measure)) is not None]
        return round(float(named[0]), 2) if named else None


def audit(
    listed: ResultList, sources: FileSources, report: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Audit a list. `report` gets a line on each file. Raises Ad2Error for one that cannot be obtained or scored."""
    routes = read_routes(sources.find(listed.routes, "routes"))
    ids = [route.id for route in routes]
    results = []
    for result in listed.results:
        report(f"{result.name}: {result.repository}, {result.path}")
        results.append(audited(result, sources.find(result, result.id, ids), routes))
    return to_json(listed, len(ids), results)


def audited(listed: ListedResult, path: Path, routes: Sequence[Route]) -> AuditedResult:
    """Score the file or folder of a result; each route counts once. Raises Ad2Error as `ad2 drive score` does."""
    read = official.read([path])
    found = summarise(read.records, routes, profile(PROFILE))
    ids = [route.id for route in routes]
    kept, _ = latest(read.records)
    records = [record for route in ids if (record := kept.get((route, 0)))]
    run = ComparedRun(listed.name, ids, [ComparedEpisode.of(record) for record in records])
    own = own_figures(path)
    return AuditedResult(listed, run, found, bases(records, len(ids)), (*listed.printed, *([own] if own else [])))


def to_json(listed: ResultList, n_routes: int, results: Sequence[AuditedResult], draws: int = 2000) -> dict[str, Any]:
    """The audit of scored results as JSON values. `draws`: intervals behind each coverage of sample_size.py."""
    pairs = differences(results)
    values = [(result.listed.repeats, result.values()) for result in results]
    return {
        "version": code_label(),
        "profile": PROFILE,
        "interval_method": METHOD,
        "routes": {**listed.routes.model_dump(), "n": n_routes},
        "results": [_result(result, results) for result in results],
        "pairs": pairs,
        "rankings": {measure: ranking(results, measure, pairs[measure]) for measure in MEASURES},
        "sample_size": {
            measure: plan([(name, of[measure]) for name, of in values], measure, draws) for measure in MEASURES
        },
        "not_available": [one.model_dump() for one in listed.not_available],
        **({"other_sets": [one.model_dump() for one in listed.other_sets]} if listed.other_sets else {}),
    }


def _result(result: AuditedResult, results: Sequence[AuditedResult]) -> dict[str, Any]:
    counts = ("n_routes", "n_records", "n_missing", "n_duplicates", "n_crashed", "missing")
    checks = ("n_inconsistent", "inconsistent", "unchecked", "notes")
    others = {other.listed.name: other.bases for other in results if other is not result}
    return {
        **result.listed.model_dump(exclude={"printed"}),
        **{name: result.summary[name] for name in (*MEASURES, *counts, *checks)},
        "intervals": {measure: result.summary["intervals"][measure] for measure in MEASURES},
        "printed": explain(result.printed, result.bases, others),
    }


def bases(records: Sequence[OfficialRecord], n_routes: int) -> list[MeanBasis]:
    """The means that a printed figure may be, those over all routes first. `records`: at most one per route."""

    def basis(what: str, of: Sequence[OfficialRecord], n: int, whole: bool = False) -> MeanBasis:
        means = {"driving_score": driving_score(of, n), "success_rate": success_rate(of, n)}
        return {"what": what, "n": n, **means, "whole": whole}

    finished = [record for record in records if not record.crashed]
    found = [basis("routes", records, n_routes, whole=True)]
    if records and len(records) != n_routes:
        found.append(basis("records", records, len(records)))
    if 0 < len(finished) < len(records):
        found.append(basis("records without a crash", finished, len(finished)))
    return found


def own_figures(path: Path) -> PrintedFigures | None:
    """The means that a merged result file states itself ("success rate" is a fraction); None if it has none."""
    try:
        data = None if path.is_dir() else load(path)
    except (OSError, ValueError):
        return None  # official.read reports what is wrong with the file
    if not isinstance(data, dict):
        return None
    score, rate = data.get("driving score"), data.get("success rate")
    known = {
        "driving_score": float(score) if is_bounded(score) and 0 <= score <= 100 else None,
        "success_rate": 100.0 * rate if is_bounded(rate) and 0 <= rate <= 1 else None,
    }
    return PrintedFigures(source=OWN_KEYS, **known) if any(value is not None for value in known.values()) else None


def explain(
    printed: Iterable[PrintedFigures], own: Sequence[MeanBasis], others: Mapping[str, Sequence[MeanBasis]]
) -> list[dict[str, Any]]:
    """Every printed figure of a result, and the mean that it is (`equal_over`; None if not found) of `of_result`.

    `own`: the bases of the result, `others`: those of the other results by name. `reproduced`: whether it is the mean
    over all routes of this file; `over`: the routes or records of the mean in words, such as "208 records".
    """
    rows = []
    for figures in printed:
        values = {name: value for name in MEASURES if (value := getattr(figures, name)) is not None}
        elsewhere = others if len(values) == len(MEASURES) else {}
        candidates = [(basis, name) for name, of in {"": own, **elsewhere}.items() for basis in of]
        basis, of_result = next(
            (one for one in candidates if all(abs(one[0][k] - v) < LAST_DECIMAL for k, v in values.items())), (None, "")
        )
        of_other = f" of {of_result}" if of_result else ""
        over = f"{basis['n']} {basis['what']}{of_other}" if basis else UNEXPLAINED
        rows += [
            {"source": figures.source, "measure": name, "printed": value, "recomputed": float(own[0][name]),
             "equal_over": basis, "of_result": of_result, "over": over,
             "reproduced": basis is not None and basis["whole"] and not of_result,
             "text": f"the mean over the {over}" if basis else UNEXPLAINED}
            for name, value in values.items()
        ]  # fmt: skip
    return rows


def differences(results: Sequence[AuditedResult]) -> dict[str, list[dict[str, Any]]]:
    """Result `a` less result `b` for every pair and measure, in percentage points; interval: None for one route."""
    found: dict[str, list[dict[str, Any]]] = {measure: [] for measure in MEASURES}
    for a, b in combinations(results, 2):
        for row in compare(a.run, b.run, rule="whole", measures=tuple(MEASURES)).rows:
            ci = row.ci_drop
            verdict = _verdict(a.printed_figure(row.name), b.printed_figure(row.name), ci)
            pair = {"a": a.listed.id, "b": b.listed.id, "difference": row.drop or 0.0, "interval": ci and [*ci]}
            found[row.name].append({**pair, "routes": row.n, "verdict": verdict})
    return found


def _verdict(first: float | None, second: float | None, ci: tuple[float, float] | None) -> str | None:
    """The verdict on two results with these printed figures. `ci`: of the first less the second."""
    if first is None or second is None:
        return None
    if first == second:
        return "tie"
    if ci is None or ci[0] <= 0 <= ci[1]:
        return "open"
    return "holds" if (ci[0] > 0) == (first > second) else "reversed"


def ranking(results: Sequence[AuditedResult], measure: str, pairs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The ids in the order of their printed figures, and how much of it the `pairs` of `differences` confirm.

    recomputed_ranks: places among the results that have a printed figure, from 1; next_pairs: each result of the order
    less the next; verdicts: counts over all pairs.
    """
    printed = {one.listed.id: figure for one in results if (figure := one.printed_figure(measure)) is not None}
    recomputed = {one.listed.id: float(one.summary[measure]) for one in results}
    order = sorted(printed, key=lambda name: -printed[name])
    places = {name: i for i, name in enumerate(sorted(printed, key=lambda name: -recomputed[name]), 1)}
    both = {(pair["a"], pair["b"]): pair for pair in pairs}
    for pair in pairs:
        ci = pair["interval"]
        turned = {
            "a": pair["b"],
            "b": pair["a"],
            "difference": -pair["difference"],
            "interval": ci and [-ci[1], -ci[0]],
        }
        both[pair["b"], pair["a"]] = {**pair, **turned}
    return {
        "published_order": order,
        "without_a_printed_figure": [name for name in recomputed if name not in printed],
        "recomputed_ranks": {name: places[name] for name in printed},
        "next_pairs": [both[pair] for pair in pairwise(order)],
        "verdicts": dict(Counter(pair["verdict"] for pair in pairs if pair["verdict"] is not None)),
    }
