"""Shapes of made routes in a frame of their own: the first point at the origin, heading +x. Metres, radians, left > 0.

Points stand as in leaderboard route files: 2 m apart on roads, none inside junctions, ramps and exits, where the map
builders (maps/builders) bridge the gap between two parts. Ranges of lengths, radii and angles are those that the
layouts of Bench2Drive's 220 routes show, somewhat widened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from closedloop_plugin.learn.route_draws import RouteDraws
from closedloop_plugin.maps.curves import Chain, CurveSegment, Pose, aside, length, line, sample, split

STEP = 2.0  # m between two points
LANE_STEP, LANE = 5.0, 3.5  # m between two points of a route with lane changes, and to the next lane
ORIGIN: Pose = (0.0, 0.0, 0.0)
TIGHTEST = 38.0  # m, smallest radius of a bend
STRAIGHT, LEFT, RIGHT = "straight", "left", "right"


@dataclass(frozen=True)
class RouteShape:
    """points: (N, 2). trigger: pose of the trigger point. before, beyond: poses at the ends of the gap, if any."""

    points: np.ndarray
    trigger: Pose
    before: Pose = ORIGIN
    beyond: Pose = ORIGIN

    @property
    def size(self) -> float:
        """Length of the polyline of the points, m."""
        return float(np.hypot(*np.diff(self.points, axis=0).T).sum())


def road(draws: RouteDraws, size: float, start: Pose = ORIGIN, bent: float = 0.5, tightest: float = TIGHTEST) -> Chain:
    """A road of `size` metres: with the share `bent` one bend or two opposite ones, else nearly straight."""
    if not draws.chance(bent):
        angle = math.radians(draws.between(-6, 6, 2))
        return (CurveSegment(*start, size, angle / size),)
    chain: list[CurveSegment] = list(line(start, draws.between(5, 0.45 * size)))
    turns = [draws.sign()]
    if draws.chance(0.3):
        turns.append(-turns[0])
    for turn in turns:
        radius, angle = draws.between(tightest, 200), math.radians(draws.between(10, 90 / len(turns)))
        room = (size - length(chain)) / (1.0 if turn == turns[-1] else 2.0)
        chain.append(CurveSegment(*chain[-1].end, min(radius * angle, room), turn / radius))
    rest = size - length(chain)
    return (*chain, *line(chain[-1].end, rest)) if rest > 1.0 else tuple(chain)


def corridor_shape(
    draws: RouteDraws, size: float, trigger: float, bent: float = 0.5, tightest: float = TIGHTEST
) -> RouteShape:
    """One road, with the trigger point `trigger` metres from its start."""
    chain = road(draws, size, bent=bent, tightest=tightest)
    return RouteShape(_along(chain), _at(chain, trigger))


def highway_shape(draws: RouteDraws) -> RouteShape:
    """A nearly straight road with a gap beside a junction, at whose end a ramp joins (HighwayCutIn)."""
    before, gap, after = draws.between(19, 24), draws.between(50, 90), draws.between(22, 28)
    chain = road(draws, before + gap + after, bent=0.0)
    first, rest = split(chain, before)
    last = split(rest, gap)[1]
    points = np.vstack([_along(first), _along(last)])
    return RouteShape(points, _at(chain, draws.between(2, 9)), first[-1].end, last[0].start)


def lane_change_shape(draws: RouteDraws) -> RouteShape:
    """A road with two or three changes into the next lane, between points of different lanes (SequentialLaneChange)."""
    number = draws.either((2, 3), (0.8, 0.2))
    apart = [round(draws.between(36, 50) / LANE_STEP) for _ in range(number)]
    after = np.cumsum([round(draws.between(30, 42) / LANE_STEP), *apart[1:]])
    count = int(after[-1]) + round(draws.between(30, 42) / LANE_STEP)
    side = draws.sign()
    sides = [side if draws.chance(0.7) else -side for _ in range(number)]
    angle = math.radians(draws.between(-8, 8, 2))
    size = count * LANE_STEP
    poses = sample((CurveSegment(*ORIGIN, size, angle / size),), LANE_STEP)
    lane, points = 0, []
    for i, pose in enumerate(poses):
        lane += sum(turn for place, turn in zip(after, sides, strict=True) if place == i)
        points.append(aside((float(pose[0]), float(pose[1]), float(pose[2])), lane * LANE)[:2])
    return RouteShape(np.array(points), ORIGIN)


def junction_shape(draws: RouteDraws, turn: str, lead: float, trigger: float) -> RouteShape:
    """A road of `lead` metres to a junction, the turn, and a road away from it; trigger: metres from the start."""
    come = road(draws, lead, bent=0.25 if lead > 15 else 0.0)
    here = come[-1].end
    if turn == STRAIGHT:
        there = aside((*here[:2], here[2]), draws.between(-0.5, 0.5), draws.between(25, 36))
        there = (there[0], there[1], here[2] + math.radians(draws.between(-2, 2)))
    else:
        left = turn == LEFT
        angle = math.radians(draws.between(80, 100)) * (1 if left else -1)
        # Metres from the ends of the gap to the point where their tangents meet.
        first, last = (draws.between(*((13, 20) if left else (11.5, 18))) for _ in range(2))
        corner = aside(here, 0.0, first)
        there = aside((corner[0], corner[1], here[2] + angle), 0.0, last)
    size = max(draws.between(24, 32), 62.0 - lead - math.dist(here[:2], there[:2]))
    go = road(draws, size, there, bent=0.15)
    return RouteShape(np.vstack([_along(come), _along(go)]), _at(come, trigger), here, there)


def ramp_shape(draws: RouteDraws, reach: tuple[float, float], angle: tuple[float, float], side: int) -> RouteShape:
    """A road, a gap of one wide bend to `side`, and a road: an exit, or a ramp that meets another road.

    reach: m from end to end of the gap, along the road before it. angle: degrees of the bend.
    """
    come = line(ORIGIN, draws.between(20, 24))
    here = come[-1].end
    far, bend = draws.between(*reach), math.radians(draws.between(*angle, 2))
    # The chord of an arc has half its angle; the factor bends the arc unevenly, which the builders bridge by two arcs.
    beside = far * math.tan(bend / 2) * draws.between(0.9, 1.1, 3)
    there = aside(here, side * beside, far)
    there = (there[0], there[1], here[2] + side * bend)
    go = line(there, draws.between(24, 28))
    return RouteShape(np.vstack([_along(come), _along(go)]), _at(come, draws.between(1, 9)), here, there)


def beyond(pose: Pose, forward: float, left: float = 0.0) -> Pose:
    """The place that many metres ahead and to the left of a pose, with its heading."""
    return aside(pose, left, forward)


def _along(chain: Chain) -> np.ndarray:
    return sample(chain, STEP)[:, :2]


def _at(chain: Chain, metres: float) -> Pose:
    first, last = split(chain, metres)
    return last[0].start if last else first[-1].end
