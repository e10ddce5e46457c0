"""Rotation of answer options for circular evaluation, which separates knowledge from position bias.

Source: MMBench (Liu et al., 2023), section 4.3; AutoDrive-QA itself asks in one order only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmms_eval_ad2.records import AnswerOption, Record

ROTATED = "rotated"  # key of `meta`: {"id": of the question, "by": shift, "of": number of options}


def rotations(record: Record) -> Iterator[Record]:
    """Yield `record` with its options shifted by 0, 1, ... places; ids become `id#0`, `id#1`, ...

    Letters stay in order; every option is at every letter exactly once. Options that refer to letters or positions
    ("none of the above") lose their meaning.
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
            # All rotations of a question belong to one cluster: they are not independent.
            cluster=record.cluster or record.id,
            meta={**record.meta, ROTATED: {"id": record.id, "by": by, "of": count}},
        )
