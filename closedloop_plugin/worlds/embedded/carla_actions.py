"""The actions and functions of Scenic's CARLA model (scenic.simulators.carla) for the embedded world.

Those without a meaning on a flat road with automatic gears are refused when a program uses them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from scenic.core.simulators import Action
from scenic.domains.driving.actions import SetPositionAction, Steers, Walks

from closedloop_plugin.core.frames import yaw_of_heading
from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.worlds.bridge.ground import path_ahead
from closedloop_plugin.worlds.bridge.rail import Rail

SetLocationAction = SetPositionAction
AUTOPILOT_M = 1500.0  # of the way of a car on autopilot
WALK_M = 60.0  # of a walk without a pavement
PAVEMENT_M = 10.0  # a walker so close to a pavement walks on it


class OnlyInCarla(Exception):
    """A name of Scenic's CARLA model that has no meaning in the embedded world."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}; --world carla has it")


# -- traffic lights ----------------------------------------------------------------------------------------------------


def _simulation() -> Any:
    import scenic.syntax.veneer as veneer

    return veneer.simulation()


def freezeTrafficLights() -> None:
    """Hold all lights as they are."""
    simulation = _simulation()
    simulation.signals.freeze(simulation.time_s)


def unfreezeTrafficLights() -> None:
    """Return all lights to their cycles."""
    _simulation().signals.unfreeze()


def setTrafficLightStatus(signal: Any, color: str) -> None:
    """Hold a signal of the network in a colour."""
    signals = _simulation().signals
    for line in signals.lines_of(signal):
        signals.hold(line, color)


def setAllIntersectionTrafficLightsStatus(intersection: Any, color: str) -> None:
    """Hold all lights of an intersection in a colour."""
    for signal in intersection.signals:
        if signal.isTrafficLight:
            setTrafficLightStatus(signal, color)


def getTrafficLightStatus(signal: Any) -> str:
    """Colour of a signal of the network; "None" if it controls no lane."""
    simulation = _simulation()
    lines = simulation.signals.lines_of(signal)
    return str(simulation.signals.state(lines[0], simulation.time_s)) if lines else "None"


def getClosestTrafficLightStatus(vehicle: Any, distance: float = 100) -> str:
    """Colour of the next light ahead of a vehicle; "None" without one within `distance` metres."""
    simulation = _simulation()
    line = simulation.signals.ahead_of(vehicle, distance)
    return "None" if line is None else str(simulation.signals.state(line, simulation.time_s))


def setClosestTrafficLightStatus(vehicle: Any, color: str, distance: float = 100) -> None:
    """Hold the next light ahead of a vehicle in a colour."""
    signals = _simulation().signals
    line = signals.ahead_of(vehicle, distance)
    if line is not None:
        signals.hold(line, color)


def withinDistanceToTrafficLight(vehicle: Any, thresholdDistance: float) -> bool:
    """True if a light is ahead of a vehicle within the distance."""
    return _simulation().signals.ahead_of(vehicle, thresholdDistance) is not None


def withinDistanceToRedYellowTrafficLight(vehicle: Any, thresholdDistance: float) -> bool:
    """True if a light that is red or yellow is ahead of a vehicle within the distance."""
    return getClosestTrafficLightStatus(vehicle, thresholdDistance) in ("red", "yellow")


# -- actions of all actors and of vehicles -----------------------------------------------------------------------------


class VehicleAction(Action):
    """An action of vehicles."""

    def canBeTakenBy(self, agent: Any) -> bool:
        return isinstance(agent, Steers)


class SetTransformAction(Action):
    """Put an actor at a place and heading; it keeps its speed."""

    def __init__(self, pos: Any, heading: Any) -> None:
        self.pos, self.heading = pos, heading

    def applyTo(self, obj: Any, sim: Any) -> None:
        heading = self.heading.yaw if hasattr(self.heading, "yaw") else self.heading
        obj.setPose(float(self.pos[0]), float(self.pos[1]), float(heading), float(obj.speed or 0.0))


class RefusedAction(Action):
    """An action without a meaning here. `why`: the reason, for the message."""

    why = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise OnlyInCarla(type(self).__name__, self.why)

    def applyTo(self, obj: Any, sim: Any) -> None:
        """Never called."""


def _refused(name: str, why: str) -> type[RefusedAction]:
    return type(name, (RefusedAction,), {"why": why})


SetAngularVelocityAction = _refused("SetAngularVelocityAction", "it tilts an actor, and the road here is flat")
SetJumpAction = _refused("SetJumpAction", "nobody leaves the ground here")
SetManualGearShiftAction = _refused(
    "SetManualGearShiftAction", "gears are automatic here; SetGearAction(-1) is reverse"
)
SetManualFirstGearShiftAction = _refused(
    "SetManualFirstGearShiftAction", "gears are automatic here; SetReverseAction(False) is forward"
)


class SetGearAction(VehicleAction):
    """A negative gear is reverse, any other is forward: gears are automatic."""

    def __init__(self, gear: int) -> None:
        if not isinstance(gear, int):
            raise TypeError(f"SetGearAction: expected a whole number, found {gear!r}")
        self.gear = gear

    def applyTo(self, obj: Any, sim: Any) -> None:
        obj.setReverse(self.gear < 0)


class SetTrafficLightAction(VehicleAction):
    """Hold the next light ahead, within `distance` metres, in a colour."""

    def __init__(self, color: str, distance: float = 100, group: bool = False) -> None:
        self.color, self.distance = color, distance

    def applyTo(self, obj: Any, sim: Any) -> None:
        setClosestTrafficLightStatus(obj, self.color, self.distance)


class SetAutopilotAction(VehicleAction):
    """Follow the lane, behind others and at lights, as CARLA's traffic manager does; False: end it.

    speed: m/s; or vehicle_percentage_speed_difference: below the speed limit. path: "Left", "Right" or "Straight" at
    each junction. ignore_lights_percentage: chance that this car ignores lights. The other options of CARLA's traffic
    manager change nothing: cars here stop for everybody on their way, and keep their lane.
    """

    OPTIONS = (
        "speed", "vehicle_percentage_speed_difference", "path", "ignore_signs_percentage", "ignore_lights_percentage",
        "ignore_walkers_percentage", "auto_lane_change",
    )  # fmt: skip

    def __init__(self, enabled: bool, **kwargs: Any) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"SetAutopilotAction: enabled: expected True or False, found {enabled!r}")
        unknown = sorted(set(kwargs) - set(self.OPTIONS))
        if unknown:
            raise TypeError(f"SetAutopilotAction: no option {unknown[0]!r} (known: {', '.join(self.OPTIONS)})")
        if kwargs.get("speed") is not None and kwargs.get("vehicle_percentage_speed_difference") is not None:
            raise ValueError("SetAutopilotAction: give speed or vehicle_percentage_speed_difference, not both")
        self.enabled, self.options = enabled, kwargs

    def applyTo(self, obj: Any, sim: Any) -> None:
        if not self.enabled:
            obj.rail = None
            return
        ignores = random.Random(f"{sim.seed} {obj.position}").uniform(0, 100) < self._number("ignore_lights_percentage")
        turns = [str(word).lower() for word in self.options.get("path") or ()]
        x, y, yaw = float(obj.position.x), float(obj.position.y), yaw_of_heading(float(obj.heading))
        path = path_ahead(sim.network, x, y, yaw, AUTOPILOT_M, turns)
        s, d = path.locate(x, y)
        obj.rail = Rail(
            path, s, d, self._speed(sim), accel=2.0, brake=5.0, gap=2.5, lights=not ignores, d_wanted=0.0,
            now=float(obj.speed or 0.0),
        )  # fmt: skip

    def _speed(self, sim: Any) -> float:
        """Target speed, m/s."""
        if self.options.get("speed") is not None:
            return float(self.options["speed"])
        return sim.speed_limit * (1 - self._number("vehicle_percentage_speed_difference") / 100)

    def _number(self, name: str) -> float:
        return float(self.options.get(name) or 0.0)


class SetVehicleLightStateAction(VehicleAction):
    """Switch lamps as by CARLA's VehicleLightState, a sum of flags."""

    LAMPS = ((2 | 4, "headlights"), (8, "brake"), (16, "right"), (32, "left"), (64, "reverse"), (512 | 1024, "siren"))

    def __init__(self, vehicleLightState: Any) -> None:
        self.lamps = {lamp for flags, lamp in self.LAMPS if int(vehicleLightState) & flags}

    def applyTo(self, obj: Any, sim: Any) -> None:
        both = {"left", "right"} <= self.lamps
        obj.lamps = self.lamps - {"left", "right"} | {"hazard"} if both else set(self.lamps)


class TrackWaypointsAction(VehicleAction):
    """Steer along (x, y) points at a speed, m/s: a linear-quadratic regulator of lateral offset and heading."""

    AHEAD_M, WHEELBASE_M = 3.0, 3.0
    STEER = 2.0  # full steering turns CARLA's wheels by 70 degrees, ours by 35
    Q_OFFSET, Q_HEADING, R = 1.0, 3.0, 10.0  # weights of the errors and of the steering
    # Solution of the Riccati equation of e' = v h, h' = v u / L: it does not depend on v.
    K_OFFSET = math.sqrt(Q_OFFSET / R)
    K_HEADING = math.sqrt((2 * WHEELBASE_M * math.sqrt(Q_OFFSET * R) + Q_HEADING) / R)

    def __init__(self, waypoints: Sequence[Sequence[float]], cruising_speed: float = 10.0) -> None:
        points = np.asarray([tuple(point)[:2] for point in waypoints], dtype=float)
        if points.ndim != 2 or len(points) < 3:
            raise ValueError(f"TrackWaypointsAction: expected at least 3 points (x, y), found {len(points)}")
        self.path, self.speed = RoutePath(points), float(cruising_speed)

    def applyTo(self, obj: Any, sim: Any) -> None:
        yaw = yaw_of_heading(float(obj.heading))
        x, y = obj.position.x + self.AHEAD_M * math.cos(yaw), obj.position.y + self.AHEAD_M * math.sin(yaw)
        s, left = self.path.locate(x, y)
        turned = math.remainder(yaw - self.path.pose(s)[2], math.tau)  # to the left
        right = self.STEER * (self.K_OFFSET * left + self.K_HEADING * turned)
        obj.setSteering(min(max(right, -1.0), 1.0))
        missing = min(max(self.speed - float(obj.speed or 0.0), -1.0), 1.0)
        obj.setThrottle(max(missing, 0.0))
        obj.setBraking(max(-missing, 0.0))


# -- actions of pedestrians --------------------------------------------------------------------------------------------


class PedestrianAction(Action):
    """An action of pedestrians."""

    def canBeTakenBy(self, agent: Any) -> bool:
        return isinstance(agent, Walks)


class SetWalkAction(PedestrianAction):
    """Walk along the pavement, or straight on without one, at `maxSpeed` m/s; False: stand."""

    def __init__(self, enabled: bool, maxSpeed: float = 1.4) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"SetWalkAction: enabled: expected True or False, found {enabled!r}")
        self.enabled, self.speed = enabled, float(maxSpeed)

    def applyTo(self, obj: Any, sim: Any) -> None:
        if not self.enabled:
            obj.rail = None
            obj.setWalkingSpeed(0.0)
            return
        x, y, yaw = float(obj.position.x), float(obj.position.y), yaw_of_heading(float(obj.heading))
        path = _pavement(sim.network, x, y, yaw)
        s, d = path.locate(x, y)
        obj.rail = Rail(path, s, d, self.speed, accel=2.0, gap=0.6, d_wanted=0.0, stop_s=path.length - 0.3)


def _pavement(network: Any, x: float, y: float, yaw: float) -> RoutePath:
    """The pavement near a walker, in the direction that it faces; a straight line without one."""
    best, gap = None, PAVEMENT_M
    for walk in network.sidewalks:
        path = RoutePath([tuple(point)[:2] for point in walk.centerline.points], step=1.0)
        off = abs(path.locate(x, y)[1])
        if off < gap and path.length > 2.0:
            best, gap = path, off
    if best is None:
        return RoutePath([(x, y), (x + WALK_M * math.cos(yaw), y + WALK_M * math.sin(yaw))])
    forward = math.cos(best.pose(best.locate(x, y)[0])[2] - yaw) >= 0
    return best if forward else RoutePath(best.xy[::-1], step=1.0)


def CarlaSimulator(*args: Any, **kwargs: Any) -> Any:
    """Refused: the world is this project's own."""
    raise OnlyInCarla("CarlaSimulator", "the embedded world has its own simulator; omit the line `simulator ...`")
