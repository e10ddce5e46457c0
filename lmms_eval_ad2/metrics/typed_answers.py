"""Points and boxes (AD2-Bench A.5, equations 6 and 7). All coordinates are pixels of the stored image."""

from __future__ import annotations

import math
from collections.abc import Sequence

Box = Sequence[float]


def location_score(p: Sequence[float], q: Sequence[float], alpha: float = 0.005) -> float:
    """1 / (1 + alpha * distance) of two points (x, y) in pixels: 1 on the spot, 0.5 at 200 px with the paper's alpha.

    `alpha` is in 1/px. The result lies in [0, 1] and is the same either way round.
    """
    if len(p) != 2 or len(q) != 2:
        raise ValueError(f"two points (x, y) are expected, not {len(p)} and {len(q)} numbers")
    return 1.0 / (1.0 + alpha * math.dist(p, q))


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes (x_min, y_min, x_max, y_max) in pixels, in [0, 1].

    Corners in the wrong order enclose nothing, so such a box has no area. Two boxes
    without area have no union, and score 0 even where they coincide.
    """
    if len(a) != 4 or len(b) != 4:
        raise ValueError(f"two boxes of four numbers are expected, not {len(a)} and {len(b)} numbers")
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(0.0, width) * max(0.0, height)
    union = _area(a) + _area(b) - shared
    return shared / union if union > 0 and math.isfinite(union) else 0.0


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


# Exact match of choices and yes/no answers (AD2-Bench A.5, equation 5; AutoDrive-QA accuracy).
def accuracy(predicted: str, target: str) -> float:
    """1.0 where the two canonical values (a letter, "yes"/"no", a number as text) are equal, else 0.0.

    Case and surrounding blanks do not count; everything else does.
    """
    return float(predicted.strip().casefold() == target.strip().casefold())
