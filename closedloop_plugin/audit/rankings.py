"""Paired differences between the results of an audit, and which order of two published figures they confirm.

Differences are those of scoring/compare.py under its rule "whole": paired by route over all routes of the benchmark; a
route without a record is 0, as in the means.
The published order of two results holds if the 95 % interval of their paired difference excludes 0 on its side, is
reversed if it excludes 0 on the other side, and is open if it includes 0. The intervals are not adjusted for the number
of pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Literal

from closedloop_plugin.audit.audited_result import AuditedResult
from closedloop_plugin.audit.printed_figures import MEASURES
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
    verdict: Verdict  # on the published order of the two

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
    """The results in the order of their printed figures. `next_pairs`: each one less the next in that order."""

    measure: str
    order: tuple[int, ...]
    recomputed_ranks: tuple[int, ...]  # by position in the audit, from 1
    next_pairs: tuple[PairedDifference, ...]
    verdicts: Counter[Verdict]  # of all pairs


def differences(results: Sequence[AuditedResult]) -> dict[str, list[PairedDifference]]:
    """Every pair once for each measure, a before b in the order of the audit."""
    found: dict[str, list[PairedDifference]] = {measure: [] for measure in MEASURES}
    for a, b in combinations(range(len(results)), 2):
        compared = compare(results[a].run, results[b].run, rule="whole", measures=tuple(MEASURES))
        for row in compared.rows:
            printed = results[a].printed_figure(row.name) - results[b].printed_figure(row.name)
            verdict = _verdict(printed, row.ci_drop)
            found[row.name].append(PairedDifference(a, b, row.drop or 0.0, row.ci_drop, row.n, verdict))
    return found


def ranking(results: Sequence[AuditedResult], measure: str, pairs: Sequence[PairedDifference]) -> PublishedRanking:
    """The published ranking of the results, and how much of it the `pairs` of `differences` confirm."""
    order = sorted(range(len(results)), key=lambda i: -results[i].printed_figure(measure))
    by_figure = sorted(range(len(results)), key=lambda i: -float(results[i].summary[measure]))
    both = {(one.a, one.b): one for pair in pairs for one in (pair, pair.reverse)}
    return PublishedRanking(
        measure=measure,
        order=tuple(order),
        recomputed_ranks=tuple(by_figure.index(i) + 1 for i in range(len(results))),
        next_pairs=tuple(both[pair] for pair in pairwise(order)),
        verdicts=Counter(pair.verdict for pair in pairs),
    )


def _verdict(printed: float, ci: Span | None) -> Verdict:
    """The verdict on two results whose printed figures differ by `printed`."""
    if printed == 0:
        return "tie"
    if ci is None or ci[0] <= 0 <= ci[1]:
        return "open"
    return "holds" if (ci[0] > 0) == (printed > 0) else "reversed"
