"""RuleInterpreter: a deterministic slow system without a model, for driving words and waypoints in English.

The first of trajectory, action and reasoning that can be parsed is used. Words determine the manoeuvre. If it agrees
with the navigation command, steering follows the route (`Observation.target`); a turn that does not agree is executed
with a fixed steering value, so that a model that leaves its route really does. "Change lane" leads to the middle of the
next lane, which is kept until words end it (lanes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from closedloop_plugin.core.image_encoding import ImageEncoding
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control, Decision, InterpretedControl, Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.driving_prompts import top_speed
from closedloop_plugin.driver.agents.tracking import LANE_M, pedals, to_speed
from closedloop_plugin.driver.interpreters.parsing import fine_grained
from closedloop_plugin.driver.interpreters.parsing.instruction import (
    DrivingInstruction,
    UnclearInstruction,
    parse_instruction,
)
from closedloop_plugin.driver.interpreters.parsing.waypoints import NoTrajectory, follow, read_waypoints, steer_at

# Steering by the words of a direction: along the route, in a lane beside it, or off the route.
#
# Lanes are counted from the route's own, LANE_M wide, to the left. A lane beside it is kept only after words have
# changed into it, so that a wide turn or a start beside the road is no lane change. RouteLanes keeps this memory by
# episode.

TURN, CHANGE, SLIGHT = 0.55, 0.2, 0.1  # steering off the route; the last two if the car's lane is not known
SIDE_M = 1.0  # "steer slightly left": from the middle of the lane
WAY_S, WAY_M = 2.0, 3.5  # a lane change takes about 2 s, and 3.5 m from standstill
EPISODES = 4096  # that are remembered; the oldest is forgotten first
_SAME_WAY = {
    "left": RouteCommand.LEFT,
    "right": RouteCommand.RIGHT,
    "change_left": RouteCommand.CHANGE_LEFT,
    "change_right": RouteCommand.CHANGE_RIGHT,
}
_TURNS = (RouteCommand.LEFT, RouteCommand.RIGHT)


@dataclass
class LaneMemory:
    """Of one episode. lane: kept now, 0 is the route's own; changing: the last words were a lane change."""

    tick: int
    lane: int = 0
    changing: bool = False


@dataclass
class RouteLanes:
    """The lanes that the cars of all episodes keep."""

    _episodes: dict[str, LaneMemory] = field(default_factory=dict)

    def steer(self, way: str | None, request: DecisionRequest) -> float:
        """Steering in [-1, 1], right > 0, for the direction `way` of a DrivingInstruction."""
        memory = self._memory(request)
        observation = request.observation
        offset = observation.route_offset
        near = 0 if offset is None else round(offset / LANE_M)
        if observation.command in _TURNS:
            memory.lane = 0  # lanes end at a junction
        elif memory.changing or near == 0:
            memory.lane = near
        memory.changing = way in ("change_left", "change_right")
        return _steer(way, observation, memory.lane)

    def _memory(self, request: DecisionRequest) -> LaneMemory:
        tick = request.observation.tick
        memory = self._episodes.pop(request.episode, None)
        if memory is None or tick < memory.tick:  # the first decision, or the episode was started again
            memory = LaneMemory(tick)
        memory.tick = tick
        self._episodes[request.episode] = memory
        if len(self._episodes) > EPISODES:
            del self._episodes[next(iter(self._episodes))]
        return memory


def _steer(way: str | None, observation: Observation, lane: int) -> float:
    if way is not None and observation.command is _SAME_WAY.get(way):
        return _toward(observation, 0.0)
    side = {"left": 1, "right": -1}.get((way or "").rpartition("_")[2], 0)
    if way in ("left", "right"):
        return -side * TURN
    if way == "straight" and observation.command in _TURNS:
        return 0.0
    if observation.route_offset is None:
        along = steer_at(*observation.target)
        return -side * CHANGE if way in _SAME_WAY else min(max(along - side * SLIGHT, -1.0), 1.0)
    if way in _SAME_WAY:
        # The next lane until the car is within a quarter of a lane of its middle; from there on the one after it.
        return _toward(observation, LANE_M * (round(observation.route_offset / LANE_M - side * 0.25) + side))
    return _toward(observation, LANE_M * lane + side * SIDE_M)


def _toward(observation: Observation, offset: float) -> float:
    """Steering to the line `offset` metres to the left of the route; `offset` 0 without a known lane."""
    forward, left = observation.target
    own = observation.route_offset
    if own is None or (offset == 0.0 and abs(own) < SIDE_M) or forward <= WAY_M:
        return steer_at(forward, left + offset)
    # Straight lines in the car's frame: the route from (0, -own) to (forward, left). A slow car aims at a nearer point.
    share = min(max(WAY_S * observation.speed, WAY_M) / forward, 1.0)
    return steer_at(forward * share, -own + (left + own) * share + offset)


ORDER = ("trajectory", "action", "reasoning")
# Brake of a braking word by its force: hard, unspecified, soft.
BRAKES = {"stop": (1.0, 0.6, 0.4), "brake": (1.0, 0.5, 0.25), "slow": (0.6, 0.3, 0.15)}
FASTER = {"hard": 1.0, "": 0.75, "soft": 0.45}  # throttle
SLOWEST = 1.5  # m/s: repeated "slow down" does not become a stop; a slower car holds its speed
CAUTIOUS = 0.5  # of the cruising speed: "proceed slowly"
KEEP_AT_LEAST = 1.5  # m/s: "keep the speed" sets a standing car in motion


class RuleInterpreter:
    """Interpreter by rules, see the head of this file."""

    name = "rules"
    mode = "rules"
    local = True
    encodings: frozenset[ImageEncoding] = frozenset()  # it sees no image

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._lanes = RouteLanes()

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """See Interpreter.interpret."""
        return [self._read(request, decision) for request, decision in items]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "mode": self.mode, "profile": self.profile.name, "version": 3}

    def _read(self, request: DecisionRequest, decision: Decision) -> InterpretedControl:
        reason = "agent_error" if decision.error is not None else "no_answer"
        raw = ""
        for task in ORDER if decision.error is None else ():
            text = decision.texts.get(task)
            if not text or not text.strip():
                continue
            try:
                control, meaning = self._control(task, text, request)
            except (NoTrajectory, UnclearInstruction, fine_grained.SpeedSuffixError) as exc:
                if not raw:
                    raw, reason = text, str(exc)
                continue
            return InterpretedControl(control.checked(), text, mode=self.mode, meaning=meaning)
        return InterpretedControl(None, raw, reason, self.mode)

    def _control(self, task: str, text: str, request: DecisionRequest) -> tuple[Control, str]:
        """(control, meaning), see InterpretedControl. Raises NoTrajectory, UnclearInstruction or SpeedSuffixError."""
        observation = request.observation
        if task == "trajectory":
            return follow(read_waypoints(text), observation.speed), "waypoints"
        instruction = self.instruction(text, observation)
        if instruction.throttle is not None and instruction.brake is not None:
            throttle, brake = instruction.throttle, instruction.brake
        else:
            throttle, brake = self._pedals(instruction, instruction.speed, observation)
        steer = self._lanes.steer(instruction.way, request) if instruction.steer is None else instruction.steer
        pace = instruction.pace if instruction.throttle is None else None  # the pedals are numbers
        return Control(steer, throttle, brake), ", ".join(filter(None, (pace, instruction.way)))

    def instruction(self, text: str, observation: Observation) -> DrivingInstruction:
        """What a text says, with the speed of its suffix. Raises UnclearInstruction or SpeedSuffixError."""
        wanted = fine_grained.wanted_speed(text, self.profile, observation)
        command = fine_grained.without_suffix(text)
        only_suffix = wanted is not None and not _has_words(command)
        found = DrivingInstruction() if only_suffix else parse_instruction(command)
        if None not in (wanted, found.speed) and wanted != found.speed:
            raise fine_grained.SpeedSuffixError("several_speeds")
        return found if wanted is None else replace(found, speed=wanted)

    def _pedals(
        self, instruction: DrivingInstruction, wanted: float | None, observation: Observation
    ) -> tuple[float, float]:
        """(throttle, brake). A suffix sets the wanted speed (m/s), but does not override a stop."""
        speed = observation.speed
        if instruction.pace == "stop" and wanted:
            raise UnclearInstruction("contradiction")  # "stop with speed = 0.5"
        if instruction.pace == "slow" and wanted is None and speed < SLOWEST:
            moves = instruction.way is not None  # "slow down and turn right" sets a standing car in motion
            return pedals(to_speed(SLOWEST, speed) if moves else 0.0, speed)
        if instruction.pace in BRAKES and (wanted is None or instruction.pace == "stop"):
            return 0.0, BRAKES[instruction.pace][("hard", "", "soft").index(instruction.force)]
        if wanted is not None:
            wanted = (
                min(wanted, speed) if instruction.pace in BRAKES else wanted
            )  # slowing down never increases the speed
            return pedals(to_speed(wanted, speed), speed)
        if instruction.pace == "faster":
            return FASTER[instruction.force], 0.0
        if instruction.pace == "keep":
            return pedals(to_speed(max(speed, KEEP_AT_LEAST), speed), speed)
        cruise = min(top_speed(self.profile, observation), observation.speed_limit)
        cruise *= CAUTIOUS if instruction.force == "soft" else 1.0
        return pedals(to_speed(cruise, speed), speed)


def _has_words(command: str) -> bool:
    """Whether the text contains anything besides the suffix."""
    return any(c.isalpha() for c in command)
