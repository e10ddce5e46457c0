"""Warnings about a coordinate frame that seems to be the wrong one, from the scores in all frames (frame_check.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lmms_eval_ad2.core.numbers import is_number, is_whole

# Means, in percent: a warning if the used frame is below the first and another one above the second. An IoU is near 0
# for unrelated boxes. The location score is not: on 1920 x 1080, random points have 25, and 0..1000 read as pixels 37.
LIMITS: dict[str, tuple[float, float]] = {"box": (10.0, 40.0), "point": (50.0, 70.0)}
LEAST = 3  # replies: fewer may agree with another frame by accident


def misfit_warnings(blocks: Mapping[str, Any], run: str = "RUN") -> list[str]:
    """One line for each task whose replies fit another frame much better; no score is changed.

    blocks: task -> the block `coordinates` of its table (docs/architecture.md), which others may have written. run: the
    folder named in the command.
    """
    lines = []
    for task, block in blocks.items():
        by_frame: dict[str, list[str]] = {}
        for form, n, mean, other, better in _misfits(block):
            plural = "boxes" if form == "box" else "points"
            by_frame.setdefault(other, []).append(f"{n} {plural} score {mean:.1f}, but {better:.1f} in '{other}'")
        lines += [
            f"{task}: in the coordinate frame '{block['frame']}' {' and '.join(parts)}; if that is the model's frame: "
            f"ad2 rescore {run} --frame {other} (no score has been changed)"
            for other, parts in by_frame.items()
        ]
    return lines


def _misfits(block: Any) -> Iterator[tuple[str, int, float, str, float]]:
    """(form, n, mean, best frame, its mean) of a block `coordinates`; other structures give none."""
    if not isinstance(block, Mapping) or not isinstance(block.get("by_frame"), Mapping):
        return
    frame = str(block.get("frame"))
    for form, cell in block["by_frame"].items():
        if form not in LIMITS or not isinstance(cell, Mapping) or not isinstance(cell.get("scores"), Mapping):
            continue
        scores = {str(name): value for name, value in cell["scores"].items() if is_number(value)}
        mean, n = scores.get(frame.partition(":")[0]), cell.get("n")
        if mean is None or not is_whole(n, low=LEAST):
            continue
        other = max(scores, key=lambda name: scores[name])
        if mean < LIMITS[form][0] and scores[other] > LIMITS[form][1]:
            yield form, n, mean, other, scores[other]
