"""Cheap camera pictures that depend on the position: sky, ground striped in world coordinates, boxes for bodies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fake_carla.bodies import SOLID, Being

if TYPE_CHECKING:
    from fake_carla.stage import Stage

SKY, ROAD, STRIPE = (220, 180, 130), (90, 90, 90), (110, 110, 110)  # BGR
FAR_M = 80.0


def draw(stage: Stage, sensor: Being, width: int, height: int, fov: float) -> bytes:
    """BGRA bytes, row by row from the top."""
    at = sensor.transform()
    x, y, up = at.location.x, -at.location.y, at.location.z
    yaw = -math.radians(at.rotation.yaw)
    c, s = math.cos(yaw), math.sin(yaw)
    focal = 0.5 * width / math.tan(math.radians(fov) / 2)
    horizon = int(height / 2 + focal * math.tan(math.radians(at.rotation.pitch)))
    image = np.full((height, width), _pixel(SKY))
    first = min(max(horizon + 1, 0), height)
    below = np.arange(first, height)
    ahead = max(up - _ground(sensor), 0.5) * focal / np.maximum(below - horizon, 1)
    striped = (np.floor((x + ahead * c) / 2) + np.floor((y + ahead * s) / 2)) % 2 > 0
    image[first:] = np.where(striped, _pixel(STRIPE), _pixel(ROAD))[:, None]
    boxes = []
    for being in stage.beings.values():
        if being.group in SOLID and being is not sensor.parent:
            dx, dy = being.motion.x - x, being.motion.y - y
            depth = dx * c + dy * s
            if 1.0 < depth < FAR_M:
                boxes.append((depth, dy * c - dx * s, being))
    for depth, left, being in sorted(boxes, key=lambda box: -box[0]):
        wide = focal * max(being.half[:2]) / depth
        middle = width / 2 - focal * left / depth
        foot = horizon + focal * (up - (being.z - being.lift)) / depth
        top = foot - focal * 2 * being.half[2] / depth
        rows, columns = _span(top, foot, height), _span(middle - wide, middle + wide, width)
        image[rows, columns] = _pixel(_colour(being))
    return image.tobytes()


def _pixel(bgr: tuple[int, int, int]) -> np.uint32:
    """The four bytes B, G, R, 255 as one number: whole pixels are written faster than channels."""
    return np.frombuffer(bytes((*bgr, 255)), np.uint32)[0]


def _ground(sensor: Being) -> float:
    return sensor.parent.z - sensor.parent.lift if sensor.parent else 0.0


def _span(low: float, high: float, size: int) -> slice:
    return slice(int(min(max(low, 0), size)), int(min(max(high, 0), size)))


def _colour(being: Being) -> tuple[int, int, int]:
    """BGR of its paint; a walker or prop by its name."""
    paint = being.attributes.get("color")
    if paint:
        red, green, blue = map(int, paint.split(","))
        return blue, green, red
    shade = 60 + sum(being.type_id.encode()) % 120
    return shade, 60, 255 - shade
