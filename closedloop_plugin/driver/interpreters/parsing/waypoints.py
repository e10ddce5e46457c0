"""Waypoints of a trajectory in a reply, and the control that follows them by pure pursuit.

Expected format, as in the trajectory question: pairs (metres forward, metres to the left) in the car's frame, one every
0.5 s, as [(1.0, 0.0), (2.0, 0.1)], also in square or angle brackets. Of several lists the last is used.
"""

from __future__ import annotations

import math
import re

from closedloop_plugin.core.state import Control
from closedloop_plugin.driver.agents.driving_prompts import WAYPOINT_S
from closedloop_plugin.driver.agents.tracking import MAX_WHEEL, WHEELBASE, pedals
from lmms_eval_ad2.parsing.normalise import plain
from lmms_eval_ad2.parsing.wrappers import unwrap

REASONS = ("no_waypoints", "too_few_waypoints", "not_finite", "implausible_waypoints", "truncated_waypoints")
FARTHEST_M = 250.0
STANDING_M = 0.25  # a trajectory that ends nearer than this is a stop
LONGEST = 20_000
Points = list[tuple[float, float]]

_NUMBER = r"[+-]?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12}|nan|inf(?:inity)?)(?:e[+-]?\d{1,2})?"
_PAIR = re.compile(
    rf"[(\[<]\s{{0,4}}({_NUMBER})\s{{0,4}},\s{{0,4}}({_NUMBER})\s{{0,4}}(?:m\s{{0,2}})?[)\]>]", re.IGNORECASE
)
_JOINT = re.compile(r"\s{0,4}(?:,|;|->|and|then)?\s{0,4}", re.IGNORECASE)
_OPEN = re.compile(r"[\s,;]{0,4}[(\[<]\s{0,4}[+-]?[\d.][^)\]>]{0,40}\Z")


class NoTrajectory(Exception):
    """The text contains no usable trajectory; the message is one of REASONS."""


def read_waypoints(text: str) -> Points:
    """Two or more (metres forward, metres to the left). Raises NoTrajectory."""
    answer, unfinished = unwrap(text[-LONGEST:])
    if unfinished:
        raise NoTrajectory("no_waypoints")
    text = plain(answer)
    last: Points = []
    current: Points = []
    end = -1
    for match in _PAIR.finditer(text):
        if end >= 0 and not _JOINT.fullmatch(text[end : match.start()][:20]):
            current = []
        current.append((float(match[1]), float(match[2])))
        end, last = match.end(), current
    if not last:
        raise NoTrajectory("no_waypoints")
    if _OPEN.match(text, end):
        raise NoTrajectory("truncated_waypoints")
    if len(last) < 2:
        raise NoTrajectory("too_few_waypoints")
    if not all(math.isfinite(v) for point in last for v in point):
        raise NoTrajectory("not_finite")
    if any(math.hypot(*point) > FARTHEST_M for point in last):
        raise NoTrajectory("implausible_waypoints")
    return last


def follow(points: Points, speed: float) -> Control:
    """Pure pursuit of the first waypoint beyond the look-ahead distance, at the acceleration of the first second."""
    if math.hypot(*points[-1]) < STANDING_M:
        return Control(brake=0.6)
    ahead = min(max(0.55 * speed + 2.2, 3.2), 12.0)  # look-ahead, m, as in tracking.pursuit
    forward, left = next((p for p in points if math.hypot(*p) >= ahead), points[-1])
    throttle, brake = pedals(acceleration(points, speed), speed)
    return Control(steer_at(forward, left), throttle, brake).checked()


def acceleration(points: Points, speed: float) -> float:
    """The constant acceleration (m/s2) that covers the first two legs from `speed` (m/s) in their time."""
    legs = [math.dist(a, b) for a, b in zip([(0.0, 0.0), *points], points, strict=False)][:2]
    seconds, way = WAYPOINT_S * len(legs), sum(legs)
    # way = v t + a t^2 / 2. A car that would have to reverse for it stops earlier: way = v^2 / (2 |a|).
    if way < speed * seconds / 2:
        return -(speed**2) / (2 * max(way, 0.01))
    return 2 * (way - speed * seconds) / seconds**2


def steer_at(forward: float, left: float) -> float:
    """Pure pursuit of a point in the car's frame (origin: its centre), m: steer in [-1, 1], right > 0."""
    # Wheel angle atan(2 b y / L^2), see tracking.pursuit; measured from the rear axle, whose path the circle describes.
    forward += WHEELBASE / 2
    reach = max(math.hypot(forward, left), 2.0)
    wheel = math.atan2(2 * WHEELBASE * left, reach * reach)
    return min(max(-wheel / MAX_WHEEL, -1.0), 1.0)
