"""Points, boxes and exact matches (AD2-Bench A.5, equations 5 to 7). Coordinates are pixels of the stored image."""

from __future__ import annotations

import math
from collections.abc import Sequence

Box = Sequence[float]


def location_score(p: Sequence[float], q: Sequence[float], alpha: float = 0.005) -> float:
    """Location score of two points (x, y) in pixels, in (0, 1]: 1 for equal points, 0.5 at 200 px (paper's alpha).

    Symmetric in `p` and `q`. `alpha` is in 1/px.
    """
    if len(p) != 2 or len(q) != 2:
        raise ValueError(f"two points (x, y) are expected, not {len(p)} and {len(q)} numbers")
    return 1.0 / (1.0 + alpha * math.dist(p, q))  # equation 6: 1 / (1 + alpha * ||p - q||)


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes (x_min, y_min, x_max, y_max) in pixels, in [0, 1].

    A box with its corners in the wrong order has area 0. Two boxes of area 0 score 0, even if they coincide.
    """
    if len(a) != 4 or len(b) != 4:
        raise ValueError(f"two boxes of four numbers are expected, not {len(a)} and {len(b)} numbers")
    # Equation 7: |A n B| / |A u B|, with |A u B| = |A| + |B| - |A n B|; width and height of A n B are negative if the
    # boxes are disjoint.
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    intersection = max(0.0, width) * max(0.0, height)
    union = _area(a) + _area(b) - intersection
    return intersection / union if union > 0 and math.isfinite(union) else 0.0


def accuracy(predicted: str, target: str) -> float:
    """1.0 if the two canonical values (a letter, "yes"/"no", a number as text) are equal, else 0.0.

    Case and surrounding white space are ignored. Equation 5 is its mean; so is AutoDrive-QA's accuracy.
    """
    return float(predicted.strip().casefold() == target.strip().casefold())


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])
