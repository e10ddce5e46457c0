"""SpeakingExpert: the privileged expert answers the questions of the fast system instead of setting the controls.

Its answers go through interpreter and post-processing like those of any model, so that its score is the ceiling of a
task and an interpreter: what they lose of a plan that is right.

action      one phrase of PACES and one direction, of those that the action question lists; no numbers
trajectory  the planned positions, in the format of the trajectory question
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Decision, Observation, RouteCommand
from closedloop_plugin.driver.agents.driving_prompts import WAYPOINT_S, WAYPOINTS
from closedloop_plugin.driver.agents.expert import ExpertDriver, ExpertPlan
from closedloop_plugin.driver.agents.tracking import LANE_M
from lmms_eval_ad2.core.errors import Ad2Error

TASKS = ("action", "trajectory")
# Pace and the highest planned acceleration, m/s2, for which it is said. All phrases are on the list of the action
# question (prompts/driving.yaml). "stop" replaces the weaker ones if the car is to be slower than SLOW_M_S in a second.
PACES = (
    ("brake hard", -4.3),
    ("brake", -2.6),
    ("slow down", -0.5),
    ("keep the speed", 0.4),
    ("accelerate gently", 2.5),
    ("accelerate", math.inf),
)
BRAKING = ("brake hard", "brake")
STOP = "stop"
SLOW_M_S = 1.0
DEPARTURE = 1.2  # m/s2: below it a standing car is not set in motion, since no word moves it more gently
DIRECTIONS = {
    RouteCommand.FOLLOW: "go straight",
    RouteCommand.STRAIGHT: "go straight",
    RouteCommand.LEFT: "turn left",
    RouteCommand.RIGHT: "turn right",
    RouteCommand.CHANGE_LEFT: "change lane to the left",
    RouteCommand.CHANGE_RIGHT: "change lane to the right",
}
AHEAD_S, AHEAD_M = 1.0, 3.0  # where the planned offset is read; the second at low speed
CHANGE_FROM_M, SLIGHT_FROM_M = 1.2, 0.5  # of that offset from the middle of the car's lane: said from there on
ENOUGH_M = 0.3  # remaining distance to the planned offset for which nothing is said


class SpeakingExpert(ExpertDriver):
    """See the head of this file."""

    name = "speaking-expert (privileged)"

    def __init__(self, tasks: Sequence[str], profile: Profile) -> None:
        unknown = [task for task in tasks if task not in TASKS]
        if unknown:
            raise Ad2Error(f"--agent speaking-expert: answers {' and '.join(TASKS)}, not {', '.join(unknown)}")
        super().__init__(max_speed=math.inf if profile.max_speed is None else profile.max_speed)
        self.tasks = tuple(tasks)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "tasks": list(self.tasks)}

    def _answer(self, plan: ExpertPlan, observation: Observation) -> Decision:
        texts = {task: action(plan, observation) if task == "action" else trajectory(plan) for task in self.tasks}
        return Decision(texts=texts, thought={"a": round(plan.acceleration, 2), "top": plan.top})


def action(plan: ExpertPlan, observation: Observation) -> str:
    """Pace and direction of the plan, in the words of the action question."""
    a, speed = plan.acceleration, plan.scene.speed
    pace = next(phrase for phrase, highest in PACES if a <= highest)
    soft = pace not in BRAKING or speed < SLOW_M_S
    if soft and speed + min(a, 0.0) < SLOW_M_S and a < DEPARTURE:
        pace = STOP
    return f"{pace.capitalize()} and {_direction(plan, observation)}."


def _direction(plan: ExpertPlan, observation: Observation) -> str:
    scene = plan.scene
    ahead = scene.s + max(AHEAD_S * scene.speed, AHEAD_M)
    wanted = float(plan.lateral.at(np.array([ahead]))[0])  # m to the left of the route
    remaining = wanted - scene.d
    beside = abs(wanted - LANE_M * round(scene.d / LANE_M))
    if abs(remaining) > ENOUGH_M and beside > SLIGHT_FROM_M:
        side = "left" if remaining > 0 else "right"
        return f"change lane to the {side}" if beside > CHANGE_FROM_M else f"steer slightly to the {side}"
    return DIRECTIONS[observation.command]


def trajectory(plan: ExpertPlan) -> str:
    """The planned positions as (metres forward, metres to the left) in the car's present frame, every WAYPOINT_S."""
    scene, ego = plan.scene, plan.scene.truth.ego
    points = []
    for k in range(1, WAYPOINTS + 1):
        s = scene.s + travelled(scene.speed, plan.acceleration, plan.top, k * WAYPOINT_S)
        x, y, _ = scene.road.path.pose(s, float(plan.lateral.at(np.array([s]))[0]))
        forward, left = to_ego(x, y, ego.x, ego.y, ego.yaw)
        points.append(f"({forward:.2f}, {left:.2f})")
    return f"[{', '.join(points)}]"


def travelled(speed: float, acceleration: float, top: float, seconds: float) -> float:
    """Metres after `seconds` at a constant acceleration (m/s2) that ends at standstill or at the speed `top`."""
    end = 0.0 if acceleration < 0 else max(top, speed)
    ramp = min((end - speed) / acceleration, seconds) if acceleration else 0.0
    reached = speed + acceleration * ramp
    return (speed + reached) / 2 * ramp + reached * (seconds - ramp)
