"""Circular evaluation: scores over all rotations of a question, and the bias towards option letters.

Only complete questions are scored: if rotations were not asked (--limit), the question is left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_eval_ad2.scoring.metrics.intervals import ConfidenceInterval
from lmms_eval_ad2.scoring.metrics.position import preference
from lmms_eval_ad2.scoring.sample_summary import OptionRotation, SampleSummary

CIRCULAR = "circular"  # right in every rotation: the main score
CONSISTENCY = "consistency"  # the same text chosen in every rotation, right or wrong
_WORST_FIRST = ("unscored", "unparsed", "ok")


def whole_questions(lines: Sequence[SampleSummary]) -> list[list[SampleSummary]]:
    """Group the lines by question; only questions with all their rotations are returned."""
    groups: dict[str, list[SampleSummary]] = {}
    for line in lines:
        groups.setdefault(rotation_of(line).question, []).append(line)
    return [group for group in groups.values() if len(group) == rotation_of(group[0]).of]


def rotation_of(line: SampleSummary) -> OptionRotation:
    if line.rotation is None:
        raise ValueError(f"{line.id}: not a rotation of a question")
    return line.rotation


def circular(group: Sequence[SampleSummary]) -> SampleSummary:
    """Summarise a question in one line: right only if every rotation is.

    Official: an unparsed answer is wrong; a question with an unscored answer has no score. Strict: both are wrong.
    """
    marks = [line.marks[0] for line in group]
    known = [official for _, official, _ in marks if official is not None]
    official = float(min(known)) if len(known) == len(group) else None
    return _question(group, CIRCULAR, official, float(min(strict for *_, strict in marks)))


def consistency(group: Sequence[SampleSummary]) -> SampleSummary:
    """Summarise a question in one line: 1 if all rotations chose the same text (unparsed answers chose none)."""
    chosen = {rotation_of(line).chosen for line in group}
    same = float(len(chosen) == 1 and None not in chosen)
    scored = all(line.status != "unscored" for line in group)
    return _question(group, CONSISTENCY, same if scored else None, same if scored else 0.0)


def _question(group: Sequence[SampleSummary], column: str, official: float | None, strict: float) -> SampleSummary:
    worst = min(group, key=lambda line: _WORST_FIRST.index(line.status))
    return replace(
        worst, id=rotation_of(worst).question, score=None if official is None else 100 * official, kind=None,
        offered=(), marks=((column, official, strict),), rotation=None, scored_in=(column,),
    )  # fmt: skip


def position(groups: Sequence[Sequence[SampleSummary]], asked: int) -> dict[str, Any]:
    """The distribution of chosen letters over complete questions.

    Every option was at every letter, so a model without position bias chooses all letters equally often.
    `asked`: number of lines, including those of incomplete questions.
    """
    whole = sum(map(len, groups))
    read = [line for group in groups for line in group if rotation_of(line).place is not None]
    places = [p for line in read if (p := rotation_of(line).place) is not None]
    found = preference(places, [rotation_of(x).of for x in read], clusters=[x.cluster for x in read])
    counts: dict[str, Any] = {"questions": len(groups), "asked": asked, "incomplete": asked - whole, "n": len(read)}
    if found is None:
        return {**counts, "distance": None, "ci": None, "letters": {}}
    letters: Mapping[str, Any] = {
        chr(ord("A") + i): {
            "n": found.counts[i], "percent": percent(found.shares[i]), "expected": percent(found.expected[i]),
            "ci": span(found.share_ci[i]),
        }
        for i in range(len(found.shares))
    }  # fmt: skip
    return {**counts, "distance": percent(found.distance), "ci": span(found.ci), "letters": dict(letters)}


def percent(fraction: float) -> float:
    return round(100 * fraction, 6)


def span(interval: ConfidenceInterval | None) -> list[float] | None:
    """An interval of fractions as [low, high] in percent."""
    return None if interval is None else [percent(interval.low), percent(interval.high)]
