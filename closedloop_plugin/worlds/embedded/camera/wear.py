"""Worn road paint: a share of it is gone, in patches as tyres leave them; the rest is faded and thinner."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from closedloop_plugin.worlds.embedded.camera.layers.ground import PaintStrokes

PIECE_M = 0.4  # length of the pieces that are kept or gone
PATCH_M = 2.5  # size of the patches
FADES = (0.3, 0.55, 0.8)  # of the paint that is left, as shares of the way to the road's colour


def worn(paint: tuple[PaintStrokes, ...], percent: float, seed: int) -> tuple[PaintStrokes, ...]:
    """The paint with `percent` of its length worn off; deterministic for the seed."""
    share = min(max(percent / 100, 0.0), 1.0)
    return tuple(piece for group in paint for piece in _worn(group, share, seed))


def _worn(group: PaintStrokes, share: float, seed: int) -> Iterator[PaintStrokes]:
    pieces = _pieces(group.strokes)
    if not len(pieces):
        return
    middle = (pieces[:, :2] + pieces[:, 2:4]) / 2
    rng = np.random.default_rng([seed, 23])
    decay = _patches(middle, rng) + 0.35 * rng.random(len(pieces))
    left = decay > np.quantile(decay, share) if share < 1 else np.zeros(len(pieces), bool)
    pieces, level = pieces[left], rng.integers(0, len(FADES), len(pieces))[left]
    pieces[:, 4] *= 1.0 - share * rng.uniform(0.0, 0.45, len(pieces))
    for k, fade in enumerate(FADES):
        if (level == k).any():
            yield PaintStrokes(group.colour, pieces[level == k], fade * (0.4 + 0.6 * share))


def _pieces(strokes: np.ndarray) -> np.ndarray:
    """Strokes (n, 5) cut into pieces of at most PIECE_M."""
    length = np.hypot(strokes[:, 2] - strokes[:, 0], strokes[:, 3] - strokes[:, 1])
    counts = np.maximum(1, np.ceil(length / PIECE_M).astype(int))
    row = np.repeat(np.arange(len(strokes)), counts)
    k = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    a, b = strokes[row, :2], strokes[row, 2:4]
    step = (b - a) / counts[row, None]
    start = a + k[:, None] * step
    return np.column_stack([start, start + step, strokes[row, 4]])


def _patches(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Smooth noise in 0..1 at points (n, 2): bilinear between random values on a grid of PATCH_M, repeated."""
    size = 64
    grid = rng.random((size, size))
    at = points / PATCH_M
    cell = np.floor(at).astype(int)
    t = at - cell
    i, j = cell[:, 0] % size, cell[:, 1] % size
    i1, j1 = (i + 1) % size, (j + 1) % size
    low = grid[i, j] * (1 - t[:, 0]) + grid[i1, j] * t[:, 0]
    high = grid[i, j1] * (1 - t[:, 0]) + grid[i1, j1] * t[:, 0]
    return low * (1 - t[:, 1]) + high * t[:, 1]
