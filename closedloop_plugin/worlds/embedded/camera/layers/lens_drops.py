"""Drops on a lens: each shows the scene upside down and out of focus. They stay where they are during an episode."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

SMALLEST, LARGEST = 0.012, 0.06  # radii, as shares of the picture's height
WIDE = 2.4  # the scene in a drop is this much smaller, and inverted
MOST = 4000  # drops


@dataclass(frozen=True, eq=False)
class DropMaps:
    """(H, W) float32 each: where a pixel within a drop looks, its brightness, and its share of the drop."""

    x: np.ndarray
    y: np.ndarray
    gain: np.ndarray
    share: np.ndarray


def draw_drops(image: np.ndarray, percent: float, seed: int, camera: str) -> None:
    """Cover `percent` of a picture (H, W, 3) with drops, in place; the same ones for the same seed and camera name."""
    if percent <= 0:
        return
    height, width = image.shape[:2]
    maps = _maps(width, height, round(min(percent, 100.0), 1), seed, zlib.crc32(camera.encode()))
    blurred = cv2.GaussianBlur(image, (0, 0), max(0.012 * height, 0.8))
    seen = cv2.remap(blurred, maps.x, maps.y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    drop = np.minimum(seen * maps.gain[..., None], 255.0)
    image[:] = np.rint(image + (drop - image) * maps.share[..., None]).astype(np.uint8)


@lru_cache(maxsize=8)
def _maps(width: int, height: int, percent: float, seed: int, camera: int) -> DropMaps:
    rng = np.random.default_rng([seed, camera, 29])
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    found = DropMaps(columns.copy(), rows.copy(), np.ones_like(rows), np.zeros_like(rows))
    for _ in range(MOST):
        if (found.share > 0.5).mean() * 100 >= percent:
            break
        _add(found, rng, width, height)
    return found


def _add(maps: DropMaps, rng: np.random.Generator, width: int, height: int) -> None:
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
    for target, value in (
        (maps.x, np.broadcast_to(u - WIDE * dx * radius, rho.shape)),
        (maps.y, np.broadcast_to(v - WIDE * dy * radius, rho.shape)),
        (maps.gain, gain),
    ):
        target[part] = np.where(new, value, target[part])
    maps.share[part] = np.maximum(maps.share[part], inside)
