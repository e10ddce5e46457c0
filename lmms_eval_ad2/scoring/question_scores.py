"""Scores over all answers to a question: all rotations of its options (circular evaluation), or several replies to it.

Rotations: only complete questions are scored; if rotations were not asked (--limit), the question is left out and
counted. Position bias: every option was at every letter, so a model without one chooses all letters equally often.

Replies (`--repeats N`): the score is the mean over all of them. A question's replies share its cluster, so that the
cluster jackknife omits them together: asking more often narrows the interval only as far as they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_eval_ad2.scoring.metrics.intervals import ConfidenceInterval
from lmms_eval_ad2.scoring.metrics.position import preference
from lmms_eval_ad2.scoring.sample_summary import OptionRotation, SampleSummary

ALIKE, ALWAYS_RIGHT = "alike", "always_right"
_GRADED_FORMS = ("vqa", "chain")  # a judge rates them: there is no right or wrong
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
    return _rotated(group, CIRCULAR, official, float(min(strict for *_, strict in marks)))


def consistency(group: Sequence[SampleSummary]) -> SampleSummary:
    """Summarise a question in one line: 1 if all rotations chose the same text (unparsed answers chose none)."""
    chosen = {rotation_of(line).chosen for line in group}
    same = float(len(chosen) == 1 and None not in chosen)
    scored = all(line.status != "unscored" for line in group)
    return _rotated(group, CONSISTENCY, same if scored else None, same if scored else 0.0)


def _rotated(group: Sequence[SampleSummary], column: str, official: float | None, strict: float) -> SampleSummary:
    worst = min(group, key=lambda line: _WORST_FIRST.index(line.status))
    return replace(
        worst, id=rotation_of(worst).question, score=None if official is None else 100 * official, kind=None,
        offered=(), marks=((column, official, strict),), rotation=None, scored_in=(column,),
    )  # fmt: skip


def position(groups: Sequence[Sequence[SampleSummary]], asked: int) -> dict[str, Any]:
    """The distribution of chosen letters over complete questions.

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


def questions_of(lines: Sequence[SampleSummary]) -> list[list[SampleSummary]]:
    """The lines of each question, in order; empty if each question was asked once."""
    groups: dict[str, list[SampleSummary]] = {}
    for line in lines:
        if line.reply is not None:
            groups.setdefault(line.reply.question, []).append(line)
    return list(groups.values())


def alike(question: Sequence[SampleSummary]) -> SampleSummary:
    """One line for a question: 1 if all replies were read as the same answer, right or wrong.

    Official: none if a request failed; whether a judge could rate the replies does not matter. An unread reply equals
    no other.
    """
    contents = {line.reply.content for line in question if line.reply is not None}
    failed = [line for line in question if line.status == "unscored" and line.reply and line.reply.content is None]
    return _replied(question, ALIKE, float(len(contents) == 1 and None not in contents), failed)


def always_right(question: Sequence[SampleSummary]) -> SampleSummary | None:
    """One line for a question: 1 if every reply has full marks. None for forms that a judge grades."""
    if question[0].form in _GRADED_FORMS:
        return None
    unscored = [line for line in question if line.status == "unscored"]
    return _replied(question, ALWAYS_RIGHT, float(all(line.score == 100 for line in question)), unscored)


def _replied(
    question: Sequence[SampleSummary], column: str, value: float, unscored: Sequence[SampleSummary]
) -> SampleSummary:
    official, strict = (None, 0.0) if unscored else (value, value)
    assert question[0].reply is not None  # of the lines of `questions_of`
    return replace(
        question[0], id=question[0].reply.question, status="unscored" if unscored else "ok",
        score=None if official is None else 100 * official, marks=((column, official, strict),), reply=None,
        scored_in=(column,), column_status=(),
    )  # fmt: skip
