"""Core data types of the closed loop: Observation, Decision, Control, GroundTruth. Imports no other module of ours.

All positions are in the map frame: right-handed, metres, x east, y north; yaw in radians, counter-clockwise from +x
(frames.py converts from CARLA and Scenic). Control follows CARLA: steer > 0 is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from lmms_eval_ad2.core.printed import encodable


@dataclass(frozen=True)
class Control:
    """Normalised controls as in carla.VehicleControl: steer in [-1, 1] (right > 0), throttle and brake in [0, 1]."""

    steer: float = 0.0
    throttle: float = 0.0
    brake: float = 0.0

    def checked(self) -> Control:
        """Clamped to the ranges above. Raises ValueError for NaN or infinity, which CARLA accepts silently."""
        values = (float(self.steer), float(self.throttle), float(self.brake))
        if not all(map(math.isfinite, values)):
            raise ValueError(f"control is not finite: steer {self.steer}, throttle {self.throttle}, brake {self.brake}")
        steer, throttle, brake = values
        return Control(min(max(steer, -1.0), 1.0), min(max(throttle, 0.0), 1.0), min(max(brake, 0.0), 1.0))


COAST = Control()
FULL_BRAKE = Control(brake=1.0)


class RouteCommand(StrEnum):
    """Navigation command of the route (CARLA's RoadOption)."""

    FOLLOW = "lane follow"
    LEFT = "turn left"
    RIGHT = "turn right"
    STRAIGHT = "go straight"
    CHANGE_LEFT = "change lane left"
    CHANGE_RIGHT = "change lane right"


class ActorKind(StrEnum):
    """Kind of an actor. Selects how cameras draw it and which infraction a collision counts as."""

    CAR = "car"
    VAN = "van"
    TRUCK = "truck"
    BUS = "bus"
    POLICE = "police"
    AMBULANCE = "ambulance"
    FIRETRUCK = "firetruck"
    MOTORCYCLE = "motorcycle"
    BICYCLE = "bicycle"
    PEDESTRIAN = "pedestrian"
    CHILD = "child"
    ANIMAL = "animal"
    CONE = "cone"
    BARRIER = "barrier"
    DEBRIS = "debris"
    WARNING_SIGN = "warning sign"
    BLOCKER = "blocker"  # an object that hides a pedestrian: container, advertisement, vending machine


PEDESTRIANS = frozenset({ActorKind.PEDESTRIAN, ActorKind.CHILD})
STATIC = frozenset({ActorKind.CONE, ActorKind.BARRIER, ActorKind.DEBRIS, ActorKind.WARNING_SIGN, ActorKind.BLOCKER})
VEHICLES = frozenset(ActorKind) - PEDESTRIANS - STATIC - {ActorKind.ANIMAL}
EMERGENCY = frozenset({ActorKind.POLICE, ActorKind.AMBULANCE, ActorKind.FIRETRUCK})


@dataclass(frozen=True, kw_only=True)
class Actor:
    """State of one body at one time. (x, y) is the centre of its bounding box."""

    id: str
    kind: ActorKind
    x: float
    y: float
    yaw: float
    speed: float  # m/s, negative in reverse
    length: float
    width: float
    height: float
    yaw_rate: float = 0.0  # rad/s, counter-clockwise
    ax: float = 0.0  # m/s2, map frame
    ay: float = 0.0
    steer: float = 0.0  # current steering, right > 0
    colour: tuple[int, int, int] = (120, 120, 130)  # RGB
    lamps: frozenset[str] = frozenset()  # of: brake, left, right, hazard, siren, headlights, reverse
    doors: frozenset[str] = frozenset()  # of: left, right
    parked: bool = False  # at rest since the start, without anything that drives it: its lights are off in the dark
    # ego | scenario | background. Efficiency compares the ego with background actors; if a scenario leaves no lane for
    # them, the world assigns this role to the scenario's own flow.
    role: str = "scenario"


class SignalState(StrEnum):
    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"


@dataclass(frozen=True)
class StopLine:
    """Stop line of one approach. (x, y): middle of the line; yaw: direction of traffic."""

    id: str
    x: float
    y: float
    yaw: float
    width: float  # m, across the lanes that it applies to
    control: str  # "signal" | "stop" | "yield"
    on_route: bool = False  # the ego's route crosses it
    route_s: float | None = None  # m along the route, where on_route


class DrivingSurface(StrEnum):
    """Surface under the ego's centre."""

    LANE = "lane"  # a driving lane in the direction of travel, or any lane inside a junction
    ONCOMING = "oncoming"
    SHOULDER = "shoulder"  # shoulder, parking or bicycle lane
    OFF = "off"


@dataclass(frozen=True)
class EgoContact:
    """A contact of the ego with a body in this tick. `impulse` in kg m/s."""

    actor: str
    kind: ActorKind
    x: float
    y: float
    impulse: float = 0.0


@dataclass(frozen=True)
class VehicleStream:
    """Vehicles that drive along one line at a constant speed and brake for nothing. Known to privileged agents only."""

    name: str
    points: tuple[tuple[float, float], ...]  # of the line, m
    speed: float  # m/s
    cars: tuple[float, ...]  # m along the line, of their centres
    coming: tuple[float, ...]  # the same of the next ones, which are not in the scene before they reach `source`
    source: float  # m along the line
    sink: float  # where they leave the scene
    until_s: float  # m along the ego's route, from where on there are none


@dataclass(frozen=True)
class GroundTruth:
    """Complete state of one tick, for the referee and for privileged agents."""

    tick: int
    time_s: float
    ego: Actor
    actors: tuple[Actor, ...] = ()  # all other bodies
    signals: Mapping[str, SignalState] = field(default_factory=dict)  # by StopLine.id
    contacts: tuple[EgoContact, ...] = ()  # of the ego; `actor` may be a building, which is not in `actors`
    surface: DrivingSurface = DrivingSurface.LANE
    oncoming_allowed: bool = False  # a TwoWays scenario: using the oncoming lane is necessary and no infraction
    events: tuple[tuple[float, str], ...] = ()  # (time_s, name) from the scenario so far: "trigger", "act", "end", ...
    streams: tuple[VehicleStream, ...] = ()
    crossed: tuple[str, ...] = ()  # lane markings that the ego crossed in this tick, from a lane sensor


@dataclass(frozen=True)
class Observation:
    """Inputs of an agent: the car's sensors and its navigation system."""

    tick: int
    time_s: float
    speed: float  # m/s
    command: RouteCommand
    target: tuple[float, float]  # a route point some metres ahead, ego frame: metres forward, to the LEFT
    images: Callable[[str], np.ndarray]  # camera name -> (H, W, 3) uint8 RGB, rendered on demand
    speed_limit: float = 50 / 3.6  # m/s
    route_offset: float | None = None  # m from the route to the car, left > 0; None: not known


@dataclass(frozen=True)
class ModelUsage:
    """Hash of the questions of one decision, and its tokens. None: not known, or not reported by the backend.

    prompt_sha256: of the texts and images of all questions, see agents.model_backend.PromptHashes; tokens: of all
    questions together.
    """

    prompt_sha256: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None


class EpisodeFault(StrEnum):
    """Cause of an episode that was not driven to an end. Such an episode is never scored as driving."""

    MAP = "map"
    PROGRAM = "program"  # a Scenic program, or the scene that it describes
    WORLD = "world"  # the simulator
    DRIVER = "driver"  # an exception or failure of the agent, the interpreter or a local model
    ENDPOINT = "endpoint"  # the server of a model


@dataclass(frozen=True)
class Decision:
    """Output of the fast system. Baselines and the expert fill `control` and need no interpreter."""

    texts: Mapping[str, str] = field(default_factory=dict)  # task (action, trajectory, reasoning, threat ...) -> answer
    control: Control | None = None
    latency_s: float = 0.0  # wall time the model took for this answer
    error: str | None = None  # why the model could not answer; counted, never replaced by an invented text
    thought: Mapping[str, Any] = field(default_factory=dict)  # for logs and pictures only
    usage: ModelUsage = field(default=ModelUsage(), compare=False)  # for logs and tables only
    fault: EpisodeFault = EpisodeFault.DRIVER  # what is to blame if there is an error

    def storable(self) -> Decision:
        """The decision with texts that a file can hold: those of own agents are any."""
        texts = {encodable(task): encodable(text) for task, text in self.texts.items()}
        error = self.error and encodable(self.error)
        return self if (texts, error) == (self.texts, self.error) else replace(self, texts=texts, error=error)


@dataclass(frozen=True)
class InterpretedControl:
    """Output of the slow system. control None: the reply could not be parsed; `reason` is the code.

    adapted: what was changed in the reply's numbers, one name each; counted in the record. meaning: what rules read
    before they chose the pedals, such as "keep, follow"; for logs and pictures only, as `usage`.
    """

    control: Control | None
    raw: str = ""
    reason: str | None = None
    mode: str = ""  # the interpreter that was used (hybrid switches between two)
    latency_s: float = 0.0
    adapted: tuple[str, ...] = ()
    meaning: str = field(default="", compare=False)
    usage: ModelUsage = field(default=ModelUsage(), compare=False)
    fault: EpisodeFault = EpisodeFault.DRIVER  # what is to blame if there is no reply

    def storable(self) -> InterpretedControl:
        """The reading with texts that a file can hold."""
        raw, reason = encodable(self.raw), self.reason and encodable(self.reason)
        return self if (raw, reason) == (self.raw, self.reason) else replace(self, raw=raw, reason=reason)


class EndReason(StrEnum):
    """Every way in which an episode ends."""

    COMPLETED = "completed"
    ROUTE_DEVIATION = "route deviation"
    BLOCKED = "blocked"
    ROUTE_TIMEOUT = "route timeout"
    TICK_LIMIT = "tick limit"
    UNPARSED = "unparsed reply"  # profile policy strict
    INVALID = "invalid episode"  # the simulator rejected the scene
    AGENT_FAILED = "agent failed"
    WORLD_FAILED = "world failed"  # died or hung, retries used up


# Ends that say nothing about the driving, with the fault in records that do not name it: versions before 0.12.
FAULT_OF: Mapping[str, EpisodeFault] = {
    EndReason.WORLD_FAILED: EpisodeFault.WORLD,
    EndReason.AGENT_FAILED: EpisodeFault.DRIVER,
    EndReason.INVALID: EpisodeFault.PROGRAM,
}
FAILED = tuple(FAULT_OF)

# Status texts of Bench2Drive's result files.
STATUS = {
    EndReason.COMPLETED: "Completed",
    EndReason.ROUTE_DEVIATION: "Failed - Agent deviated from the route",
    EndReason.BLOCKED: "Failed - Agent got blocked",
    EndReason.ROUTE_TIMEOUT: "Failed - Agent timed out",
    EndReason.TICK_LIMIT: "Failed - TickRuntime",
    EndReason.UNPARSED: "Failed - Agent crashed",
    EndReason.INVALID: "Failed - Simulation crashed",
    EndReason.AGENT_FAILED: "Failed - Agent crashed",
    EndReason.WORLD_FAILED: "Failed - Simulation crashed",
}
