"""Paired differences between the results of an audit, and which order of two published figures they confirm.

Differences are those of scoring/compare.py under its rule "whole": paired by route over all routes of the benchmark; a
route without a record is 0, as in the means.
The published order of two results holds if the 95 % interval of their paired difference excludes 0 on its side, is
reversed if it excludes 0 on the other side, and is open if it includes 0. The intervals are not adjusted for the number
of pairs. A result without a printed figure of a measure has no place and no verdict in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Literal

from closedloop_plugin.scoring.audit.audited_result import AuditedResult
from closedloop_plugin.scoring.audit.printed_figures import MEASURES
from closedloop_plugin.scoring.compare import Span, compare

Verdict = Literal["holds", "open", "reversed", "tie"]


@dataclass(frozen=True)
class PairedDifference:
    """Result `a` less result `b` (their positions in the audit) over `routes` routes, in percentage points.

    `ci`: 95 % interval, None for one route.
    """

    a: int
    b: int
    value: float
    ci: Span | None
    routes: int
    verdict: Verdict | None  # on the published order of the two; None: not both are printed

    @property
    def excludes_zero(self) -> bool:
        return self.ci is not None and (self.ci[0] > 0 or self.ci[1] < 0)

    @property
    def reverse(self) -> PairedDifference:
        """`b` less `a`."""
        ci = self.ci and (-self.ci[1], -self.ci[0])
        return replace(self, a=self.b, b=self.a, value=-self.value, ci=ci)


@dataclass(frozen=True)
class PublishedRanking:
    """The results in the order of their printed figures. `next_pairs`: each one less the next in that order.

    order, unprinted: positions in the audit, of the results with and without a printed figure of the measure.
    """

    measure: str
    order: tuple[int, ...]
    unprinted: tuple[int, ...]
    recomputed_ranks: Mapping[int, int]  # position in the audit -> place among `order`, from 1
    next_pairs: tuple[PairedDifference, ...]
    verdicts: Counter[Verdict]  # of all pairs


def differences(results: Sequence[AuditedResult]) -> dict[str, list[PairedDifference]]:
    """Every pair once for each measure, a before b in the order of the audit."""
    found: dict[str, list[PairedDifference]] = {measure: [] for measure in MEASURES}
    for a, b in combinations(range(len(results)), 2):
        compared = compare(results[a].run, results[b].run, rule="whole", measures=tuple(MEASURES))
        for row in compared.rows:
            verdict = _verdict(results[a].printed_figure(row.name), results[b].printed_figure(row.name), row.ci_drop)
            found[row.name].append(PairedDifference(a, b, row.drop or 0.0, row.ci_drop, row.n, verdict))
    return found


def ranking(results: Sequence[AuditedResult], measure: str, pairs: Sequence[PairedDifference]) -> PublishedRanking:
    """The published ranking of the results, and how much of it the `pairs` of `differences` confirm."""
    printed = {i: figure for i, one in enumerate(results) if (figure := one.printed_figure(measure)) is not None}
    order = sorted(printed, key=lambda i: -printed[i])
    by_figure = sorted(printed, key=lambda i: -float(results[i].summary[measure]))
    both = {(one.a, one.b): one for pair in pairs for one in (pair, pair.reverse)}
    return PublishedRanking(
        measure=measure,
        order=tuple(order),
        unprinted=tuple(i for i in range(len(results)) if i not in printed),
        recomputed_ranks={i: place for place, i in enumerate(by_figure, 1)},
        next_pairs=tuple(both[pair] for pair in pairwise(order)),
        verdicts=Counter(pair.verdict for pair in pairs if pair.verdict is not None),
    )


def _verdict(first: float | None, second: float | None, ci: Span | None) -> Verdict | None:
    """The verdict on two results with these printed figures. `ci`: of the first less the second."""
    if first is None or second is None:
        return None
    if first == second:
        return "tie"
    if ci is None or ci[0] <= 0 <= ci[1]:
        return "open"
    return "holds" if (ci[0] > 0) == (first > second) else "reversed"
