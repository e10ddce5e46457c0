"""Where a vehicle is put down: at a segment's start, as exactly as a hand does it."""

from __future__ import annotations

import math

import numpy as np

from closedloop_plugin.robots.course.hint import Pose
from closedloop_plugin.robots.sandbox.track import Segment

# Without these a deterministic driver would drive three times the same. Far less than what a lane leaves beside it.
HAND_M = 0.01
HAND_RAD = math.radians(1.5)


def placed(segment: Segment, seed: int) -> Pose:
    """The segment's start, off by up to HAND_M along and aside and by up to HAND_RAD; the same for the same seed."""
    dice = np.random.default_rng([seed, 0x9A7])
    along, aside, turned = (float(v) for v in dice.uniform(-1.0, 1.0, 3))
    x, y, yaw = segment.path.pose(along * HAND_M, aside * HAND_M)
    return x, y, yaw + turned * HAND_RAD
