"""Road paint as short straight strokes, so that a frame projects all of one colour in one go."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from closedloop_plugin.worlds.embedded.camera.lens import NEAR, Lens
from closedloop_plugin.worlds.embedded.camera.scenery import Marking, Scenery

DASH, GAP = 3.0, 5.0  # m
PIECE = 6.0  # m: longest stroke of a solid line
# Strokes of the letters of STOP in a box 1 wide and 1 high, y up.
LETTERS = {
    "S": ((1, 1, 0, 1), (0, 1, 0, 0.5), (0, 0.5, 1, 0.5), (1, 0.5, 1, 0), (1, 0, 0, 0)),
    "T": ((0, 1, 1, 1), (0.5, 1, 0.5, 0)),
    "O": ((0, 0, 0, 1), (0, 1, 1, 1), (1, 1, 1, 0), (1, 0, 0, 0)),
    "P": ((0, 0, 0, 1), (0, 1, 1, 1), (1, 1, 1, 0.5), (1, 0.5, 0, 0.5)),
}


@dataclass(frozen=True)
class Paint:
    """Strokes of one colour. (n, 5): x0 y0 x1 y1 width; none crosses another."""

    colour: str
    strokes: np.ndarray

    def quads(self, lens: Lens, far: float) -> np.ndarray:
        """(k, 4, 2) pixels of the strokes in view."""
        a, b = lens.local(self.strokes[:, :2]), lens.local(self.strokes[:, 2:4])
        half = self.strokes[:, 4] / 2
        reach = np.hypot(*(b - a).T) / 2
        seen = lens.sees((a + b) / 2, reach + half, far)
        seen &= np.maximum(a[:, 0], b[:, 0]) > NEAR + 0.02
        a, b, half = a[seen], b[seen], half[seen]
        along = b - a
        # Cut each stroke where it passes the camera's plane.
        span = np.where(np.abs(along[:, 0]) < 1e-9, 1e-9, along[:, 0])
        t = np.clip((NEAR + 0.02 - a[:, 0]) / span, 0.0, 1.0)[:, None]
        cut = a + t * along
        a, b = np.where(a[:, :1] < NEAR + 0.02, cut, a), np.where(b[:, :1] < NEAR + 0.02, cut, b)
        length = np.maximum(np.hypot(*along.T), 1e-9)
        side = np.column_stack([-along[:, 1], along[:, 0]]) / length[:, None] * half[:, None]
        corners = np.stack([a + side, b + side, b - side, a - side], axis=1)
        corners[..., 0] = np.maximum(corners[..., 0], NEAR)
        return lens.pixels(corners, 0.0)


def paint_of(scenery: Scenery) -> tuple[Paint, ...]:
    """All paint of a scenery. Lines and what may cross them apart: strokes filled together cut holes into another."""
    lines: dict[str, list[np.ndarray]] = {"white": [], "yellow": []}
    for marking in scenery.markings:
        lines[marking.colour] += _line(marking)
    marks = [_across(x, y, yaw, width, 0.45) for x, y, yaw, width in scenery.stop_lines.tolist()]
    marks += [_bars(x, y, yaw, width, 0.7, 0.45, 0.9) for x, y, yaw, width in scenery.teeth.tolist()]
    marks += [_stop(x, y, yaw) for x, y, yaw in scenery.words.tolist()]
    stripes = [_bars(x, y, yaw, width, depth, 0.5, 1.0) for x, y, yaw, width, depth in scenery.crosswalks.tolist()]
    groups = (("white", lines["white"]), ("yellow", lines["yellow"]), ("white", stripes), ("white", marks))
    return tuple(Paint(colour, np.concatenate(group)) for colour, group in groups if group)


def _line(marking: Marking) -> list[np.ndarray]:
    points = np.asarray(marking.points, dtype=float)
    if marking.style != "double":
        return [_strokes(points, marking.style == "dashed", marking.width)]
    along = np.gradient(points, axis=0)
    normal = np.column_stack([-along[:, 1], along[:, 0]]) / np.maximum(np.hypot(*along.T), 1e-9)[:, None]
    return [_strokes(points + side * marking.width * normal, False, marking.width) for side in (-1.0, 1.0)]


def _strokes(points: np.ndarray, dashed: bool, width: float) -> np.ndarray:
    along = np.r_[0.0, np.cumsum(np.hypot(*np.diff(points, axis=0).T))]
    period, dash = (DASH + GAP, DASH) if dashed else (PIECE, PIECE)
    start = np.arange(0.0, along[-1], period)
    stop = np.minimum(start + dash, along[-1])
    ends = [np.column_stack([np.interp(s, along, points[:, i]) for i in (0, 1)]) for s in (start, stop)]
    return np.column_stack([*ends, np.full(len(start), width)])


def _across(x: float, y: float, yaw: float, width: float, depth: float) -> np.ndarray:
    dx, dy = math.sin(yaw) * width / 2, -math.cos(yaw) * width / 2
    return np.array([[x - dx, y - dy, x + dx, y + dy, depth]])


def _bars(x: float, y: float, yaw: float, width: float, depth: float, bar: float, period: float) -> np.ndarray:
    """Stripes along `yaw`, side by side across the road."""
    count = max(1, int(width / period))
    side = (np.arange(count) - (count - 1) / 2) * period
    cx, cy = x + side * math.sin(yaw), y - side * math.cos(yaw)
    dx, dy = math.cos(yaw) * depth / 2, math.sin(yaw) * depth / 2
    return np.column_stack([cx - dx, cy - dy, cx + dx, cy + dy, np.full(count, bar)])


def _stop(x: float, y: float, yaw: float) -> np.ndarray:
    """The word, 2.4 m wide and 2.2 m long: stretched, for it is read at a flat angle."""
    place = [[(i * 0.66 - 1.2, -1.1)] * 2 for i, letter in enumerate("STOP") for _ in LETTERS[letter]]
    unit = np.array([stroke for letter in "STOP" for stroke in LETTERS[letter]], dtype=float).reshape(-1, 2, 2)
    p = unit * (0.42, 2.2) + np.array(place)  # (strokes, ends, right and ahead)
    px = x + p[..., 0] * math.sin(yaw) + p[..., 1] * math.cos(yaw)
    py = y - p[..., 0] * math.cos(yaw) + p[..., 1] * math.sin(yaw)
    return np.column_stack([px[:, 0], py[:, 0], px[:, 1], py[:, 1], np.full(len(p), 0.13)])
