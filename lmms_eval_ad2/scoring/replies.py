"""Several replies to each question (`--repeats N`): every one is a sample, and questions are compared over theirs.

The score is the mean over all replies. A question's replies share its cluster, so that the cluster jackknife omits them
together: asking more often narrows the interval only as far as the replies of one question differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmms_eval_ad2.core.records import Record

if TYPE_CHECKING:
    from lmms_eval_ad2.scoring.sample import ScoredSample
    from lmms_eval_ad2.scoring.sample_summary import SampleSummary

REPLY = "reply"  # key of `meta`: {"id": of the question, "number": from 1, "of": number of replies}
ALIKE, ALWAYS_RIGHT = "alike", "always_right"
_GRADED_FORMS = ("vqa", "chain")  # a judge rates them: there is no right or wrong


@dataclass(frozen=True, slots=True)
class QuestionReply:
    """One reply to `question`. `content`: the parsed answer as text; None if it could not be read."""

    question: str
    content: str | None

    @classmethod
    def of(cls, sample: ScoredSample) -> QuestionReply | None:
        """None for a sample of a run that asked once."""
        meta = sample.record.meta.get(REPLY)
        if not isinstance(meta, Mapping):
            return None
        read = sample.answer is not None
        content = json.dumps(sample.answer, sort_keys=True, ensure_ascii=False, default=str) if read else None
        return cls(str(meta["id"]), content)


def reply_record(record: Record, number: int, of: int) -> Record:
    """The record of reply `number` (from 1) to a question that was asked `of` times; its id is `id@number`."""
    return replace(
        record, id=f"{record.id}@{number}", cluster=record.cluster or record.id,
        meta={**record.meta, REPLY: {"id": record.id, "number": number, "of": of}},
    )  # fmt: skip


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
    return _question(question, ALIKE, float(len(contents) == 1 and None not in contents), failed)


def always_right(question: Sequence[SampleSummary]) -> SampleSummary | None:
    """One line for a question: 1 if every reply has full marks. None for forms that a judge grades."""
    if question[0].form in _GRADED_FORMS:
        return None
    unscored = [line for line in question if line.status == "unscored"]
    return _question(question, ALWAYS_RIGHT, float(all(line.score == 100 for line in question)), unscored)


def _question(
    question: Sequence[SampleSummary], column: str, value: float, unscored: Sequence[SampleSummary]
) -> SampleSummary:
    official, strict = (None, 0.0) if unscored else (value, value)
    assert question[0].reply is not None  # of the lines of `questions_of`
    return replace(
        question[0], id=question[0].reply.question, status="unscored" if unscored else "ok",
        score=None if official is None else 100 * official, marks=((column, official, strict),), reply=None,
        scored_in=(column,), column_status=(),
    )  # fmt: skip
