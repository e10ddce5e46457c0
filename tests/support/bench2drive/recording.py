"""A small recording: a route with two turns, and the states of a car that drives along it at 5 m/s.

30 m east, left turn of radius 10 m, 30 m north, right turn of radius 10 m, 20 m east          (CARLA: north is -y)
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

QUARTER = 5 * math.pi  # m: quarter of a circle with radius 10 m
SPEED = 5.0  # m/s, at 20 Hz: 0.25 m a frame
REAR = 1.4  # m from the rear axle to the centre


def pose(s: float) -> tuple[float, float, float, str]:
    """(x, y, yaw in degrees clockwise from east, RoadOption) at s metres along."""
    if s < 30:
        return s, 0.0, 0.0, "LANEFOLLOW"
    s -= 30
    if s < QUARTER:
        a = s / 10
        return 30 + 10 * math.sin(a), -10 + 10 * math.cos(a), -math.degrees(a), "LEFT"
    s -= QUARTER
    if s < 30:
        return 40.0, -10 - s, -90.0, "LANEFOLLOW"
    s -= 30
    if s < QUARTER:
        a = s / 10
        return 50 - 10 * math.cos(a), -40 - 10 * math.sin(a), -90 + math.degrees(a), "RIGHT"
    return 50 + s - QUARTER, -50.0, 0.0, "LANEFOLLOW"


LENGTH = 80 + 2 * QUARTER


def plan() -> list[list[Any]]:
    """One point per metre: [x, y, option]."""
    return [[x, y, option] for x, y, _, option in map(pose, range(int(LENGTH) + 1))]


def frames(first: int = 0, last: int = int(LENGTH * 4)) -> list[list[float]]:
    """[time, x, y, yaw, speed] of each tick. The rear axle follows the route, so the centre swings out."""
    found = []
    for i in range(first, last):
        x, y, yaw, _ = pose(i * SPEED / 20 - REAR)
        turn = math.radians(yaw)
        found.append([(i + 1) / 20, x + REAR * math.cos(turn), y + REAR * math.sin(turn), yaw, SPEED])
    return found


def frame_at(s: float) -> int:
    """The frame in which the centre is at s metres, on a straight."""
    return round(s * 20 / SPEED)


def recording(last: int = int(LENGTH * 4), routes: tuple[str, ...] = ("route_one",), first: int = 0) -> dict[str, Any]:
    """`reference`: latitude and longitude of the map's origin, as in CARLA's default."""
    return {"reference": [42.0, 2.0], "plan": plan(), "frames": frames(first, last), "routes": list(routes)}


def write(file: Path, recorded: dict[str, Any]) -> Path:
    file.write_text(json.dumps(recorded), "utf-8")
    return file
