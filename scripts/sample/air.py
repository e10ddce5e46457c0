"""Appearance of weather and light by severity: colours, visibility, wetness, particles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scripts.sample.scene import Scene

RGB = tuple[int, int, int]
LEVEL = {"light": 0.35, "moderate": 0.65, "severe": 1.0}
HEADLIGHTS = 30.0  # metres over which the ego car's headlights fade


@dataclass(frozen=True)
class Air:
    """The air between camera and objects. `reach`: metres after which contrast has fallen to 1/e (37 %)."""

    sky_top: RGB
    sky_low: RGB
    haze: RGB
    reach: float
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    clouds: float = 0.3
    wet: float = 0.0
    white: float = 0.0
    dusty: float = 0.0
    rain: float = 0.0
    snow: float = 0.0
    sand: float = 0.0
    dark: float = 0.0
    sun: bool = False
    shadow: float = 0.35

    def clearness(self, distance: float) -> float:
        """The share of an object's colour that reaches the camera, exp(-distance / reach), 0..1."""
        return math.exp(-max(0.0, distance) / self.reach)

    def shade(self, color: RGB, distance: float, ahead: float = 1.0) -> RGB:
        """The colour of a surface from `distance` metres. `ahead`: 1 in the cone of the headlights, 0 outside."""
        lamp = 1.0 - self.dark * (1.0 - 0.9 * ahead * math.exp(-distance / HEADLIGHTS))
        t = self.clearness(distance)
        r, g, b = (
            min(255, int(c * k * lamp * t + h * (1 - t))) for c, k, h in zip(color, self.tint, self.haze, strict=True)
        )
        return r, g, b


def air_of(scene: Scene) -> Air:
    """The air of a scene, by its weather and severity."""
    s = LEVEL[scene.severity]
    match scene.weather:
        case "overcast":
            low = _dim((196, 202, 208), 1 - 0.2 * s)
            return Air(_dim((150, 160, 172), 1 - 0.3 * s), low, low, 260 - 120 * s, (0.86,) * 3, clouds=0.9, shadow=0.2)
        case "dawn":
            return Air(
                (74, 96, 150), (255, 190, 126), (232, 178, 140), 300 - 160 * s, (1.04, 0.9, 0.82),
                clouds=0.45, dark=0.06 + 0.12 * s, sun=True, shadow=0.5,
            )  # fmt: skip
        case "rainy":
            low = _dim((168, 176, 184), 1 - 0.22 * s)
            return Air(
                _dim((112, 122, 134), 1 - 0.25 * s), low, low, 190 - 130 * s, (0.74, 0.77, 0.82),
                clouds=0.8, wet=0.4 + 0.6 * s, rain=s, dark=0.1 * s, shadow=0.25,
            )  # fmt: skip
        case "snowy":
            low = (222, 226, 232)
            return Air(
                (184, 192, 204), low, low, 170 - 120 * s, (0.9, 0.93, 0.98), clouds=0.5, white=0.35 + 0.6 * s,
                snow=s, wet=0.15, shadow=0.25,
            )  # fmt: skip
        case "fog":
            low = (200, 204, 206)
            return Air((192, 197, 201), low, low, 95 - 67 * s, (0.88, 0.9, 0.9), clouds=0.0, shadow=0.15)
        case "night":
            return Air(
                (8, 11, 24), (30, 34, 52), (16, 18, 28), 150 - 60 * s, (0.92, 0.95, 1.05), clouds=0.15,
                dark=0.62 + 0.2 * s, shadow=0.5,
            )  # fmt: skip
        case "sand":
            low = (214, 176, 116)
            return Air((190, 150, 92), low, low, 110 - 78 * s, (1.0, 0.88, 0.68), clouds=0.2, dusty=0.4 + 0.4 * s,
                       sand=s, shadow=0.2)  # fmt: skip
    return Air((84, 142, 208), (198, 220, 236), (196, 214, 228), 420, clouds=0.45, shadow=0.45)


def _dim(color: RGB, k: float) -> RGB:
    return (int(color[0] * k), int(color[1] * k), int(color[2] * k))
