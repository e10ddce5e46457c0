"""Cheap camera pictures that depend on the position: sky, ground striped in world coordinates, boxes for bodies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fake_carla.bodies import SOLID, Body

if TYPE_CHECKING:
    from fake_carla.stage import Stage

SKY, ROAD, STRIPE = (220, 180, 130), (90, 90, 90), (110, 110, 110)  # BGR
FAR_M = 80.0


def draw(stage: Stage, sensor: Body, width: int, height: int, fov: float) -> bytes:
    """BGRA bytes, row by row from the top."""
    pose = sensor.transform()
    x, y, up = pose.location.x, -pose.location.y, pose.location.z
    yaw = -math.radians(pose.rotation.yaw)
    c, s = math.cos(yaw), math.sin(yaw)
    focal = 0.5 * width / math.tan(math.radians(fov) / 2)
    horizon = int(height / 2 + focal * math.tan(math.radians(pose.rotation.pitch)))
    image = np.full((height, width), _pixel(SKY))
    first = min(max(horizon + 1, 0), height)
    below = np.arange(first, height)
    ahead = max(up - _ground(sensor), 0.5) * focal / np.maximum(below - horizon, 1)
    striped = (np.floor((x + ahead * c) / 2) + np.floor((y + ahead * s) / 2)) % 2 > 0
    image[first:] = np.where(striped, _pixel(STRIPE), _pixel(ROAD))[:, None]
    boxes = []
    for body in stage.bodies.values():
        if body.group in SOLID and body is not sensor.parent:
            dx, dy = body.motion.x - x, body.motion.y - y
            depth = dx * c + dy * s
            if 1.0 < depth < FAR_M:
                boxes.append((depth, dy * c - dx * s, body))
    for depth, left, body in sorted(boxes, key=lambda box: -box[0]):
        half_width = focal * max(body.half[:2]) / depth
        middle = width / 2 - focal * left / depth
        foot = horizon + focal * (up - (body.z - body.lift)) / depth
        top = foot - focal * 2 * body.half[2] / depth
        rows, columns = _span(top, foot, height), _span(middle - half_width, middle + half_width, width)
        image[rows, columns] = _pixel(_colour(body))
    return image.tobytes()


def _pixel(bgr: tuple[int, int, int]) -> np.uint32:
    """The four bytes B, G, R, 255 as one number: writing pixels is faster than writing channels."""
    return np.frombuffer(bytes((*bgr, 255)), np.uint32)[0]


def _ground(sensor: Body) -> float:
    return sensor.parent.z - sensor.parent.lift if sensor.parent else 0.0


def _span(low: float, high: float, size: int) -> slice:
    return slice(int(min(max(low, 0), size)), int(min(max(high, 0), size)))


def _colour(body: Body) -> tuple[int, int, int]:
    """BGR of its paint; for a walker or prop a colour derived from its type."""
    paint = body.attributes.get("color")
    if paint:
        red, green, blue = map(int, paint.split(","))
        return blue, green, red
    shade = 60 + sum(body.type_id.encode()) % 120
    return shade, 60, 255 - shade
