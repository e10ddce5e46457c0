"""ActorStory: the events of one actor, its conditions and actions; used by the writers of behaviours.

`where`, `due`, `kind`: as in scenarios/places.scenic: the ego's front is `due` seconds ("time", at its present speed,
at least SLOWEST) or metres ("distance") before `where`, metres along its path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import wrap
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.threats.openscenario.entities import world_position
from closedloop_plugin.threats.openscenario.library import xosc
from closedloop_plugin.threats.openscenario.scene import SampledActor
from closedloop_plugin.worlds.bridge.rail import PathInterpolator, Rail

EGO_FRONT = 2.4  # m, from the ego's centre to its front, as in scenarios/actions_traffic.scenic
SLOWEST = 2.5  # m/s: speeds below count as this in `due` by time
NEARBY_M = 4.3  # before the trigger point: reached (worlds/bridge/stage.py)
MOVED_M = 2.0  # the ego has started
USUAL = 0.75  # speed of traffic, as a share of the speed limit
CRUISE = 0.65  # assumed speed of the ego, likewise
STRAIGHT = 1e-5  # 1/m
VERTICES = 24  # of a curved trajectory; the same number in each draw
LIGHTS = {
    "hazard": "warningLights", "siren": "specialPurposeLights", "left": "indicatorLeft", "right": "indicatorRight",
    "reverse": "reversingLights", "brake": "brakeLights", "headlights": "lowBeam",
}  # fmt: skip
BLINKING = frozenset({"hazard", "siren", "left", "right"})
Groups = list[list[Any]]  # a trigger: any of the groups, each of which needs all of its conditions


@dataclass(frozen=True, kw_only=True)
class StoryScene:
    """Facts that the writers need. `acting`: the actor whose behaviour records the event "act"."""

    road: RoadMap
    trigger_s: float
    ego: SampledActor
    acting: SampledActor | None = None

    @property
    def usual(self) -> float:
        return USUAL * self.road.speed_limit

    def lanes(self, which: str) -> int:
        return int((self.road.facts.get("lanes") or {}).get(which, 0))

    @property
    def signal_ids(self) -> dict[str, bool]:
        """OpenDRIVE id of each traffic light -> whether it is on the ego's route. Corridor maps number their signs in
        the order of the stop lines; of a town the ids are not known: {}."""
        if self.road.source != "corridor":
            return {}
        lines = enumerate(self.road.stop_lines, 1)
        return {str(i): line.on_route for i, line in lines if line.control == "signal"}

    def signals(self, route: str, cross: str) -> list[Any]:
        """Actions that set the traffic lights on the ego's route, and those of the other approaches."""
        lib = xosc()
        ids = self.signal_ids.items()
        return [lib.TrafficSignalStateAction(name, route if on_route else cross) for name, on_route in ids]


@dataclass
class ActorStory:
    """Events of one actor, and what its behaviour does that OpenSCENARIO cannot express."""

    scene: StoryScene
    actor: SampledActor
    events: list[Any] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def rail(self) -> Rail:
        assert self.actor.rail is not None
        return self.actor.rail

    def miss(self, *texts: str) -> None:
        self.missing.extend(f"{self.actor.name}: {text}" for text in texts)

    # -- events --------------------------------------------------------------------------------------------------

    def event(self, label: str, when: Groups, *actions: Any) -> str:
        """Add an event; returns its name. Its actions end running ones of the same kind (longitudinal, lateral)."""
        lib, name = xosc(), self.named(label)
        made = lib.Event(name, lib.Priority.parallel)
        for i, action in enumerate(actions):
            made.add_action(f"{name}_{i}", action)
        trigger = lib.Trigger()
        for group in when:
            conditions = lib.ConditionGroup()
            for condition in group:
                conditions.add_condition(condition)
            trigger.add_conditiongroup(conditions)
        made.add_trigger(trigger)
        self.events.append(made)
        return name

    def named(self, label: str) -> str:
        return f"{self.actor.name}_{label}"

    # -- conditions ----------------------------------------------------------------------------------------------

    def at_start(self) -> Groups:
        lib = xosc()
        return [[self._value("start", lib.SimulationTimeCondition(0.0, lib.Rule.greaterOrEqual))]]

    def started(self) -> Groups:
        """The ego drives."""
        return [[self._ego_speed(0.5, "greaterThan")]]

    def due(self, where: float, due: float, kind: str) -> Groups:
        """is_due of scenarios/places.scenic. max(speed, SLOWEST) becomes two groups: t <= due, or s <= SLOWEST due."""
        lib = xosc()
        begun = max(self.scene.trigger_s - NEARBY_M, MOVED_M)
        moved = self._of_ego("trigger", lib.TraveledDistanceCondition(begun))
        if kind == "distance":
            return [[moved, self.ego_within(where, due)]]
        return [[moved, self._ego_time_to(where, due)], [moved, self.ego_within(where, SLOWEST * due)]]

    def near(self, where: float, due: float, kind: str) -> Groups:
        """is_near: due, or the ego has stopped less than 15 m before `where`."""
        lib = xosc()
        late = self._value("late", lib.SimulationTimeCondition(3.0, lib.Rule.greaterThan))
        return [
            *self.due(where, due, kind),
            [self._ego_speed(0.5, "lessThan"), late, self.ego_within(where, 15.0, 0.0)],
        ]

    def after(self, event: str, seconds: float = 0.0) -> Groups:
        """This long after an event has begun."""
        return [[self._state(event, "startTransition", seconds)]]

    def completed(self, event: str, seconds: float = 0.0) -> Groups:
        """This long after an event's actions have ended."""
        return [[self._state(event, "completeState", seconds)]]

    def waited(self, where: float, seconds: float, since: str = "") -> Groups:
        """The ego has stood before `where`, or 30 s have passed (behaviour Stay)."""
        lib = xosc()
        stood = [
            self._of_ego("stands", lib.StandStillCondition(seconds)),
            self._of_ego("moved", lib.TraveledDistanceCondition(MOVED_M)),
            self.ego_within(where, 25.0, 0.0),
        ]
        if since:
            return [[*stood, self._state(since, "completeState")], [self._state(since, "startTransition", 30.0)]]
        self.miss("leaves at the latest 30 s after the ego has come near")
        return [stood]

    def ego_within(self, where: float, metres: float, front: float = EGO_FRONT) -> Any:
        """The ego (`front` metres ahead of its centre) is at most this far before `where` along the road."""
        lib = xosc()
        return self._of_ego(
            "distance",
            lib.DistanceCondition(
                max(metres, 0.0), lib.Rule.lessOrEqual, self._before(where, front), freespace=front > 0, **self._along()
            ),
        )

    def actor_time_to(self, s: float, seconds: float) -> Any:
        """The actor's front is at most this long before s."""
        lib = xosc()
        target = lib.WorldPosition(*self.scene.road.path.pose(s)[:2], 0.0)
        ttc = lib.TimeToCollisionCondition(
            seconds, lib.Rule.lessOrEqual, freespace=True, position=target, **self._along()
        )
        return lib.EntityTrigger(self.named("must"), 0.0, lib.ConditionEdge.none, ttc, self.actor.name)

    def ego_slower(self, speed: float) -> Any:
        return self._ego_speed(speed, "lessThan")

    def ego_faster(self, speed: float) -> Any:
        return self._ego_speed(speed, "greaterOrEqual")

    def ego_closer(self, metres: float) -> Any:
        """Free distance between actor and ego along the road."""
        lib = xosc()
        condition = lib.RelativeDistanceCondition(
            metres, lib.Rule.lessThan, lib.RelativeDistanceType.longitudinal, self.scene.ego.name, freespace=True,
            coordinate_system=lib.CoordinateSystem.road,
        )  # fmt: skip
        return lib.EntityTrigger(self.named("close"), 0.0, lib.ConditionEdge.none, condition, self.actor.name)

    def _ego_time_to(self, where: float, seconds: float) -> Any:
        lib = xosc()
        target = self._before(where, EGO_FRONT)
        ttc = lib.TimeToCollisionCondition(
            seconds, lib.Rule.lessOrEqual, freespace=True, position=target, **self._along()
        )
        return self._of_ego("time", ttc)

    def _before(self, where: float, front: float) -> Any:
        """The position for a condition on the ego: its box ends half a length before its centre, not at `front`."""
        s = where - (front - self.scene.ego.length / 2 if front else 0.0)
        return xosc().WorldPosition(*self.scene.road.path.pose(s)[:2], 0.0)

    def _along(self) -> dict[str, Any]:
        lib = xosc()
        return {"distance_type": lib.RelativeDistanceType.longitudinal, "coordinate_system": lib.CoordinateSystem.road}

    def _ego_speed(self, speed: float, rule: str) -> Any:
        lib = xosc()
        return self._of_ego("speed", lib.SpeedCondition(speed, getattr(lib.Rule, rule)))

    def _of_ego(self, label: str, condition: Any) -> Any:
        lib = xosc()
        name = f"{self.actor.name}_ego_{label}"
        return lib.EntityTrigger(name, 0.0, lib.ConditionEdge.none, condition, self.scene.ego.name)

    def _value(self, label: str, condition: Any, delay: float = 0.0) -> Any:
        lib = xosc()
        return lib.ValueTrigger(self.named(label), delay, lib.ConditionEdge.none, condition)

    def _state(self, event: str, state: str, delay: float = 0.0) -> Any:
        lib = xosc()
        condition = lib.StoryboardElementStateCondition(
            lib.StoryboardElementType.event, event, getattr(lib.StoryboardElementState, state)
        )
        return self._value(f"after_{event}", condition, delay)

    # -- actions -------------------------------------------------------------------------------------------------

    def speed(self, speed: float, rate: float) -> Any:
        """Change to a speed at a constant rate, m/s2."""
        lib = xosc()
        return lib.AbsoluteSpeedAction(
            speed, lib.TransitionDynamics(lib.DynamicsShapes.linear, lib.DynamicsDimension.rate, rate)
        )

    def drive_on(self) -> Any:
        """DriveOn: the speed of normal traffic; all else is the simulator's driver."""
        self.miss("drives on as normal traffic (slower in bends, behind others and at red lights)")
        return self.speed(self.scene.usual, self.rail.accel)

    def keep_gap(
        self, *, ahead: bool, top: float, metres: float | None = None, seconds: float | None = None, brake: float = 0.0
    ) -> Any:
        """Keep a free distance or time gap to the ego, ahead of or behind it, at most at `top` m/s."""
        lib = xosc()
        side = lib.LongitudinalDisplacement.leadingReferencedEntity if ahead else (
            lib.LongitudinalDisplacement.trailingReferencedEntity
        )  # fmt: skip
        return lib.LongitudinalDistanceAction(
            self.scene.ego.name, freespace=True, continuous=True, max_acceleration=self.rail.accel,
            max_deceleration=brake or self.rail.brake, max_speed=top, distance=metres, timeGap=seconds,
            displacement=side, coordinate_system=lib.CoordinateSystem.road,
        )  # fmt: skip

    def synchronize(self, ego_front_s: float, s: float, d: float, speed: float) -> Any:
        """Be with the centre at (s, d), at this speed, when the ego's front is at ego_front_s."""
        lib, path = xosc(), self.scene.road.path
        ego = self.scene.ego
        return lib.SynchronizeAction(
            ego.name,
            world_position(ego, *path.pose(ego_front_s - EGO_FRONT)),
            world_position(self.actor, *self._faced(path.pose(s, d))),
            final_speed=lib.AbsoluteSpeed(speed),
        )

    def trajectory(self, poses: Sequence[tuple[float, float, float]]) -> Any:
        """Follow a polyline of poses of the actor's centre, at the speed of other actions."""
        lib = xosc()
        line = lib.Trajectory(self.named(f"line_{len(self.events)}"), False)
        line.add_shape(lib.Polyline([], [world_position(self.actor, *pose) for pose in poses]))
        return lib.FollowTrajectoryAction(line, lib.FollowingMode.position)

    def along_rail(self, start: float, end: float, d: float | None = None) -> list[tuple[float, float, float]]:
        """Poses on the actor's rail between two places, d to the left (default: its own offset)."""
        path = PathInterpolator.of(self.rail.path)
        offset = self.rail.d if d is None else d
        straight = np.abs(self.rail.path.curvature).max() < STRAIGHT
        count = 2 if straight else VERTICES  # determined by the line: the same in all draws
        steps = [start + (end - start) * i / (count - 1) for i in range(count)]
        return [self._faced(path.pose(s, offset)) for s in steps]

    def change_lane(self, lanes: int, of: str, offset: float | None = None) -> Any:
        """Into the lane `lanes` to the left (negative: right) of an entity's, at the rail's lateral speed."""
        lib = xosc()
        rate = lib.TransitionDynamics(lib.DynamicsShapes.linear, lib.DynamicsDimension.rate, self.rail.sideways)
        return lib.RelativeLaneChangeAction(lanes, of, rate, offset)

    def shift(self, d: float) -> Any:
        """To d metres left of the centre of the actor's lane."""
        lib = xosc()
        if self.scene.road.source != "corridor":
            self.miss("side of its lateral offset (right if its lane runs along the road's reference line)")
        # The rail reaches its lateral speed at once; here within a second.
        return lib.AbsoluteLaneOffsetAction(d, lib.DynamicsShapes.linear, self.rail.sideways)

    def lamps(self, names: Iterable[str], on: bool) -> list[Any]:
        """Actions for the lamps that OpenSCENARIO has; the others are named."""
        self.miss(*(f"lamp {name}" for name in sorted(set(names) - set(LIGHTS))))
        return [self.lamp(name, on) for name in sorted(set(names) & set(LIGHTS))]

    def lamp(self, name: str, on: bool) -> Any:
        lib = xosc()
        mode = lib.LightMode.off if not on else lib.LightMode.flashing if name in BLINKING else lib.LightMode.on
        return lib.LightStateAction(getattr(lib.VehicleLightType, LIGHTS[name]), mode)

    def door(self, opened: bool) -> Any:
        lib = xosc()
        door = lib.VehicleComponentType.doorFrontLeft
        return lib.AnimationAction(door, None, False, 1.0 if opened else 0.0)

    def remove(self) -> Any:
        return xosc().DeleteEntityAction(self.actor.name)

    def _faced(self, pose: tuple[float, float, float]) -> tuple[float, float, float]:
        """A pose on a path, turned for an actor that drives against it."""
        x, y, yaw = pose
        backwards = self.actor.rail is not None and self.actor.rail.direction < 0
        return (x, y, wrap(yaw + math.pi)) if backwards else pose
