"""What the answers to all rotations of a question say together: right in all, the same in all, a favourite letter.

Only whole questions enter: where rotations were not asked (--limit), the question is left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_eval_ad2.metrics.intervals import ConfidenceInterval
from lmms_eval_ad2.metrics.position import preference
from lmms_eval_ad2.scoring.sample_summary import OptionRotation, SampleSummary

CIRCULAR = "circular"  # right in every rotation: the headline
CONSISTENCY = "consistency"  # the same text chosen in every rotation, right or wrong
_WORST_FIRST = ("unscored", "unparsed", "ok")


def whole_questions(lines: Sequence[SampleSummary]) -> list[list[SampleSummary]]:
    """The lines by question, each with all its rotations."""
    groups: dict[str, list[SampleSummary]] = {}
    for line in lines:
        groups.setdefault(rotation_of(line).question, []).append(line)
    return [group for group in groups.values() if len(group) == rotation_of(group[0]).of]


def rotation_of(line: SampleSummary) -> OptionRotation:
    if line.turn is None:
        raise ValueError(f"{line.id}: no rotation of a question")
    return line.turn


def circular(group: Sequence[SampleSummary]) -> SampleSummary:
    """The question as one line: right only if every rotation is.

    Official: an answer that could not be read is wrong, a question with an answer that could not be had has no score.
    Strict: both are wrong.
    """
    marks = [line.marks[0] for line in group]
    known = [official for _, official, _ in marks if official is not None]
    official = float(min(known)) if len(known) == len(group) else None
    return _question(group, CIRCULAR, official, float(min(strict for *_, strict in marks)))


def consistency(group: Sequence[SampleSummary]) -> SampleSummary:
    """The question as one line: 1 where every rotation chose the same text; an unread answer chose none."""
    chosen = {rotation_of(line).chosen for line in group}
    same = float(len(chosen) == 1 and None not in chosen)
    scored = all(line.status != "unscored" for line in group)
    return _question(group, CONSISTENCY, same if scored else None, same if scored else 0.0)


def _question(group: Sequence[SampleSummary], column: str, official: float | None, strict: float) -> SampleSummary:
    worst = min(group, key=lambda line: _WORST_FIRST.index(line.status))
    return replace(
        worst, id=rotation_of(worst).question, score=None if official is None else 100 * official, kind=None, offered=(),
        marks=((column, official, strict),), turn=None,
    )  # fmt: skip


def position(groups: Sequence[Sequence[SampleSummary]], asked: int) -> dict[str, Any]:
    """Which letters were chosen over whole questions: every option stood at every letter, so none should be favoured.

    `asked`: lines in all, those of incomplete questions among them.
    """
    whole = sum(map(len, groups))
    read = [line for group in groups for line in group if rotation_of(line).place is not None]
    places = [p for line in read if (p := rotation_of(line).place) is not None]
    found = preference(places, [rotation_of(x).of for x in read], clusters=[x.cluster for x in read])
    facts: dict[str, Any] = {"questions": len(groups), "asked": asked, "incomplete": asked - whole, "n": len(read)}
    if found is None:
        return {**facts, "distance": None, "ci": None, "letters": {}}
    letters: Mapping[str, Any] = {
        chr(ord("A") + i): {
            "n": found.counts[i], "percent": percent(found.shares[i]), "expected": percent(found.expected[i]),
            "ci": span(found.share_ci[i]),
        }
        for i in range(len(found.shares))
    }  # fmt: skip
    return {**facts, "distance": percent(found.distance), "ci": span(found.ci), "letters": dict(letters)}


def percent(fraction: float) -> float:
    return round(100 * fraction, 6)


def span(interval: ConfidenceInterval | None) -> list[float] | None:
    """An interval of fractions, in percent, as JSON has it."""
    return None if interval is None else [percent(interval.low), percent(interval.high)]
