"""SeenGrid: where a picture shows what, and how near, as a grid on which a vision encoder is trained directly.

Answers alone teach a small encoder hardly anything: most are known from speed and navigation without the picture, so
the gradients that reach the encoder are weak. The truth of a collected frame says more: for each cell of a grid and
each of KINDS whether it is there, and its nearness exp(-distance / NEAR_M).

In a training file, the first row of a picture has what it shows:
    "seen": [[[names of KINDS], [x0, y0, x1, y1], metres], ...]        box in shares of the picture, 0 to 1
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmms_eval_ad2.core.numbers import is_bounded

VEHICLES = frozenset({"car", "van", "bus", "truck", "police", "ambulance", "firetruck", "motorcycle"})
PERSONS = frozenset({"pedestrian", "bicycle"})
KINDS = ("vehicle", "person", "obstacle", "own lane", "stop signal", "go signal", "stop sign", "yield sign")
SIGNALS = {"red": "stop signal", "yellow": "stop signal", "green": "go signal"}  # by state; none if it is off
SIGNS = {"stop": "stop sign", "yield": "yield sign"}
CHANNELS = 2 * len(KINDS)  # there, nearness
NEAR_M = 12.0
LEAST_SHARE = 0.25  # of a cell that a box covers so that it is in the cell; its centre is always in one
MOST = 400  # objects of a row
FINE = 2  # cells of a picture token in either direction
# Weights in the loss; 1 for the others.
RARE = {"own lane": 2.0, "stop signal": 4.0, "go signal": 4.0, "stop sign": 4.0, "yield sign": 4.0}


@dataclass(frozen=True, slots=True)
class ShownBox:
    """kinds: numbers of KINDS. box: (x0, y0, x1, y1) in shares of the picture. metres: its distance."""

    kinds: tuple[int, ...]
    box: tuple[float, float, float, float]
    metres: float


def seen_json(frame: Mapping[str, Any], size: tuple[int, int]) -> list[Any]:
    """The field "seen" of a collected frame. `size`: of its picture, pixels.

    Raises ValueError if `read_seen` would refuse it, so that a frame is named and not a row made of it.
    """
    found = []
    for row in (*frame["objects"], *frame["signals"]):
        names = _names(row)
        if row["shown"] and row["box"] and names:
            box = [round(value / size[k % 2], 4) for k, value in enumerate(row["box"])]
            found.append([names, box, round(math.hypot(row["forward"], row["left"]), 1)])
    if read_seen(found) is None:
        raise ValueError(f"a box outside the picture of {size[0]}x{size[1]}, or more than {MOST} objects in it")
    return found


def _names(row: Mapping[str, Any]) -> list[str]:
    if "kind" in row:
        kind = "vehicle" if row["kind"] in VEHICLES else "person" if row["kind"] in PERSONS else "obstacle"
        return [kind, *(["own lane"] if row["lane"] == "own" else [])]
    name = SIGNALS.get(str(row["state"])) if row["control"] == "signal" else SIGNS.get(str(row["control"]))
    return [name] if name and row["on_route"] else []


def read_seen(value: object) -> tuple[ShownBox, ...] | None:
    """The field of a row; None if it is not of the format. Raises nothing."""
    if not isinstance(value, list) or len(value) > MOST:
        return None
    found = []
    for one in value:
        match one:
            case [[*names], [*box], int() | float() as metres] if (
                all(name in KINDS for name in names)
                and len(box) == 4
                and all(isinstance(x, int | float) and 0 <= x <= 1 for x in box)
                and is_bounded(metres)
                and metres >= 0
            ):
                kinds = tuple(KINDS.index(name) for name in names)
                found.append(ShownBox(kinds, (box[0], box[1], box[2], box[3]), metres))
            case _:
                return None
    return tuple(found)


def seen_grid(seen: Sequence[ShownBox], rows: int, columns: int) -> np.ndarray:
    """(rows, columns, CHANNELS) uint8, 255 for 1: the channels of "there", then those of the nearness."""
    grid = np.zeros((rows, columns, CHANNELS), dtype=np.uint8)
    for one in seen:
        x0, y0, x1, y1 = (value * n for value, n in zip(one.box, (columns, rows, columns, rows), strict=True))
        centre = min(int((y0 + y1) / 2), rows - 1), min(int((x0 + x1) / 2), columns - 1)
        near = round(255 * math.exp(-one.metres / NEAR_M))
        for i in range(int(y0), min(math.ceil(y1), rows)):
            for j in range(int(x0), min(math.ceil(x1), columns)):
                covered = (min(x1, j + 1) - max(x0, j)) * (min(y1, i + 1) - max(y0, i))
                if covered > LEAST_SHARE or (i, j) == centre:
                    for kind in one.kinds:
                        grid[i, j, kind] = 255
                        grid[i, j, len(KINDS) + kind] = max(grid[i, j, len(KINDS) + kind], near)
    return grid
