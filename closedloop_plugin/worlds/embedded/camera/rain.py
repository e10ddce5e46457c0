"""Rain before the lens: streaks drawn anew from the time, the same for the same time."""

from __future__ import annotations

import cv2
import numpy as np

from closedloop_plugin.worlds.embedded.camera.canvas import Canvas


def draw_rain(canvas: Canvas, time_s: float) -> None:
    """More and longer streaks the harder it rains; the wind leans them."""
    light = canvas.light
    if light.rain <= 0:
        return
    height, width = canvas.image.shape[:2]
    rng = np.random.default_rng([round(time_s * 100) & 0xFFFFFFFF, 13])
    count = int(60 + 420 * light.rain)
    near = rng.random(count) ** 2
    long = height * (0.025 + 0.075 * near)
    lean = (0.08 + 0.35 * light.wind) * long + rng.normal(0, 0.04, count) * long
    x, y = rng.random(count) * width * 1.1, rng.random(count) * height * 1.1 - 0.1 * height
    lines = np.rint(np.stack([np.column_stack([x, y]), np.column_stack([x - lean, y + long])], axis=1) * 16)
    mask = np.zeros((height, width), np.uint8)
    shade = int(26 + 34 * light.day)
    cv2.polylines(mask, list(lines.astype(np.int32)), False, shade, 1, cv2.LINE_AA, 4)
    canvas.image[:] = cv2.add(canvas.image, cv2.merge((mask, mask, mask)))
