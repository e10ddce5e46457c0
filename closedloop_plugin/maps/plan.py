"""MapPlan: the result of a builder (roads, the ego's path, facts), and road parts that builders share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.curves import Chain, CurveSegment, aside, line, reverse, sample, turned
from closedloop_plugin.maps.opendrive import OpenDriveJunction, OpenDriveLane, OpenDriveRoad

BEYOND = 80.0  # m of road added before the route's start and after its end, for actors that enter and leave
APART = 12.0  # m: minimum distance of an added road from the route
TOWN_LIMIT = 50 / 3.6
HIGHWAY_LIMIT = 90 / 3.6
# Metres. The bicycle lane's middle lies 5.25 m outside the outer driving lane's, where the routes' flows run (4.8-5.5).
SHOULDER, PARKING, BUFFER, BICYCLE, SIDEWALK = 1.5, 2.3, 2.6, 1.8, 2.0


@dataclass
class MapPlan:
    """Roads and facts of a map. `path`: (N, 2); `spans`, `crossed`, `changes`: metres along it."""

    roads: list[OpenDriveRoad]
    path: np.ndarray
    spans: list[tuple[float, float, str]]
    junctions: list[OpenDriveJunction] = field(default_factory=list)
    crossed: tuple[tuple[float, float], ...] = ()
    changes: tuple[tuple[float, float, int], ...] = ()
    stop_lines: tuple[StopLine, ...] = ()
    limit: float = TOWN_LIMIT
    experimental: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


def verge(layout: RoadLayout, side: str, sidewalk: bool) -> list[OpenDriveLane]:
    """Lanes outside the driving lanes on one side of the road (left | right), from the inside out."""
    curb = "curb" if sidewalk else "none"
    lanes: list[OpenDriveLane] = []
    if layout.bicycle:
        kind = "parking" if layout.parking in (side, "both") else "shoulder"
        lanes += [OpenDriveLane(kind, BUFFER, "solid"), OpenDriveLane("biking", BICYCLE, curb)]
    elif layout.parking in (side, "both"):
        lanes.append(OpenDriveLane("parking", PARKING, curb))
    elif layout.shoulder:
        lanes.append(OpenDriveLane("shoulder", SHOULDER, curb))
    if sidewalk:
        lanes.append(OpenDriveLane("sidewalk", SIDEWALK))
    return lanes


def driving(count: int, width: float, outside: Sequence[OpenDriveLane]) -> list[OpenDriveLane]:
    """`count` driving lanes of one direction, then `outside`: broken lines between lanes, a solid one at the edge."""
    marks = ["broken"] * (count - 1) + ["solid" if outside and outside[0].kind != "sidewalk" else "curb"]
    return [*(OpenDriveLane("driving", width, mark) for mark in marks), *(outside if count else [])]


def before(chain: Chain, reach: float = BEYOND) -> Chain:
    """A straight road up to the chain's start; shorter if it would come near the route again."""
    back = turned(chain[0].start)
    return reverse(line(back, _free(back, chain, reach)))


def after(chain: Chain, reach: float = BEYOND) -> Chain:
    """A straight road from the chain's end; likewise."""
    return line(chain[-1].end, _free(chain[-1].end, chain, reach))


def _free(pose: tuple[float, float, float], chain: Sequence[CurveSegment], reach: float) -> float:
    """Length of a straight extension of the chain that does not come near another part of it, m."""
    body = sample(chain, 2.0)[:, :2]
    for distance in np.arange(10.0, reach, 2.0):
        x, y, _ = aside(pose, 0.0, float(distance))
        if np.hypot(body[:, 0] - x, body[:, 1] - y).min() < min(APART, 0.6 * distance):
            return max(5.0, float(distance) - APART)
    return reach


def eased(t: np.ndarray) -> np.ndarray:
    """(1 - cos(pi t)) / 2, clipped to t in [0, 1]: from 0 to 1 with zero slope at both ends."""
    return 0.5 - 0.5 * np.cos(math.pi * np.clip(t, 0.0, 1.0))
