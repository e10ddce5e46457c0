"""The samples that went worst, found in one pass over samples/<task>.jsonl with a heap of the few that are kept."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FULL_MARKS = 100.0  # scores of samples are percentages


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst rows of a task, worst first, and how many rows there were. Unscored rows are never among them."""

    rows: tuple[Mapping[str, Any], ...]
    n: int


def worst(rows: Iterable[Mapping[str, Any]], count: int = 4) -> Worst:
    """The `count` rows of lowest score below full marks. Among equals the choice is arbitrary, and the same every time.

    Memory does not grow with the number of rows.
    """
    heap: list[tuple[float, str, int, Mapping[str, Any]]] = []
    n = 0
    for n, row in enumerate(rows, 1):
        score = row.get("score")
        if isinstance(score, bool) or not isinstance(score, int | float) or score >= FULL_MARKS:
            continue
        # By a hash of the id: neighbouring rows show the same image, and would all say the same.
        spread = hashlib.sha256(str(row.get("id")).encode()).hexdigest()
        entry = (-float(score), spread, n, row)
        if len(heap) < count:
            heapq.heappush(heap, entry)
        elif count:
            heapq.heappushpop(heap, entry)
    return Worst(tuple(row for *_, row in sorted(heap, key=lambda e: e[:3], reverse=True)), n)
