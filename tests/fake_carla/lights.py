"""Traffic lights and signs of a town, from the map's own landmarks: one light at a time of a junction is green."""

from __future__ import annotations

from dataclasses import dataclass, field

import carla

from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from fake_carla.bodies import Being

LIGHT, STOP, YIELD, LIMIT = "1000001", "206", "205", "274"
GREEN_S, YELLOW_S, RED_S = 10.0, 3.0, 2.0  # the server's defaults; the red is the pause after a yellow
BACK_M = 60.0  # a light's stop lines lie before its junction, at most so far back along the lane
_STATES = carla.TrafficLightState


@dataclass(eq=False)
class Lamp:
    """One light: a signal id of the map, which may hold for several roads."""

    being: Being
    signal: str
    landmarks: list[carla.Landmark]
    group: Group
    times: dict[str, float] = field(default_factory=lambda: {"green": GREEN_S, "yellow": YELLOW_S, "red": RED_S})
    state: carla.TrafficLightState = _STATES.Red
    stops: list[carla.Waypoint] | None = None


@dataclass(eq=False)
class Group:
    """The lights of one junction, in turn."""

    junction: int
    lamps: list[Lamp] = field(default_factory=list)
    turn: int = 0
    phase: str = "green"
    elapsed: float = 0.0
    frozen: bool = False

    def reset(self) -> None:
        self.turn, self.phase, self.elapsed = 0, "green", 0.0
        self.show()

    def step(self, dt: float) -> None:
        if self.frozen:
            return
        self.elapsed += dt
        if self.elapsed + 1e-9 < self.lamps[self.turn].times[self.phase]:
            return
        self.elapsed = 0.0
        if self.phase == "red":
            self.turn = (self.turn + 1) % len(self.lamps)
        self.phase = {"green": "yellow", "yellow": "red", "red": "green"}[self.phase]
        self.show()

    def show(self) -> None:
        """A state that was set from outside lasts until now."""
        mine = {"green": _STATES.Green, "yellow": _STATES.Yellow, "red": _STATES.Red}[self.phase]
        for at, lamp in enumerate(self.lamps):
            lamp.state = mine if at == self.turn else _STATES.Red


class Lights:
    """All of a town. Actor ids of what the map brings begin at 10."""

    def __init__(self, town: carla.Map) -> None:
        self.town = town
        self.groups: dict[int, Group] = {}
        self.lamps: dict[str, Lamp] = {}
        self.signs: dict[str, Being] = {}
        self.last = 9
        for mark in town.get_all_landmarks():
            if mark.type == LIGHT:
                self._lamp(mark)
            elif mark.type in (STOP, YIELD, LIMIT) and mark.id not in self.signs:
                name = {STOP: "stop", YIELD: "yield", LIMIT: f"speed_limit.{int(mark.value)}"}[mark.type]
                self.signs[mark.id] = self._being(f"traffic.{name}", "sign", mark)
        for group in self.groups.values():
            group.reset()

    def step(self, dt: float) -> None:
        for group in self.groups.values():
            group.step(dt)

    def freeze(self, frozen: bool) -> None:
        for group in self.groups.values():
            group.frozen = frozen

    def beings(self) -> list[Being]:
        return [lamp.being for lamp in self.lamps.values()] + list(self.signs.values())

    def of(self, being_id: int) -> Lamp:
        return next(lamp for lamp in self.lamps.values() if lamp.being.id == being_id)

    def stops(self, lamp: Lamp) -> list[carla.Waypoint]:
        """Where traffic waits for it: the lanes it holds for, followed back to before the junction."""
        if lamp.stops is None:
            found: dict[tuple[int, int], carla.Waypoint] = {}
            for mark in lamp.landmarks:
                for first, last in mark.get_lane_validities():
                    for lane in range(min(first, last), max(first, last) + 1):
                        point = self.town.get_waypoint_xodr(mark.road_id, lane, mark.s) if lane else None
                        point = before_junction(point)
                        if point is not None:
                            found.setdefault((point.road_id, point.lane_id), point)
            lamp.stops = list(found.values())
        return lamp.stops

    def _lamp(self, mark: carla.Landmark) -> None:
        if mark.id in self.lamps:
            self.lamps[mark.id].landmarks.append(mark)
            return
        lane = next((a or b for a, b in mark.get_lane_validities()), 0)
        point = self.town.get_waypoint_xodr(mark.road_id, lane, mark.s) if lane else None
        junction = point.junction_id if point is not None and point.is_junction else -mark.road_id
        group = self.groups.setdefault(junction, Group(junction))
        lamp = Lamp(self._being("traffic.traffic_light", "light", mark), mark.id, [mark], group)
        group.lamps.append(lamp)
        self.lamps[mark.id] = lamp

    def _being(self, type_id: str, group: str, mark: carla.Landmark) -> Being:
        self.last += 1
        being = Being(self.last, type_id, group, ActorKind.WARNING_SIGN, (0.2, 0.2, 1.5), MotionState(0.0, 0.0, 0.0))
        being.put(mark.transform)
        return being


def before_junction(point: carla.Waypoint | None) -> carla.Waypoint | None:
    """The first place before the junction, walking back along the lane in steps of half a metre."""
    back = 0.0
    while point is not None and point.is_junction and back < BACK_M:
        point = next(iter(point.previous(0.5)), None)
        back += 0.5
    return None if point is None or point.is_junction else point
