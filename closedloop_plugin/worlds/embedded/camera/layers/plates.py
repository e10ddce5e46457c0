"""Pictures of road signs, cached: (128, 128, 4) uint8 RGBA, premultiplied alpha."""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np

SIZE = 128
BIG = 4 * SIZE  # drawn large, then averaged down

RED, WHITE, BLACK = (196, 22, 28, 255), (246, 246, 244, 255), (20, 20, 22, 255)


def _down(big: np.ndarray) -> np.ndarray:
    return cv2.resize(big, (SIZE, SIZE), interpolation=cv2.INTER_AREA)


def _octagon(radius: float) -> np.ndarray:
    angle = (np.arange(8) + 0.5) * (math.tau / 8)
    return np.rint(BIG / 2 + radius * BIG * np.column_stack([np.cos(angle), np.sin(angle)])).astype(np.int32)


@lru_cache(maxsize=1)
def stop() -> np.ndarray:
    """A red octagon with STOP in white."""
    big = np.zeros((BIG, BIG, 4), np.uint8)
    cv2.fillConvexPoly(big, _octagon(0.535), WHITE)
    cv2.fillConvexPoly(big, _octagon(0.495), RED)
    (w, h), _ = cv2.getTextSize("STOP", cv2.FONT_HERSHEY_SIMPLEX, 5.3, 24)
    cv2.putText(big, "STOP", ((BIG - w) // 2, (BIG + h) // 2), cv2.FONT_HERSHEY_SIMPLEX, 5.3, WHITE, 24, cv2.LINE_AA)
    return _down(big)


def _triangle(points: tuple[tuple[float, float], ...], share: float) -> np.ndarray:
    p = np.array(points)
    middle = p.mean(axis=0)
    return np.rint((middle + (p - middle) * share) * BIG).astype(np.int32)


@lru_cache(maxsize=1)
def give_way() -> np.ndarray:
    """A yield sign: a white triangle on its tip with a red border."""
    big = np.zeros((BIG, BIG, 4), np.uint8)
    points = ((0.02, 0.08), (0.98, 0.08), (0.5, 0.94))
    cv2.fillConvexPoly(big, _triangle(points, 1.0), RED)
    cv2.fillConvexPoly(big, _triangle(points, 0.6), WHITE)
    return _down(big)


@lru_cache(maxsize=1)
def warning() -> np.ndarray:
    """A warning sign: a white triangle on its base with a red border and an exclamation mark."""
    big = np.zeros((BIG, BIG, 4), np.uint8)
    points = ((0.02, 0.96), (0.98, 0.96), (0.5, 0.04))
    cv2.fillConvexPoly(big, _triangle(points, 1.0), RED)
    cv2.fillConvexPoly(big, _triangle(points, 0.62), WHITE)
    x = BIG // 2
    cv2.line(big, (x, int(0.46 * BIG)), (x, int(0.66 * BIG)), BLACK, int(0.07 * BIG))
    cv2.circle(big, (x, int(0.78 * BIG)), int(0.045 * BIG), BLACK, -1)
    return _down(big)


@lru_cache(maxsize=1)
def no_entry() -> np.ndarray:
    """A no entry sign: a red disc with a white bar."""
    big = np.zeros((BIG, BIG, 4), np.uint8)
    middle = (BIG // 2, BIG // 2)
    cv2.circle(big, middle, int(0.49 * BIG), WHITE, -1)
    cv2.circle(big, middle, int(0.46 * BIG), RED, -1)
    cv2.rectangle(big, (int(0.16 * BIG), int(0.42 * BIG)), (int(0.84 * BIG), int(0.58 * BIG)), WHITE, -1)
    return _down(big)


@lru_cache(maxsize=4)
def speed(limit: int) -> np.ndarray:
    """A speed limit: a white disc with a red ring and the number."""
    big = np.zeros((BIG, BIG, 4), np.uint8)
    middle = (BIG // 2, BIG // 2)
    cv2.circle(big, middle, int(0.49 * BIG), RED, -1)
    cv2.circle(big, middle, int(0.38 * BIG), WHITE, -1)
    text = str(limit)
    (w, h), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 7.5, 34)
    cv2.putText(big, text, ((BIG - w) // 2, (BIG + h) // 2), cv2.FONT_HERSHEY_SIMPLEX, 7.5, BLACK, 34, cv2.LINE_AA)
    return _down(big)
