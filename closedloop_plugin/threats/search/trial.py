"""SearchTrial: one run of a search, as stored in runs.jsonl and the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.scoring.failure_cause import FailureCause, cause_of
from closedloop_plugin.threats.search.objective import failed, scored


@dataclass(frozen=True)
class SearchTrial:
    """One run. `rho`: robustness, None if not scored; `expert`: the expert's episode with a failure's values."""

    number: int
    values: dict[str, Any]
    record: EpisodeRecord
    rho: float | None
    expert: EpisodeRecord | None = None

    @property
    def failed(self) -> bool:
        return scored(self.record) and failed(self.record)

    @property
    def verdict(self) -> str:
        if self.rho is None:
            return "not scored"
        return "failed" if self.failed else "passed"

    @property
    def cause(self) -> FailureCause | None:
        """Cause of the failure, by its actors; None if it did not fail."""
        return cause_of(self.record)

    @property
    def fair(self) -> bool | None:
        """Whether the expert survives these values; None if it did not drive them or was not scored."""
        if self.expert is None or not scored(self.expert):
            return None
        return not failed(self.expert)

    @property
    def infractions(self) -> dict[str, int]:
        """Number of infractions by kind, without zeros."""
        return {name: len(found) for name, found in self.record.infractions.items() if found}

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "values": self.values,
            "rho": None if self.rho is None else round(self.rho, 6),
            "verdict": self.verdict,
            "score": self.record.score_composed,
            "infractions": self.infractions,
            "cause": self.cause.to_json() if self.cause else None,
            "margins": self.record.margins,
            "events": [list(e) for e in self.record.events],
            "end": self.record.end,
            "reason": self.record.reason,
        }
