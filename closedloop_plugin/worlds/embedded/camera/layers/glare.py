"""Glare of the sun: light that the lens scatters over the picture, from white around the sun to a veil far from it."""

from __future__ import annotations

import math

import cv2
import numpy as np

from closedloop_plugin.worlds.embedded.camera.canvas import Canvas
from closedloop_plugin.worlds.embedded.camera.lens import PinholeLens

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
        self.sun = _in_camera(lens, light.sun)
        self.power = self.strength * shining * _nearness(lens, self.sun)
        self._place = _pixel(lens, self.sun)
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


def _in_camera(lens: PinholeLens, sun: np.ndarray) -> tuple[float, float, float]:
    """Unit vector towards the sun: along the optical axis, to the right, up."""
    x, y, z = sun.tolist()
    return x * lens.ahead[0] + y * lens.ahead[1], x * lens.right[0] + y * lens.right[1], z


def _pixel(lens: PinholeLens, sun: tuple[float, float, float]) -> tuple[int, int]:
    """Column and row of the sun; of the nearest pixel, if it is outside the picture: what hides that hides the sun."""
    ahead = max(sun[0], 1e-3)
    u = lens.width / 2 + lens.focal * sun[1] / ahead
    v = lens.height / 2 - lens.focal * sun[2] / ahead
    return int(min(max(u, 0.0), lens.width - 1.0)), int(min(max(v, 0.0), lens.height - 1.0))


def _nearness(lens: PinholeLens, sun: tuple[float, float, float]) -> float:
    """1 for a sun in the picture or near its edge, 0 for one far outside."""
    beyond = math.atan2(abs(sun[1]), sun[0]) - lens.half_angle
    near, far = OUTSIDE
    return min(max((far - beyond) / (far - near), 0.0), 1.0)
