"""Draws of a check: how many are driven, which come next, and the share of other draws that is survived.

Draws of a scenario are numbered from 0, by their seeds. Draws up to the first survived one, the played draw, are tries;
those behind it are the other draws. Only these enter the share: the tries end with a survived draw by construction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from closedloop_plugin.threats.transcript import ScenarioVerdict
from closedloop_plugin.threats.verdicts import ScenarioDraw, verdict_of
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval


@dataclass(frozen=True)
class DrawPlan:
    """Draws of each scenario: at most `tries` until one is survived, then `others`, of which `share` must be."""

    tries: int = 4
    others: int = 3
    share: Fraction = Fraction(2, 3)

    @property
    def needed(self) -> int:
        """Number of the other draws that must be survived."""
        return math.ceil(self.share * self.others)


def share_of(text: str) -> Fraction:
    """A share from 0 to 1, given as 2/3 or 0.6. Raises Ad2Error."""
    try:
        found = Fraction(text)
    except (ValueError, ZeroDivisionError):
        found = Fraction(-1)
    if not 0 <= found <= 1:
        raise Ad2Error(f"--share {text}: expected a share from 0 to 1, as in 2/3 or 0.6")
    return found


@dataclass(frozen=True)
class DrivenDraws:
    """The draws of one scenario so far, by number."""

    plan: DrawPlan
    draws: dict[int, ScenarioDraw] = field(default_factory=dict)

    @property
    def played(self) -> int | None:
        """Number of the played draw."""
        return next((k for k in sorted(self.draws) if self.draws[k].survived), None)

    def missing(self) -> list[int]:
        """The draws to drive next: another try, or all others behind the survived one."""
        played = self.played
        if played is not None:
            return [k for k in self._behind(played) if k not in self.draws]
        worth = all(d.compiles and d.scored for d in self.draws.values())
        return [len(self.draws)] if worth and len(self.draws) < self.plan.tries else []

    def verdict(self, judge: str) -> ScenarioVerdict:
        played = self.played
        if played is None:
            return verdict_of([self.draws[k] for k in sorted(self.draws)], judge)
        tried, others = range(played + 1), self._behind(played)
        return verdict_of([self.draws[k] for k in tried], judge, [self.draws[k] for k in others], self.plan.needed)

    def _behind(self, played: int) -> range:
        return range(played + 1, played + 1 + self.plan.others)


@dataclass(frozen=True)
class SurvivedShare:
    """Share of the other draws that the judge survives, over scenarios. `interval`: 95 %, draws clustered by scenario;
    None for fewer than two scenarios, or without a draw."""

    survived: int
    draws: int
    scenarios: int
    interval: tuple[float, float] | None


def survived_share(verdicts: Iterable[ScenarioVerdict]) -> SurvivedShare:
    counts = [(v.others_survived, v.others) for v in verdicts if v.others]
    values = [float(k < good) for good, n in counts for k in range(n)]
    names = [i for i, (_, n) in enumerate(counts) for _ in range(n)]
    found = mean_interval(values, clusters=names, bounds=FRACTION) if values else None
    return SurvivedShare(
        sum(good for good, _ in counts), len(values), len(counts), (found.low, found.high) if found else None
    )
