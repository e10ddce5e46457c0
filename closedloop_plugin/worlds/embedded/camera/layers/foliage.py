"""Leaves that hang before a sign or light and hide a share of it from the traffic that it controls."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from closedloop_plugin.worlds.embedded.camera.canvas import Canvas, Place

LEAF_M = 0.11  # radius of a tuft of leaves
GREENS = ((58.0, 92.0, 44.0), (72.0, 112.0, 52.0), (90.0, 132.0, 64.0))
BARK = (86.0, 68.0, 52.0)
BEFORE_M = 0.3  # towards the traffic
GRID = 40  # samples of the hidden share, per side


def draw_leaves(canvas: Canvas, centre: Place, yaw: float, half: tuple[float, float], percent: float) -> None:
    """Hide `percent` of a plate around `centre`, half[0] m to either side and half[1] m up and down.

    `yaw`: direction of the traffic. Drawn only for a camera on the side of the traffic, after the plate.
    """
    c, s = math.cos(yaw), math.sin(yaw)
    if percent <= 0 or (canvas.lens.x - centre[0]) * c + (canvas.lens.y - centre[1]) * s > 0:
        return
    x, y = centre[0] - BEFORE_M * c, centre[1] - BEFORE_M * s
    distance = math.hypot(x - canvas.lens.x, y - canvas.lens.y)
    tones = canvas.flats((*GREENS, BARK), x, y, distance)
    seed = round(abs(centre[0]) * 10 + abs(centre[1]) * 7) & 0xFFFF
    # A twig from above on the right, where trees stand.
    tip = x + 0.8 * half[0] * s, y - 0.8 * half[0] * c, centre[2] + 0.7 * half[1]
    canvas.limb(tip, (x + 1.6 * s, y - 1.6 * c, centre[2] + half[1] + 0.7), 0.03, tones[3])
    for right, up, tone in _tufts(round(half[0], 3), round(half[1], 3), round(min(percent, 100.0), 1), seed):
        canvas.ball((x + right * s, y - right * c, centre[2] + up), LEAF_M, tones[tone])


@lru_cache(maxsize=256)
def _tufts(half_width: float, half_height: float, percent: float, seed: int) -> tuple[tuple[float, float, int], ...]:
    """(m to the right, m up, tone) of tufts that together cover a share of the plate, and some beside it."""
    rng = np.random.default_rng([seed, 31])
    spots = np.column_stack([
        rng.uniform(-half_width, half_width + 0.5, 600), rng.uniform(-half_height, half_height + 0.3, 600)
    ])  # fmt: skip
    # From the twig's side on, unevenly.
    spots = spots[np.argsort(-spots[:, 0] / half_width - spots[:, 1] / half_height + rng.normal(0, 0.6, 600))]
    grid = np.stack(
        np.meshgrid(np.linspace(-half_width, half_width, GRID), np.linspace(-half_height, half_height, GRID))
    )
    hidden = np.zeros((GRID, GRID), bool)
    found: list[tuple[float, float, int]] = []
    for right, up in spots.tolist():
        if hidden.mean() * 100 >= percent:
            break
        hidden |= np.hypot(grid[0] - right, grid[1] - up) < LEAF_M
        found.append((right, up, int(rng.integers(0, 3))))
    return tuple(found)
