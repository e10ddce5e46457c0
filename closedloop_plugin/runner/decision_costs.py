"""DecisionCosts: wall time and tokens of the decisions of a run, from its decision files."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.decision_files import decision_file, read_decisions

NOT_REPORTED = "not reported"


@dataclass(frozen=True)
class DecisionCosts:
    """Of the decisions that models were asked for. `timed`, `counted`: how many have a wall time, and token counts.

    median_s, p95_s: wall time of one decision, s; None: no backend reports it. tokens_in, tokens_out: sums over the
    counted ones; None if there are none.
    """

    decisions: int
    timed: int = 0
    counted: int = 0
    median_s: float | None = None
    p95_s: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None

    @property
    def seconds_text(self) -> str:
        if self.median_s is None or self.p95_s is None:
            return NOT_REPORTED
        return f"median {self.median_s:.3g}, 95th percentile {self.p95_s:.3g}{self._part(self.timed)}"

    @property
    def each_text(self) -> str:
        """Tokens of one decision, on average."""
        if self.tokens_in is None or self.tokens_out is None:
            return NOT_REPORTED
        return f"{self.tokens_in / self.counted:,.0f} in, {self.tokens_out / self.counted:,.0f} out"

    @property
    def all_text(self) -> str:
        if self.tokens_in is None or self.tokens_out is None:
            return NOT_REPORTED
        return f"{self.tokens_in:,} in, {self.tokens_out:,} out{self._part(self.counted)}"

    def __str__(self) -> str:
        seconds = f"seconds per decision: {self.seconds_text}"
        if self.tokens_in is None:
            return f"{seconds}; tokens: {NOT_REPORTED}"
        return f"{seconds}; tokens per decision: {self.each_text}; in all: {self.all_text}"

    def _part(self, known: int) -> str:
        others = f"(of {known:,} of {self.decisions:,} decisions, the others {NOT_REPORTED})"
        return "" if known == self.decisions else f" {others}"


def decision_costs(run: Path, records: Sequence[EpisodeRecord]) -> DecisionCosts | None:
    """The costs of a run's episodes, of which each is given once; None if no model was asked.

    A driver that speaks without a model (privileged) reports no cost. Of a model's episodes without decision files,
    such as those that an earlier version drove, all costs are unknown.
    """
    decisions = counted = tokens_in = tokens_out = 0
    seconds = array("d")
    for record in records:
        kept = 0
        file = decision_file(run, f"{record.route_id}_rep{record.repetition}")
        for one in read_decisions(file) if file.is_file() else ():
            kept += 1
            if not one.asked:
                continue
            decisions += 1
            if one.seconds is not None:
                seconds.append(one.seconds)
            spent = one.tokens("tokens_in"), one.tokens("tokens_out")
            if spent[0] is not None and spent[1] is not None:
                counted, tokens_in, tokens_out = counted + 1, tokens_in + spent[0], tokens_out + spent[1]
        if record.agent.get("kind") == "model":
            decisions += max(0, record.counts.get("decisions", 0) - kept)
    known = bool(seconds or counted)
    if not decisions or (not known and all(r.agent.get("privileged") for r in records)):
        return None
    median, p95 = np.quantile(seconds, (0.5, 0.95)).tolist() if seconds else (None, None)
    return DecisionCosts(
        decisions=decisions,
        timed=len(seconds),
        counted=counted,
        median_s=median,
        p95_s=p95,
        tokens_in=tokens_in if counted else None,
        tokens_out=tokens_out if counted else None,
    )
