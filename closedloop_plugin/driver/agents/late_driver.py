"""LateDriver: the expert's planner with imperfect perception; a driver of middle strength.

It shows what a score between the floor (steer-only, straight) and the ceiling (expert) means. Its planning is the
expert's; only what it perceives of other road users and of traffic lights differs:

- late: the state of DELAY_S ago, not extrapolated. 0.8 s is about the brake reaction time of an attentive driver
  (Green 2000, Transportation Human Factors 2(3): 0.7 to 0.75 s for expected signals, about 1.25 s for unexpected ones);
- ahead only: within SIGHT_M and within half FIELD_DEG of its heading, so nothing behind and beside it, and nothing of
  the streams that the expert knows (GroundTruth.streams), whose coming vehicles are out of sight;
- not through bodies: an actor is seen if the line to its centre or to one of its corners is free of higher bodies.

It is deterministic. Buildings and trees hide nobody, since the truth does not contain them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from closedloop_plugin.core.boxes import corners, oriented_box
from closedloop_plugin.core.state import Actor, GroundTruth
from closedloop_plugin.driver.agents.expert import ExpertDriver, ExpertPlan
from closedloop_plugin.maps.base import RoadMap

DELAY_S = 0.8
SIGHT_M = 40.0
FIELD_DEG = 140.0
HIGHER_M = 0.1  # a body hides another if it is at most this much lower


class LateDriver(ExpertDriver):
    """See the head of this file."""

    name = "late (privileged)"

    def __init__(self) -> None:
        super().__init__()
        self._past: dict[str, deque[GroundTruth]] = {}

    def start(self, episode: str, seed: int) -> None:
        super().start(episode, seed)
        self._past[episode] = deque()

    def end(self, episode: str) -> None:
        super().end(episode)
        self._past.pop(episode, None)

    def _plan(self, truth: GroundTruth, road: RoadMap, episode: str) -> ExpertPlan:
        past = self._past.setdefault(episode, deque())
        past.append(truth)
        # Before DELAY_S have passed, it knows the scene of the first decision.
        while len(past) > 1 and past[1].time_s <= truth.time_s - DELAY_S + 1e-6:
            past.popleft()
        return super()._plan(perceived(truth, past[0]), road, episode)


def perceived(now: GroundTruth, then: GroundTruth) -> GroundTruth:
    """The ego of `now` with the actors that were in sight, and the signals, of `then`; nothing of vehicles to come."""
    return replace(now, actors=in_sight(then.ego, then.actors), signals=then.signals, streams=())


def in_sight(ego: Actor, actors: Sequence[Actor]) -> tuple[Actor, ...]:
    """The actors that the driver sees, in their order."""
    near = [a for a in actors if math.hypot(a.x - ego.x, a.y - ego.y) <= SIGHT_M]
    if not near:
        return ()
    points = np.array([[(a.x, a.y), *corners(oriented_box(a.x, a.y, a.yaw, a.length, a.width))] for a in near])
    bearing = np.arctan2(points[..., 1] - ego.y, points[..., 0] - ego.x) - ego.yaw
    ahead = np.cos(bearing) >= math.cos(math.radians(FIELD_DEG / 2))  # (n, 5)
    seen = (ahead & ~_covered((ego.x, ego.y), near, points)).any(1)
    return tuple(a for a, visible in zip(near, seen, strict=True) if visible)


def _covered(eye: tuple[float, float], actors: Sequence[Actor], points: np.ndarray) -> np.ndarray:
    """Whether the line from the eye to each of the `points` (n, p, 2) of the n actors crosses another one's box.

    Slab method: in a box's frame, the line enters between the slabs |x| <= length / 2 and |y| <= width / 2 for the
    parameters [enter, leave] of each slab; it crosses the box if both intervals overlap within 0..1.
    """
    covered = np.zeros(points.shape[:2], bool)
    heights = np.array([a.height for a in actors])
    for k, a in enumerate(actors):
        turn = np.array([[math.cos(a.yaw), -math.sin(a.yaw)], [math.sin(a.yaw), math.cos(a.yaw)]])
        start = (np.array(eye) - (a.x, a.y)) @ turn
        way = (points - (a.x, a.y)) @ turn - start
        half = np.array([a.length, a.width]) / 2
        way = np.where(np.abs(way) < 1e-9, 1e-9, way)
        bounds = np.stack([(-half - start) / way, (half - start) / way])
        enter, leave = bounds.min(0).max(-1), bounds.max(0).min(-1)
        hides = a.height >= heights - HIGHER_M
        hides[k] = False
        covered |= (enter < leave) & (leave > 0.0) & (enter < 1.0) & hides[:, None]
    return covered
