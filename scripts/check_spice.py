"""Run SPICE on four pairs of captions with known scores; without Java or its jars, print what is missing.

    python scripts/check_spice.py       # with both jars of Stanford CoreNLP 3.6.0 (`ad2 doctor`); up to 8 GB of memory

The scores are worked out by hand from the definition (Anderson 2016, section 3): the F-score, 0 to 1, of the tuples
(objects, attributes, relations) of both captions. A score that differs may also be due to the parser of the captions,
which the definition does not include. Exit status: 0 if all agree, 1 if one differs, 2 if SPICE cannot run.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from lmms_eval_ad2.scoring.metrics.caption import CorpusScore, caption_scores, spice


@dataclass(frozen=True, slots=True)
class CheckedCaption:
    """A caption, its reference, the expected F-score (0..1) and how it follows from the tuples."""

    reference: str
    candidate: str
    score: float
    why: str


CAPTIONS = (
    CheckedCaption("a red car on the road", "a red car on the road", 1.0, "the same tuples"),
    CheckedCaption("a red car", "a tall tree", 0.0, "no common tuple"),
    CheckedCaption("a red car", "a car", 2 / 3, "(car) of (car), (car, red): precision 1, recall 1/2"),
    CheckedCaption("a red car", "a red car and a bus", 0.8, "(car), (car, red) and (bus): precision 2/3, recall 1"),
)


def main() -> int:
    if faults := spice.faults():
        print("SPICE cannot run:\n" + "\n".join(f"  {fault}" for fault in faults))
        return 2
    ids = [str(number) for number in range(len(CAPTIONS))]
    found = caption_scores(
        {id_: [one.reference] for id_, one in zip(ids, CAPTIONS, strict=True)},
        {id_: one.candidate for id_, one in zip(ids, CAPTIONS, strict=True)},
        ["spice"],
    )["spice"]
    if not isinstance(found, CorpusScore):
        print(f"SPICE failed: {found.detail}")
        return 2
    print(table := report([found.per_item[id_] for id_ in ids]))
    return int("DIFFERS" in table)


def report(scores: list[float]) -> str:
    """A line per caption: its score by SPICE and by hand, and whether they agree within 0.001."""
    lines = []
    for one, score in zip(CAPTIONS, scores, strict=True):
        word = "ok     " if math.isclose(score, one.score, abs_tol=1e-3) else "DIFFERS"
        lines.append(f"{word} {score:.3f} (by hand {one.score:.3f}: {one.why})  {one.candidate!r} / {one.reference!r}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
