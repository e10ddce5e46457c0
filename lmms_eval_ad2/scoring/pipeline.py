"""Samples in, a table out, in chunks: judge, write, keep one short line each. Memory does not grow with texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from lmms_eval_ad2.judge.base import Judge
from lmms_eval_ad2.scoring import judged
from lmms_eval_ad2.scoring.line import Line
from lmms_eval_ad2.scoring.sample import Sample
from lmms_eval_ad2.scoring.store import sample_writer
from lmms_eval_ad2.scoring.table import summarise
from lmms_eval_ad2.scoring.variant import Variant

CHUNK = 4096  # samples judged together: far more than any endpoint has in flight, small in memory


def score_task(
    samples: Iterable[Sample], task: str, variant: Variant, judge: Callable[[], Judge], folder: Path | None,
    *, progress: bool = True,
) -> tuple[dict[str, Any], list[Line]]:  # fmt: skip
    """Judge what waits, write samples/<task>.jsonl below `folder` (None: nothing is kept), make the table.

    `judge` is called only if some sample waits for one.
    """
    lines: list[Line] = []
    label = None
    with sample_writer(folder, task) as write:
        for chunk in _chunks(samples):
            if any(s.pending for s in chunk):
                judged.apply(chunk, judge(), progress=progress)
                label = judge().label
            for sample in chunk:
                write(sample)
                lines.append(Line.of(sample, variant))
    return summarise(lines, variant, label), lines


def _chunks(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    source = iter(samples)
    while chunk := list(islice(source, CHUNK)):
        yield chunk
