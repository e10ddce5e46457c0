"""Lanes of a carla.Map as polylines, sampled on first use: the cost depends on the driven part of a town."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import from_carla, to_carla
from closedloop_plugin.core.xml_files import LONGEST_M
from closedloop_plugin.maps.towns.lanes import STEP, Key, TownLane
from closedloop_plugin.maps.towns.route_trace import NEAR, foot
from lmms_eval_ad2.core.errors import Ad2Error, require

LEVEL_GAP = 4.0  # m between the heights at which lanes are searched: levels of a bridge are farther apart
END_TOLERANCE = 1e-6  # m
LEFT, RIGHT = 2, 1  # carla.LaneChange


@dataclass
class SampledLane:
    """A lane with the height (m) and the permitted lane changes (carla.LaneChange) at each of its points."""

    lane: TownLane
    z: np.ndarray
    permits: np.ndarray

    def part(self, a: float, b: float) -> np.ndarray:
        """Centre line from a to b metres, (N, 3)."""
        xy = self.lane.part(a, b)
        inside = self.lane.s[(self.lane.s > a) & (self.lane.s < b)]
        return np.column_stack([xy, np.interp(np.r_[a, inside, b], self.lane.s, self.z)])

    def permitted(self, s: float, left: bool) -> float | None:
        """First position at or after s at which its markings permit a change to that side, or None."""
        allowed = (self.permits & (LEFT if left else RIGHT)) > 0
        here = max(int(np.searchsorted(self.lane.s, s, side="right")) - 1, 0)
        if allowed[here]:
            return s
        ahead = np.flatnonzero(allowed[here:])
        return float(self.lane.s[here + ahead[0]]) if len(ahead) else None


class CarlaLanes:
    """Driving lanes of a carla.Map by (road, section, lane), with successors, predecessors and lookup by position."""

    def __init__(self, town_map: Any) -> None:
        carla = require("carla", "to read a CARLA map")
        self._location, self._driving = carla.Location, carla.LaneType.Driving
        self.map = town_map
        self.name = str(town_map.name).rsplit("/", 1)[-1]
        self.entries: dict[Key, Any] = {}
        self.after: dict[Key, list[Key]] = defaultdict(list)
        self.before: dict[Key, list[Key]] = defaultdict(list)
        self.junction_lanes: dict[int, list[Key]] = defaultdict(list)  # by junction
        self._sampled: dict[Key, SampledLane] = {}
        pairs = town_map.get_topology()
        for waypoint in (*(a for a, _ in pairs), *(b for _, b in pairs)):  # a lane that ends occurs only as a successor
            self._add_entry(waypoint)
        for waypoint in town_map.generate_waypoints(LONGEST_M):  # one per lane
            self._add_missing_lane(waypoint)
        if not self.entries:
            raise Ad2Error(f"{self.name}: the map has no driving lane")
        for entry, following in pairs:
            a, b = key_of(entry), key_of(following)
            if a != b and b in self.entries and b not in self.after[a]:
                self.after[a].append(b)
                self.before[b].append(a)

    def _add_entry(self, start: Any) -> None:
        key = key_of(start)
        if key not in self.entries and start.lane_type == self._driving:
            self.entries[key] = start
            if start.is_junction:
                self.junction_lanes[start.junction_id].append(key)

    def _add_missing_lane(self, waypoint: Any) -> None:
        """Add the lane of a waypoint and its neighbours. Isolated lanes are missing in CARLA's topology."""
        if waypoint is None or waypoint.lane_type != self._driving or key_of(waypoint) in self.entries:
            return
        self._add_entry(self._lane_end(waypoint, ahead=False))
        for beside in (waypoint.get_left_lane(), waypoint.get_right_lane()):
            self._add_missing_lane(beside)

    def _lane_end(self, waypoint: Any, ahead: bool) -> Any:
        """Last waypoint of a lane, or its first one (`ahead` False), by bisection.

        The client's next_until_lane_end and previous_until_lane_start confuse the ends of road and lane section, and
        crash the process if there is no successor.
        """
        way, step = 1.0 if ahead == (waypoint.lane_id < 0) else -1.0, LONGEST_M
        while step > END_TOLERANCE:
            step /= 2
            place = self._same_lane_at(waypoint, waypoint.s + way * step)
            waypoint = waypoint if place is None else place
        return waypoint

    def _same_lane_at(self, waypoint: Any, s: float) -> Any:
        """The waypoint of the same lane at another s of its road, or None."""
        place = self.map.get_waypoint_xodr(waypoint.road_id, waypoint.lane_id, s) if s >= 0.0 else None
        return place if place is not None and key_of(place) == key_of(waypoint) else None

    def __getitem__(self, key: Key) -> SampledLane:
        if key not in self._sampled:
            self._sampled[key] = self._sample(key)
        return self._sampled[key]

    def _sample(self, key: Key) -> SampledLane:
        entry = self.entries[key]
        end = self._lane_end(entry, ahead=True)
        at = np.linspace(entry.s, end.s, max(2, round(abs(end.s - entry.s) / STEP) + 1))
        inside = (self._same_lane_at(entry, float(s)) for s in at[1:-1])
        points = [entry, *(p for p in inside if p is not None), end]
        poses = [p.transform for p in points]
        raw = [(*from_carla(t.location.x, t.location.y, t.rotation.yaw), t.location.z) for t in poses]
        xyaz = np.array(raw)
        half = np.array([p.lane_width for p in points])[:, None] / 2
        across = np.column_stack([-np.sin(xyaz[:, 2]), np.cos(xyaz[:, 2])]) * half
        lane = TownLane(
            key=key,
            kind="driving",
            centre=xyaz[:, :2],
            left=xyaz[:, :2] + across,
            right=xyaz[:, :2] - across,
            road_m=np.abs(np.array([p.s for p in points]) - entry.s),
            height=xyaz[:, 3],
            junction=entry.junction_id if entry.is_junction else -1,
            forward=key[2] < 0,
            mark="",
            after=self.after[key],
            before=self.before[key],
        )
        return SampledLane(lane, xyaz[:, 3], np.array([int(p.lane_change) for p in points]))

    def beside(self, key: Key, left: bool) -> Key | None:
        """The neighbouring lane of the same direction, regardless of the markings."""
        road, section, id_ = key
        other = id_ + (1 if (id_ < 0) == left else -1)
        return (road, section, other) if other * id_ > 0 and (road, section, other) in self.entries else None

    @cached_property
    def _heights(self) -> np.ndarray:
        z = [entry.transform.location.z for entry in self.entries.values()]
        return np.arange(min(z), max(z) + LEVEL_GAP, LEVEL_GAP)

    def near(self, x: float, y: float) -> list[Key]:
        """Lanes whose centre line is within NEAR metres of (x, y), on every level, since routes have no heights."""
        cx, cy, _ = to_carla(x, y)
        found: set[Key] = set()
        for z in self._heights:
            place = self.map.get_waypoint(self._location(cx, cy, float(z)))
            # It is the nearest in three dimensions: search again at its height.
            place = self.map.get_waypoint(self._location(cx, cy, place.transform.location.z))
            for lane in (place, place.get_left_lane(), place.get_right_lane()):
                self._add_missing_lane(lane)
            found.add(key_of(place))
        for key in tuple(found):
            around = [*self.after[key], *self.before[key], self.beside(key, True), self.beside(key, False)]
            found |= {k for k in around if k is not None}
        for key in tuple(found):
            if self.entries[key].is_junction:
                found |= set(self.junction_lanes[self.entries[key].junction_id])
        return sorted(k for k in found if foot(self[k].lane, np.array([x, y]))[1] <= NEAR)


def key_of(waypoint: Any) -> Key:
    return waypoint.road_id, waypoint.section_id, waypoint.lane_id
