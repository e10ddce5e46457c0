"""Traffic lights and signs of a town, from the map's landmarks. One light per junction is green at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import carla

from closedloop_plugin.core.state import ActorKind
from closedloop_plugin.worlds.bodies.vehicle import MotionState
from fake_carla.bodies import Body

LIGHT, STOP, YIELD, LIMIT = "1000001", "206", "205", "274"
GREEN_S, YELLOW_S, RED_S = 10.0, 3.0, 2.0  # the server's defaults; red: the pause after a yellow
BACK_M = 60.0  # distance along a lane within which the stop line before a light's junction is searched
_STATES = carla.TrafficLightState


@dataclass(eq=False)
class Lamp:
    """One light: a signal id of the map, which may apply to several roads."""

    body: Body
    signal: str
    landmarks: list[carla.Landmark]
    group: Group
    times: dict[str, float] = field(default_factory=lambda: {"green": GREEN_S, "yellow": YELLOW_S, "red": RED_S})
    state: carla.TrafficLightState = _STATES.Red
    stops: list[carla.Waypoint] | None = None


@dataclass(eq=False)
class Group:
    """The lights of one junction, which are green in turn."""

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
        """Set the state of each light; this ends states set by clients."""
        state = {"green": _STATES.Green, "yellow": _STATES.Yellow, "red": _STATES.Red}[self.phase]
        for at, lamp in enumerate(self.lamps):
            lamp.state = state if at == self.turn else _STATES.Red


class Lights:
    """All lights and signs of a town. Their actor ids begin at 10."""

    def __init__(self, town: carla.Map) -> None:
        self.town = town
        self.groups: dict[int, Group] = {}
        self.lamps: dict[str, Lamp] = {}
        self.signs: dict[str, Body] = {}
        self.last_id = 9
        for landmark in town.get_all_landmarks():
            if landmark.type == LIGHT:
                self._lamp(landmark)
            elif landmark.type in (STOP, YIELD, LIMIT) and landmark.id not in self.signs:
                name = {STOP: "stop", YIELD: "yield", LIMIT: f"speed_limit.{int(landmark.value)}"}[landmark.type]
                self.signs[landmark.id] = self._body(f"traffic.{name}", "sign", landmark)
        for group in self.groups.values():
            group.reset()

    def step(self, dt: float) -> None:
        for group in self.groups.values():
            group.step(dt)

    def freeze(self, frozen: bool) -> None:
        for group in self.groups.values():
            group.frozen = frozen

    def bodies(self) -> list[Body]:
        return [lamp.body for lamp in self.lamps.values()] + list(self.signs.values())

    def of(self, body_id: int) -> Lamp:
        return next(lamp for lamp in self.lamps.values() if lamp.body.id == body_id)

    def stops(self, lamp: Lamp) -> list[carla.Waypoint]:
        """Its stop lines: the lanes that it applies to, followed back to before the junction."""
        if lamp.stops is None:
            found: dict[tuple[int, int], carla.Waypoint] = {}
            for landmark in lamp.landmarks:
                for first, last in landmark.get_lane_validities():
                    for lane in range(min(first, last), max(first, last) + 1):
                        point = self.town.get_waypoint_xodr(landmark.road_id, lane, landmark.s) if lane else None
                        point = before_junction(point)
                        if point is not None:
                            found.setdefault((point.road_id, point.lane_id), point)
            lamp.stops = list(found.values())
        return lamp.stops

    def _lamp(self, landmark: carla.Landmark) -> None:
        if landmark.id in self.lamps:
            self.lamps[landmark.id].landmarks.append(landmark)
            return
        lane = next((a or b for a, b in landmark.get_lane_validities()), 0)
        point = self.town.get_waypoint_xodr(landmark.road_id, lane, landmark.s) if lane else None
        junction = point.junction_id if point is not None and point.is_junction else -landmark.road_id
        group = self.groups.setdefault(junction, Group(junction))
        lamp = Lamp(self._body("traffic.traffic_light", "light", landmark), landmark.id, [landmark], group)
        group.lamps.append(lamp)
        self.lamps[landmark.id] = lamp

    def _body(self, type_id: str, group: str, landmark: carla.Landmark) -> Body:
        self.last_id += 1
        body = Body(self.last_id, type_id, group, ActorKind.WARNING_SIGN, (0.2, 0.2, 1.5), MotionState(0.0, 0.0, 0.0))
        body.put(landmark.transform)
        return body


def before_junction(point: carla.Waypoint | None) -> carla.Waypoint | None:
    """The first waypoint outside the junction, searched back along the lane in steps of half a metre."""
    back = 0.0
    while point is not None and point.is_junction and back < BACK_M:
        point = next(iter(point.previous(0.5)), None)
        back += 0.5
    return None if point is None or point.is_junction else point
