"""The audit itself: obtains and scores every result of a list, and compares them. The data behind all outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from closedloop_plugin.core.routes import read_routes
from closedloop_plugin.scoring.audit.audited_result import PROFILE, AuditedResult, audited
from closedloop_plugin.scoring.audit.printed_figures import MEASURES, ExplainedFigure, explain
from closedloop_plugin.scoring.audit.public_files import FileSources
from closedloop_plugin.scoring.audit.rankings import PairedDifference, PublishedRanking, differences, ranking
from closedloop_plugin.scoring.audit.result_list import ResultList
from closedloop_plugin.scoring.audit.sample_size import SampleSizePlan, plan
from lmms_eval_ad2.scoring.metrics.intervals import METHOD
from lmms_eval_ad2.storage.code_state import code_label

_SUMMARY = (
    "driving_score",
    "success_rate",
    "n_routes",
    "n_records",
    "n_missing",
    "n_duplicates",
    "n_crashed",
    "missing",
    "n_inconsistent",
    "inconsistent",
    "unchecked",
)


@dataclass(frozen=True)
class FileAudit:
    """All results of a list. The mappings have one entry per measure (printed_figures.MEASURES)."""

    listed: ResultList
    routes: tuple[str, ...]
    results: tuple[AuditedResult, ...]
    explained: tuple[tuple[ExplainedFigure, ...], ...]  # of each result
    pairs: Mapping[str, Sequence[PairedDifference]]
    rankings: Mapping[str, PublishedRanking]
    plans: Mapping[str, SampleSizePlan | None]


def audit(listed: ResultList, sources: FileSources, report: Callable[[str], None] = lambda line: None) -> FileAudit:
    """Audit a list. `report` is told what is read. Raises Ad2Error for a file that cannot be obtained or scored."""
    routes = read_routes(sources.find(listed.routes, "routes"))
    ids = [route.id for route in routes]
    results = []
    for result in listed.results:
        report(f"{result.name}: {result.repository}, {result.path}")
        results.append(audited(result, sources.find(result, result.id, ids), routes))
    pairs = differences(results)
    return FileAudit(
        listed=listed,
        routes=tuple(ids),
        results=tuple(results),
        explained=tuple(_explained(results, i) for i in range(len(results))),
        pairs=pairs,
        rankings={measure: ranking(results, measure, pairs[measure]) for measure in MEASURES},
        plans={measure: plan(results, measure) for measure in MEASURES},
    )


def _explained(results: Sequence[AuditedResult], i: int) -> tuple[ExplainedFigure, ...]:
    others = {other.name: other.bases for k, other in enumerate(results) if k != i}
    return tuple(explain(results[i].printed, results[i].bases, others))


def to_json(found: FileAudit) -> dict[str, Any]:
    """The audit as JSON values."""
    return {
        "version": code_label(),
        "profile": PROFILE,
        "interval_method": METHOD,
        "routes": {**found.listed.routes.model_dump(), "n": len(found.routes)},
        "results": [_result(found, i) for i in range(len(found.results))],
        "pairs": {measure: [_pair(found, pair) for pair in pairs] for measure, pairs in found.pairs.items()},
        "rankings": {measure: _ranking(found, ranked) for measure, ranked in found.rankings.items()},
        "sample_size": {measure: None if one is None else asdict(one) for measure, one in found.plans.items()},
        "not_available": [one.model_dump() for one in found.listed.not_available],
        **({"other_sets": [one.model_dump() for one in found.listed.other_sets]} if found.listed.other_sets else {}),
    }


def _result(found: FileAudit, i: int) -> dict[str, Any]:
    result = found.results[i]
    summary, figures = result.summary, found.explained[i]
    return {
        **result.listed.model_dump(exclude={"printed"}),
        **{name: summary[name] for name in _SUMMARY},
        "intervals": {measure: summary["intervals"][measure] for measure in MEASURES},
        "printed": [{**asdict(one), "reproduced": one.reproduced, "text": one.text} for one in figures],
        "notes": summary["notes"],
    }


def _pair(found: FileAudit, pair: PairedDifference) -> dict[str, Any]:
    a, b = (found.results[i].listed.id for i in (pair.a, pair.b))
    interval = pair.ci and [*pair.ci]
    return {
        "a": a,
        "b": b,
        "difference": pair.value,
        "interval": interval,
        "routes": pair.routes,
        "verdict": pair.verdict,
    }


def _ranking(found: FileAudit, ranked: PublishedRanking) -> dict[str, Any]:
    return {
        "published_order": [found.results[i].listed.id for i in ranked.order],
        "without_a_printed_figure": [found.results[i].listed.id for i in ranked.unprinted],
        "recomputed_ranks": {found.results[i].listed.id: place for i, place in sorted(ranked.recomputed_ranks.items())},
        "next_pairs": [_pair(found, pair) for pair in ranked.next_pairs],
        "verdicts": dict(ranked.verdicts),
    }
