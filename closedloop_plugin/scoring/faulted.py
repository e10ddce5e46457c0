"""Episodes of ours that were not driven by an EpisodeFault: excluded from every figure, and named.

Official files do not name a fault; their crashes count 0, as in the official script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from closedloop_plugin.scoring.driving import driving_score, success_rate
from closedloop_plugin.scoring.official_record import OfficialRecord


def faulted_facts(driven: Sequence[OfficialRecord], n: int, faulted: Collection[OfficialRecord]) -> dict[str, Any]:
    """Keys n_faulted, faulted and as_zero of a summary.

    driven, n: the records behind the headline, and its denominator. as_zero: Driving Score and Success Rate if the
    `faulted` episodes counted 0, as crashes do in the official script; None without any.
    """
    zero = None
    if faulted:
        total = n + len(faulted)
        zero = {"driving_score": driving_score(driven, total), "success_rate": success_rate(driven, total)}
    return {
        "n_faulted": len(faulted),
        "faulted": [
            {"route": r.route_id, "repetition": r.repetition, "fault": r.fault, "reason": r.reason} for r in faulted
        ],
        "as_zero": zero,
    }


def faulted_notes(facts: dict[str, Any]) -> list[str]:
    """Causes and counts in a sentence; [] without any. `facts`: of faulted_facts."""
    if not facts["faulted"]:
        return []
    causes = Counter(one["fault"] for one in facts["faulted"])
    named = ", ".join(f"{cause} {n}" for cause, n in causes.most_common())
    zero = "Driving Score {driving_score:.2f}, Success Rate {success_rate:.2f}".format(**facts["as_zero"])
    return [f"{facts['n_faulted']} episode(s) not driven, by fault of: {named}; in no figure (counted as 0: {zero})"]
