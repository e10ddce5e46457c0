"""The same question once for each rotation of its options, so that a preference for a letter cannot pass for knowledge.

Source: circular evaluation as in MMBench (Liu et al., 2023), section 4.3; AutoDrive-QA itself asks in one order only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmms_eval_ad2.records import AnswerOption, Record

ROTATED = "rotated"  # in `meta`: {"id": of the question, "by": how far, "of": number of options}


def rotations(record: Record) -> Iterator[Record]:
    """`record` with its options moved round by 0, 1, ... places; letters stay in order, ids become `id#0`, `id#1`, ...

    Every option stands at every letter just once. All options move: a set whose options speak of each other's letters
    or places ("none of the above") is not made for this.
    """
    count = len(record.options)
    letters = [option.letter for option in record.options]
    for by in range(count):
        moved = [record.options[(place + by) % count] for place in range(count)]
        options = tuple(AnswerOption(letter, o.text, o.kind) for letter, o in zip(letters, moved, strict=True))
        right = next((i for i, option in enumerate(moved) if option.letter == record.letter), None)
        yield replace(
            record,
            id=f"{record.id}#{by}",
            options=options,
            letter=record.letter if right is None else letters[right],
            # One question is one witness, however often it is asked.
            cluster=record.cluster or record.id,
            meta={**record.meta, ROTATED: {"id": record.id, "by": by, "of": count}},
        )
