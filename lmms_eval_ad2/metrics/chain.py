"""The four chain-of-thought measures of AD2-Bench (section 3.3, equations 1 to 4): means of judge scores.

A judge score is 1 to 10 and prints as a percentage times ten. None means that no score could be had;
a mean over anything missing is itself missing (None), since a mean of the rest would hide it.
Callers that count a missing score as the worst one put 1 there themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

LOWEST, HIGHEST = 1, 10


def percent(score: float) -> float:
    """A judge score of 1..10 as the percentage of the paper's tables: 10..100. ValueError outside the scale."""
    if not LOWEST <= score <= HIGHEST:
        raise ValueError(f"a judge score lies between {LOWEST} and {HIGHEST}, not {score}")
    return 10.0 * score


def sacs(scores: Sequence[float | None]) -> float | None:
    """Step-wise accuracy: the mean over the N steps, each step's answer against its truth, in percent."""
    return _mean_percent(scores)


def slps(scores: Sequence[float | None]) -> float | None:
    """Logical progression: the mean over the N-1 pairs of adjacent steps, in percent.

    None for an empty sequence: a chain of one step has no pairs.
    """
    return _mean_percent(scores)


def orcs(score: float | None) -> float | None:
    """Overall coherence: the one score of the whole chain, in percent."""
    return _mean_percent([score])


def djss(score: float | None) -> float | None:
    """Decision justification: how well the last step follows from the others, one score, in percent."""
    return _mean_percent([score])


def cot_mean(
    sacs_value: float | None, slps_value: float | None, orcs_value: float | None, djss_value: float | None
) -> float | None:
    """The plain mean of the four percentages ("w/ CoT" in the paper's tables); None if any is missing."""
    parts = (sacs_value, slps_value, orcs_value, djss_value)
    known = [part for part in parts if part is not None]
    return sum(known) / len(parts) if len(known) == len(parts) else None


def _mean_percent(scores: Sequence[float | None]) -> float | None:
    known = [percent(score) for score in scores if score is not None]
    return sum(known) / len(known) if known and len(known) == len(scores) else None
