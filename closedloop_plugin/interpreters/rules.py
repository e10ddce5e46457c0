"""The slow system that needs no model: driving words and waypoints to controls, by rule, the same every time.

Of the fast system's answers the trajectory counts where it can be read (numbers say more than words), then the action,
then the reasoning. Words give the manoeuvre; where on the road it leads comes from the route hint
(`Observation.target`), as long as the words go the way that the navigation goes. Words that go another way are obeyed
with a fixed angle of the wheel: a model that turns off its route must be seen to do so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.agents.driving_prompts import top_speed
from closedloop_plugin.agents.tracking import pedals, to_speed
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control, Decision, InterpretedControl, Observation, RouteCommand
from closedloop_plugin.interpreters.parsing import fine_grained, words
from closedloop_plugin.interpreters.parsing.waypoints import NoTrajectory, follow, read_waypoints, steer_at

ORDER = ("trajectory", "action", "reasoning")
# Pedals of a braking word by its force: hard, none said, soft.
BRAKES = {"stop": (1.0, 0.6, 0.4), "brake": (1.0, 0.5, 0.25), "slow": (0.6, 0.3, 0.15)}
FASTER = {"hard": 1.0, "": 0.75, "soft": 0.45}  # throttle
SLOWEST = 1.5  # m/s: "slow down" said again and again is no stop; a slower car holds its speed
CAUTIOUS = 0.5  # of the cruising speed: "proceed slowly"
KEEP_AT_LEAST = 1.5  # m/s: "keep the speed" said by a standing car is meant to move it
TURN, CHANGE, SLIGHT = 0.55, 0.2, 0.1  # wheel, where the words leave the route
_SAME_WAY = {
    "left": RouteCommand.LEFT,
    "right": RouteCommand.RIGHT,
    "change_left": RouteCommand.CHANGE_LEFT,
    "change_right": RouteCommand.CHANGE_RIGHT,
}
_ASIDE = {
    "left": -TURN, "right": TURN, "change_left": -CHANGE, "change_right": CHANGE, "slight_left": -SLIGHT,
    "slight_right": SLIGHT, "straight": 0.0,
}  # fmt: skip
_TURNS = (RouteCommand.LEFT, RouteCommand.RIGHT)


class RuleInterpreter:
    """See the head of this file."""

    name = "rules"
    mode = "rules"
    local = True

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """See Interpreter.interpret."""
        return [self._read(ask.observation, decision) for ask, decision in items]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "mode": self.mode, "profile": self.profile.name, "version": 1}

    def _read(self, observation: Observation, decision: Decision) -> InterpretedControl:
        reason = "agent_error" if decision.error is not None else "no_answer"
        raw = ""
        for task in ORDER if decision.error is None else ():
            text = decision.texts.get(task)
            if not text or not text.strip():
                continue
            try:
                control = self._control(task, text, observation)
            except (NoTrajectory, words.UnclearInstruction, fine_grained.SpeedSuffixError) as exc:
                if not raw:
                    raw, reason = text, str(exc)
                continue
            return InterpretedControl(control.checked(), text, mode=self.mode)
        return InterpretedControl(None, raw, reason, self.mode)

    def _control(self, task: str, text: str, observation: Observation) -> Control:
        """Raises what the readers raise."""
        if task == "trajectory":
            return follow(read_waypoints(text), observation.speed)
        wanted = fine_grained.wanted_speed(text, self.profile, observation)
        command = fine_grained.without_suffix(text)
        meant = words.DrivingInstruction() if wanted is not None and not _says(command) else words.understand(command)
        throttle, brake = self._pedals(meant, wanted, observation)
        return Control(_steer(meant.way, observation), throttle, brake)

    def _pedals(
        self, meant: words.DrivingInstruction, wanted: float | None, observation: Observation
    ) -> tuple[float, float]:
        """(throttle, brake). A suffix sets the speed, except that a stop stays a stop."""
        speed = observation.speed
        if meant.pace == "stop" and wanted:
            raise words.UnclearInstruction("contradiction")  # "stop with speed = 0.5"
        if meant.pace == "slow" and wanted is None and speed < SLOWEST:
            moves = meant.way is not None  # "slow down and turn right" of a standing car means to move
            return pedals(to_speed(SLOWEST, speed) if moves else 0.0, speed)
        if meant.pace in BRAKES and (wanted is None or meant.pace == "stop"):
            return 0.0, BRAKES[meant.pace][("hard", "", "soft").index(meant.force)]
        if wanted is not None:
            wanted = min(wanted, speed) if meant.pace in BRAKES else wanted  # to slow down never means to gain speed
            return pedals(to_speed(wanted, speed), speed)
        if meant.pace == "faster":
            return FASTER[meant.force], 0.0
        if meant.pace == "keep":
            return pedals(to_speed(max(speed, KEEP_AT_LEAST), speed), speed)
        cruise = min(top_speed(self.profile, observation), observation.speed_limit)
        cruise *= CAUTIOUS if meant.force == "soft" else 1.0
        return pedals(to_speed(cruise, speed), speed)


def _says(command: str) -> bool:
    """Whether anything stands beside the suffix."""
    return any(c.isalpha() for c in command)


def _steer(way: str | None, observation: Observation) -> float:
    """Along the route hint, or aside where the words leave it."""
    along = steer_at(*observation.target)
    if way in _SAME_WAY:
        return along if observation.command is _SAME_WAY[way] else _ASIDE[way]
    if way == "straight":
        return 0.0 if observation.command in _TURNS else along
    if way in ("slight_left", "slight_right"):
        return min(max(along + _ASIDE[way], -1.0), 1.0)
    return along
