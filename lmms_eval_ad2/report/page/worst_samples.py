"""The worst samples of each task: image, question, answer, reference, score. The template escapes the text."""

from __future__ import annotations

import base64
import hashlib
import heapq
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.report import cell_text, sample_row
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary, sample_rows
from lmms_eval_ad2.report.sample_pictures import LEGEND, pictures


def cards(runs: Sequence[RunSummary], count: int) -> list[dict[str, Any]]:
    """Return the worst samples of every task of the models; of floors and ceilings only if there are no models."""
    if not count:
        return []
    shown = [run for run in runs if run.role == "run"] or list(runs)
    found = []
    for run in shown:
        for task in run.tasks.values():
            if task.open_ended or not (run.folder / "samples" / f"{task.name}.jsonl").exists():
                continue
            best = worst(sample_rows(run, task.name), count)
            if best.rows:
                found.append({"run": run.name, "task": task.name, "n": best.n, "samples": _samples(task, best)})
    return found


def _samples(task: TaskSummary, best: WorstSamples) -> list[dict[str, Any]]:
    samples = []
    for row in best.rows:
        shown = pictures(row, task)
        width = WIDTH if len(shown.images) == 1 else WIDTH // 2
        samples.append({
            "id": row.get("id"),
            "score": cell_text.number(row.get("score")),
            "status": row.get("status"),
            "reason": row.get("reason"),
            "subtask": row.get("subtask"),
            "question": sample_row.question(row),
            "options": sample_row.options(row),
            "raw": sample_row.replies(row),
            "answer": sample_row.read_as(row),
            "reference": sample_row.reference(row),
            "judge": list(sample_row.judged(row)),
            "images": [_jpeg(image, width) for image in shown.images[:MOST]],
            "legend": LEGEND if shown.placed else "",
            "trouble": shown.trouble,
        })  # fmt: skip
    return samples


FULL_MARKS = 100.0  # scores of samples are percentages


@dataclass(frozen=True, slots=True)
class WorstSamples:
    """The worst scored rows of a task, worst first, and the number of all rows."""

    rows: tuple[Mapping[str, Any], ...]
    n: int


def worst(rows: Iterable[Mapping[str, Any]], count: int = 4) -> WorstSamples:
    """Return the `count` rows with the lowest scores below full marks; ties are broken by a hash of the id.

    Uses one pass and a heap of `count` rows.
    """
    heap: list[tuple[float, str, int, Mapping[str, Any]]] = []
    n = 0
    for n, row in enumerate(rows, 1):
        score = row.get("score")
        if isinstance(score, bool) or not isinstance(score, int | float) or score >= FULL_MARKS:
            continue
        # Ties by hash, not by order: neighbouring rows often show the same image.
        spread = hashlib.sha256(str(row.get("id")).encode()).hexdigest()
        entry = (-float(score), spread, n, row)
        if len(heap) < count:
            heapq.heappush(heap, entry)
        elif count:
            heapq.heappushpop(heap, entry)
    return WorstSamples(tuple(row for *_, row in sorted(heap, key=lambda e: e[:3], reverse=True)), n)


WIDTH = 480  # pixels, total width of a sample's images
MOST = 6  # images per sample
QUALITY = 78


def _jpeg(image: Any, width: int) -> str:
    small = image.convert("RGB")
    small.thumbnail((width, 2 * width))
    buffer = io.BytesIO()
    # No chroma subsampling, which would blur thin red outlines.
    small.save(buffer, "JPEG", quality=QUALITY, subsampling=0, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
