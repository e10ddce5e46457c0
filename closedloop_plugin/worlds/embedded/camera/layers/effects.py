"""Conditions that make pictures harder to read: glare of the sun, worn road paint, drops on the lens."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from functools import lru_cache

import cv2
import numpy as np

from closedloop_plugin.worlds.embedded.camera.canvas import Canvas
from closedloop_plugin.worlds.embedded.camera.layers.ground import PaintStrokes

# Light that the lens scatters over the picture, from white around the sun to a veil far from it.
COLOUR = np.array([255.0, 247.0, 228.0])
PATCH = 4  # pixels around the sun that show whether something hides it
OUTSIDE = (0.25, 0.6)  # radians beyond the edge of the picture: full glare up to the first, none from the second on
VEIL = 0.1  # of the strength, everywhere
STEP = 4  # the glare is smooth: computed for every fourth pixel


class SunGlare:
    """Glare in one frame. Made after the sky is drawn and before anything that can hide the sun; drawn at the end.

    `percent`: strength. Scattered light falls with the angle t from the sun as (t0 / t)^1.4, as the veiling glare of
    eyes and lenses does approximately; within t0, 2 to 8 degrees by the strength, the picture is white.
    """

    def __init__(self, canvas: Canvas, percent: float) -> None:
        light, lens = canvas.light, canvas.lens
        self.strength = min(max(percent / 100, 0.0), 1.0)
        altitude = math.degrees(math.asin(min(max(float(light.sun[2]), -1.0), 1.0)))
        shining = (1 - light.clouds) ** 0.7 * float(light.clear(150.0)) * min(max((altitude + 1) / 3, 0.0), 1.0)
        x, y, up = light.sun.tolist()
        # Unit vector towards the sun: along the optical axis, to the right, up.
        ahead, right = x * lens.ahead[0] + y * lens.ahead[1], x * lens.right[0] + y * lens.right[1]
        self.sun = ahead, right, up
        # 1 for a sun in the picture or near its edge, 0 for one far outside.
        beyond = math.atan2(abs(right), ahead) - lens.half_angle
        nearness = min(max((OUTSIDE[1] - beyond) / (OUTSIDE[1] - OUTSIDE[0]), 0.0), 1.0)
        self.power = self.strength * shining * nearness
        # Column and row of the sun; of the nearest pixel, if it is outside the picture: what hides that hides the sun.
        u = lens.width / 2 + lens.focal * right / max(ahead, 1e-3)
        v = lens.height / 2 - lens.focal * up / max(ahead, 1e-3)
        self._place = int(min(max(u, 0.0), lens.width - 1.0)), int(min(max(v, 0.0), lens.height - 1.0))
        self._sky = self._patch(canvas.image).copy()

    def draw(self, canvas: Canvas) -> None:
        """Add the glare, unless bodies hide the sun; by the share of it that they leave."""
        power = self.power * float((self._patch(canvas.image) == self._sky).all(axis=-1).mean())
        if power <= 0.01:
            return
        height, width = canvas.image.shape[:2]
        size = -(-width // STEP), -(-height // STEP)
        x = ((np.arange(size[0]) + 0.5) * STEP - width / 2) / canvas.lens.focal
        z = (height / 2 - (np.arange(size[1]) + 0.5) * STEP) / canvas.lens.focal
        ray = np.sqrt(1.0 + x[None] ** 2 + z[:, None] ** 2)
        along = (self.sun[0] + x[None] * self.sun[1] + z[:, None] * self.sun[2]) / ray
        angle = np.maximum(np.arccos(np.clip(along, -1, 1)), 1e-3)
        white = math.radians(2.0 + 6.0 * self.strength)
        share = ((white / angle) ** 1.4 + VEIL) * power
        wide = cv2.resize(share.astype(np.float32), (size[0] * STEP, size[1] * STEP))[:height, :width, None]
        image = canvas.image
        image[:] = np.rint(image + (COLOUR - image) * np.minimum(wide, 1.0)).astype(np.uint8)

    def _patch(self, image: np.ndarray) -> np.ndarray:
        u, v = self._place
        return image[max(v - PATCH, 0) : v + PATCH + 1, max(u - PATCH, 0) : u + PATCH + 1]


# Worn road paint: a share of it is gone, in patches as tyres leave them; the rest is faded and thinner.

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


# Drops on a lens: each shows the scene upside down and out of focus. They stay where they are during an episode.

SMALLEST, LARGEST = 0.012, 0.06  # radii, as shares of the picture's height
WIDE = 2.4  # the scene in a drop is this much smaller, and inverted
MOST = 4000  # drops


def draw_drops(image: np.ndarray, percent: float, seed: int, camera: str) -> None:
    """Cover `percent` of a picture (H, W, 3) with drops, in place; the same ones for the same seed and camera name."""
    if percent <= 0:
        return
    height, width = image.shape[:2]
    x, y, gain, share = _maps(width, height, round(min(percent, 100.0), 1), seed, zlib.crc32(camera.encode()))
    blurred = cv2.GaussianBlur(image, (0, 0), max(0.012 * height, 0.8))
    seen = cv2.remap(blurred, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    drop = np.minimum(seen * gain[..., None], 255.0)
    image[:] = np.rint(image + (drop - image) * share[..., None]).astype(np.uint8)


@lru_cache(maxsize=8)
def _maps(width: int, height: int, percent: float, seed: int, camera: int) -> np.ndarray:
    """(4, H, W) float32: column and row where a pixel within a drop looks, its brightness, its share of the drop."""
    rng = np.random.default_rng([seed, camera, 29])
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    found = np.stack([columns, rows, np.ones_like(rows), np.zeros_like(rows)])
    for _ in range(MOST):
        if (found[3] > 0.5).mean() * 100 >= percent:
            break
        _add(found, rng, width, height)
    return found


def _add(maps: np.ndarray, rng: np.random.Generator, width: int, height: int) -> None:
    """Add one drop, over the earlier ones."""
    u, v = rng.random() * width, rng.random() * height
    radius = height * (SMALLEST + (LARGEST - SMALLEST) * rng.random() ** 2)
    tall, phase, wobble = rng.uniform(1.0, 1.3), rng.uniform(0, 6.28), rng.uniform(0.0, 0.12)
    x0, x1 = max(int(u - 1.2 * radius), 0), min(int(u + 1.2 * radius) + 2, width)
    y0, y1 = max(int(v - 1.6 * radius), 0), min(int(v + 1.6 * radius) + 2, height)
    if x0 >= x1 or y0 >= y1:
        return
    dx = (np.arange(x0, x1) + 0.5 - u)[None] / radius
    dy = (np.arange(y0, y1) + 0.5 - v)[:, None] / (radius * tall)
    angle = np.arctan2(dy, dx)
    rho = np.hypot(dx, dy) * (1 + wobble * np.sin(2 * angle + phase))
    inside = np.clip((1.0 - rho) / 0.18, 0.0, 1.0)
    part = np.s_[y0:y1, x0:x1]
    new = inside > 0
    # Bright below, where a drop shows the sky; dark at the rim.
    gain = (1.0 + 0.22 * dy) * (1.0 - 0.4 * np.minimum(rho, 1.0) ** 6)
    for target, value in zip(maps, (u - WIDE * dx * radius, v - WIDE * dy * radius, gain), strict=False):
        target[part] = np.where(new, value, target[part])
    maps[3][part] = np.maximum(maps[3][part], inside)
