"""Records derived from a question: rotations of its options, and one record per reply if it is asked several times.

Rotations are for circular evaluation, which separates knowledge from position bias. Source: MMBench (Liu et al., 2023),
section 4.3; AutoDrive-QA itself asks in one order only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lmms_eval_ad2.core.records import AnswerOption, Record

ROTATED = "rotated"  # key of `meta`: {"id": of the question, "by": shift, "of": number of options}
REPLY = "reply"  # key of `meta`: {"id": of the question, "number": from 1, "of": number of replies}


def rotations(record: Record) -> Iterator[Record]:
    """Yield `record` with its options shifted by 0, 1, ... places; ids become `id#0`, `id#1`, ...

    Letters stay in order; every option is at every letter exactly once. Options that refer to letters or positions
    ("none of the above") lose their meaning.
    """
    count = len(record.options)
    for by in range(count):
        rotated = reordered(record, [(place + by) % count for place in range(count)])
        yield replace(
            rotated,
            id=f"{record.id}#{by}",
            # All rotations of a question belong to one cluster: they are not independent.
            cluster=record.cluster or record.id,
            meta={**record.meta, ROTATED: {"id": record.id, "by": by, "of": count}},
        )


def reordered(record: Record, order: Sequence[int]) -> Record:
    """`record` with its options in another order: the one at place order[i] comes to place i, under the i-th letter."""
    letters = [option.letter for option in record.options]
    moved = [record.options[place] for place in order]
    options = tuple(AnswerOption(letter, o.text, o.kind) for letter, o in zip(letters, moved, strict=True))
    right = next((i for i, option in enumerate(moved) if option.letter == record.letter), None)
    return replace(record, options=options, letter=record.letter if right is None else letters[right])


def reply_record(record: Record, number: int, of: int) -> Record:
    """The record of reply `number` (from 1) to a question that was asked `of` times; its id is `id@number`."""
    return replace(
        record, id=f"{record.id}@{number}", cluster=record.cluster or record.id,
        meta={**record.meta, REPLY: {"id": record.id, "number": number, "of": of}},
    )  # fmt: skip
