"""Paired differences between the results of an audit, and which order of two published figures they confirm.

A difference is taken route by route over all routes of the benchmark; a route without a record is 0, as in the means.
The published order of two results holds if the 95 % interval of their paired difference excludes 0 on its side, is
reversed if it excludes 0 on the other side, and is open if it includes 0. The intervals are not adjusted for the number
of pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from closedloop_plugin.audit.audited_result import AuditedResult
from lmms_eval_ad2.metrics.intervals import ConfidenceInterval, Floats, mean_interval

DIFFERENCES = (-100.0, 100.0)  # bounds of a difference of two percentages
Verdict = Literal["holds", "open", "reversed", "tie"]


@dataclass(frozen=True)
class PairedDifference:
    """Result `a` less result `b` (their positions in the audit), in percentage points. `ci`: None for one route."""

    a: int
    b: int
    value: float
    ci: ConfidenceInterval | None
    verdict: Verdict  # on the published order of the two

    @property
    def excludes_zero(self) -> bool:
        return self.ci is not None and (self.ci.low > 0 or self.ci.high < 0)


@dataclass(frozen=True)
class PublishedRanking:
    """The results in the order of their printed figures. `next_pairs`: each one less the next in that order."""

    measure: str
    order: tuple[int, ...]
    recomputed_ranks: tuple[int, ...]  # by position in the audit, from 1
    next_pairs: tuple[PairedDifference, ...]
    verdicts: Counter[Verdict]  # of all pairs


def paired_interval(differences: Floats) -> ConfidenceInterval | None:
    """95 % interval of the mean of differences by route, in percentage points; None for a single route."""
    return mean_interval(differences, bounds=DIFFERENCES)


def differences(results: Sequence[AuditedResult], measure: str) -> list[PairedDifference]:
    """Every pair once, a before b in the order of the audit."""
    return [_pair(results, measure, i, j) for i in range(len(results)) for j in range(i + 1, len(results))]


def ranking(results: Sequence[AuditedResult], measure: str, pairs: Sequence[PairedDifference]) -> PublishedRanking:
    """The published ranking of the results, and how much of it the `pairs` of `differences` confirm."""
    order = sorted(range(len(results)), key=lambda i: -results[i].printed_figure(measure))
    by_figure = sorted(range(len(results)), key=lambda i: -float(results[i].summary[measure]))
    return PublishedRanking(
        measure=measure,
        order=tuple(order),
        recomputed_ranks=tuple(by_figure.index(i) + 1 for i in range(len(results))),
        next_pairs=tuple(_pair(results, measure, i, j) for i, j in pairwise(order)),
        verdicts=Counter(pair.verdict for pair in pairs),
    )


def _pair(results: Sequence[AuditedResult], measure: str, a: int, b: int) -> PairedDifference:
    values = results[a].values[measure] - results[b].values[measure]
    ci = paired_interval(values)
    published = results[a].printed_figure(measure) - results[b].printed_figure(measure)
    return PairedDifference(a, b, float(values.mean()), ci, _verdict(published, ci))


def _verdict(published: float, ci: ConfidenceInterval | None) -> Verdict:
    if published == 0:
        return "tie"
    if ci is None or ci.low <= 0 <= ci.high:
        return "open"
    return "holds" if (ci.low > 0) == (published > 0) else "reversed"
