"""Position, route and target of the leaderboard's agent (agent.py), from GNSS, compass, speed and the route plan.

Standard library only, Python 3.7 or later, imported by its bare name. Axes are CARLA's, see agent.py.
"""

from __future__ import annotations

import math
from typing import Mapping, Sequence

from ad2_link import SetupError

EARTH_M = 6378137.0  # radius in the projection of CARLA and the leaderboard
REAR_M = -1.4  # x of GNSS and IMU in the published agents: near the rear axle, which moves along the heading
GNSS_GAIN = 0.1  # weight of a fix against dead reckoning in steady state: reduces 0.56 m of noise to 0.13 m
ANNOUNCE_M = 15.0  # distance before its place from which a command is given, as in this project's worlds
MAX_START_GAP_M = 10.0  # from the first fix to the start of the route, where the leaderboard puts the car
# values of CARLA's RoadOption; LANEFOLLOW (4) and VOID (-1) are no command
FOLLOW = "lane follow"
COMMANDS = {1: "turn left", 2: "turn right", 3: "go straight", 5: "change lane left", 6: "change lane right"}


class DriverGaveUp(RuntimeError):
    """Ends the route: the leaderboard records "Failed - Agent crashed"."""


class GnssProjection:
    """GNSS to map coordinates: x = A lon + dx, y = -A merc(lat) + dy (Mercator), as in the leaderboard and the sensor.

    A, dx and dy are fitted by least squares to the plan, which has the same points in both coordinates."""

    def __init__(self, gps: Sequence[Mapping[str, float]], world: Sequence[tuple[float, float]]) -> None:
        if len(gps) < 2 or len(gps) != len(world):
            raise SetupError("the leaderboard gave no route plan: fewer than two points")
        flat = [_mercator(p["lat"], p["lon"]) for p in gps]
        n = float(len(flat))
        u0, v0 = sum(u for u, _ in flat) / n, sum(v for _, v in flat) / n
        x0, y0 = sum(x for x, _ in world) / n, sum(y for _, y in world) / n
        pairs = [(u - u0, v - v0, x - x0, y - y0) for (u, v), (x, y) in zip(flat, world)]
        spread = sum(u * u + v * v for u, v, _, _ in pairs)
        if spread * EARTH_M * EARTH_M < 1.0:
            raise SetupError("the route plan is shorter than a metre: no GNSS projection can be derived from it")
        self._scale = (
            sum(u * x + v * y for u, v, x, y in pairs) / spread
        )  # A = sum(p q) / sum(p p) of the centred points
        self._dx, self._dy = x0 - self._scale * u0, y0 - self._scale * v0
        error = max(math.hypot(self._scale * u - x, self._scale * v - y) for u, v, x, y in pairs)
        if not error < 0.5:
            raise SetupError(f"the route plan's GPS and map coordinates disagree by {error:.1f} m")

    def to_map(self, lat: float, lon: float) -> tuple[float, float]:
        u, v = _mercator(lat, lon)
        return self._scale * u + self._dx, self._scale * v + self._dy


def _mercator(lat: float, lon: float) -> tuple[float, float]:
    """Mercator projection of degrees on the unit sphere: (east, south); merc(lat) = asinh(tan(lat))."""
    return math.radians(lon), -math.asinh(math.tan(math.radians(lat)))


class LeaderboardRoute:
    """The dense plan: a line with a RoadOption value at each point. `s`: metres from its start to the car."""

    def __init__(self, points: Sequence[tuple[float, float]], options: Sequence[int]) -> None:
        self._points, self._options = list(points), list(options)
        self._s = [0.0]
        for (ax, ay), (bx, by) in zip(self._points, self._points[1:]):
            self._s.append(self._s[-1] + math.hypot(bx - ax, by - ay))
        self.s = 0.0

    def advance(self, x: float, y: float) -> float:
        """Set `s` to the closest position within -10 to +30 m of the last one, against loops; returns the distance."""
        best = math.inf
        near = self.s
        for i in range(len(self._points) - 1):
            if self._s[i + 1] < near - 10.0 or self._s[i] > near + 30.0:
                continue
            (ax, ay), (bx, by) = self._points[i], self._points[i + 1]
            long = self._s[i + 1] - self._s[i]
            t = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / (long * long) if long > 1e-6 else 0.0
            t = min(max(t, 0.0), 1.0)
            gap = math.hypot(ax + t * (bx - ax) - x, ay + t * (by - ay) - y)
            if gap < best:
                best, self.s = gap, self._s[i] + t * long
        return best

    def ahead(self, metres: float) -> tuple[float, float]:
        """The point `metres` ahead of the car; beyond the end the line is extrapolated."""
        wanted = self.s + metres
        i = next((i for i, s in enumerate(self._s) if s >= wanted), len(self._s) - 1)
        j = i - 1
        while j > 0 and self._s[i] - self._s[j] < 1e-6:  # consecutive traces share their end points
            j -= 1
        (ax, ay), (bx, by) = self._points[j], self._points[i]
        t = (wanted - self._s[j]) / max(self._s[i] - self._s[j], 1e-6)
        return ax + t * (bx - ax), ay + t * (by - ay)

    def offset(self, x: float, y: float) -> float:
        """Distance of a place beside the car's position on the line, metres to the LEFT."""
        # CARLA's y axis points to the right, so that the left of a direction (a, b) is (b, -a).
        (ax, ay), (bx, by) = self.ahead(0.1), self.ahead(1.1)
        return ((by - ay) * (x - ax) - (bx - ax) * (y - ay)) / max(math.hypot(bx - ax, by - ay), 1e-6)

    def command(self) -> str:
        """The first command of the plan within ANNOUNCE_M ahead, or FOLLOW."""
        here = (o for s, o in zip(self._s, self._options) if self.s - 0.5 <= s <= self.s + ANNOUNCE_M)
        return next((COMMANDS[o] for o in here if o in COMMANDS), FOLLOW)

    def start_gap(self, x: float, y: float) -> float:
        """Distance to its first point, m."""
        return math.hypot(x - self._points[0][0], y - self._points[0][1])

    def heading(self) -> float:
        """Heading of its first 3 m, radians clockwise from +x."""
        (ax, ay), (bx, by) = self._points[0], self.ahead(3.0)
        return math.atan2(by - ay, bx - ax)


class EgoLocalizer:
    """Position of the car: dead reckoning by compass and speed, corrected by each GNSS fix (complementary filter)."""

    def __init__(self, projection: GnssProjection, yaw: float) -> None:
        self.yaw, self.speed = yaw, 0.0
        self._projection = projection
        self._rear: tuple[float, float] | None = None
        self._fixes = 0
        self._time = 0.0

    def update(self, gnss: Sequence[float], compass: float, speed: float, time_s: float) -> None:
        """Update by one tick's readings. Non-finite ones, as of the compass in its first frames, are ignored."""
        if math.isfinite(compass):
            self.yaw = compass - math.pi / 2  # the compass is 0 at north (-y) and increases clockwise
        if math.isfinite(speed):
            self.speed = speed
        dt, self._time = min(max(time_s - self._time, 0.0), 0.5), time_s
        if self._rear is not None:
            step = self.speed * dt
            self._rear = self._rear[0] + step * math.cos(self.yaw), self._rear[1] + step * math.sin(self.yaw)
        if math.isfinite(gnss[0]) and math.isfinite(gnss[1]):
            fix = self._projection.to_map(float(gnss[0]), float(gnss[1]))
            self._fixes += 1
            gain = max(GNSS_GAIN, 1.0 / self._fixes)  # the mean of all fixes at the beginning
            x, y = self._rear or fix
            self._rear = x + gain * (fix[0] - x), y + gain * (fix[1] - y)

    @property
    def centre(self) -> tuple[float, float] | None:
        """Centre of the car, x and y in m; None before the first fix."""
        if self._rear is None:
            return None
        return self._rear[0] - REAR_M * math.cos(self.yaw), self._rear[1] - REAR_M * math.sin(self.yaw)

    def seen(self, x: float, y: float) -> list[float]:
        """A map point in the ego's frame: metres forward, metres to the LEFT."""
        centre = self.centre or (x, y)
        dx, dy, c, s = x - centre[0], y - centre[1], math.cos(self.yaw), math.sin(self.yaw)
        return [round(dx * c + dy * s, 3), round(dx * s - dy * c, 3)]


def check_start(route: LeaderboardRoute, x: float, y: float) -> None:
    """Raise DriverGaveUp if the first position is not at the start of the route: the car would follow a wrong path."""
    gap = route.start_gap(x, y)
    if gap <= MAX_START_GAP_M:
        return
    if route.start_gap(x, -y) <= MAX_START_GAP_M:
        cause = "its latitude is mirrored, as CARLA 0.9.16 does (carla issue 9389); the leaderboard needs CARLA 0.9.15"
    else:
        cause = "route plan and GNSS are of different maps, or of a CARLA version other than 0.9.15"
    raise DriverGaveUp(f"GNSS is {gap:.0f} m off the start of the route: {cause}")
