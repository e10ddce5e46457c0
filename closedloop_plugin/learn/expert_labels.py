"""The labels of frames: what the expert would say and do at a tick, and why, whoever drives.

They are made from the part of the truth that a driver with one camera can know (KnownTruth). The expert waits for cars
behind it, for those that will come, and for a permission to use the oncoming lane. In the picture the road is free, so
a model that learns to say what such an expert says stands on free roads. What a driver knows here: what stands still,
what the camera shows, and what it has shown within the last MEMORY_S.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.state import Actor, GroundTruth, Observation
from closedloop_plugin.core.visibility import VisibleExtent
from closedloop_plugin.driver.agents import expert, speaking_expert, tracking
from closedloop_plugin.driver.agents.expert import ExpertDriver, ExpertPlan, ExpertScene, ExpertState
from closedloop_plugin.driver.agents.planning import gaps, manoeuvre
from closedloop_plugin.driver.agents.planning.gaps import GapMemory
from closedloop_plugin.learn.collection import LEAST_PIXELS, MOVES_M_S
from closedloop_plugin.maps.base import RoadMap

MEMORY_S = 3.0
UNSEEN = VisibleExtent()


class KnownTruth:
    """The known part of one episode. two_ways: the oncoming lane may be used to pass what blocks the road."""

    def __init__(self, two_ways: bool) -> None:
        self._two_ways = two_ways
        self._seen: dict[str, float] = {}  # id of an actor -> time at which the camera showed it last, s
        self._lines = GapMemory()

    def of(self, truth: GroundTruth, visible: Mapping[str, VisibleExtent]) -> GroundTruth:
        """Without the actors that are not known, and the streams of which no car is. Ticks must come in order."""
        for actor in truth.actors:
            if visible.get(actor.id, UNSEEN).pixels >= LEAST_PIXELS:
                self._seen[actor.id] = truth.time_s
        known = replace(truth, actors=tuple(a for a in truth.actors if self._knows(a, truth.time_s)))
        lines = {stream.name: self._lines.line(stream) for stream in truth.streams}
        streams = tuple(x for x in truth.streams if any(gaps.belongs(a, x, lines[x.name]) for a in known.actors))
        return replace(known, streams=streams, oncoming_allowed=truth.oncoming_allowed or self._two_ways)

    def _knows(self, actor: Actor, time_s: float) -> bool:
        return abs(actor.speed) <= MOVES_M_S or time_s <= self._seen.get(actor.id, -math.inf) + MEMORY_S


EPISODE = "labels"
LOWER = 0.3  # m/s2 by which a step of the decision must lower the acceleration to be the reason
BEND = 0.9  # of the cruising speed: a lower aim is due to a bend


class ExpertLabels:
    """The expert's labels of one episode. `max_speed` (m/s): of the profile, as the expert plans no faster."""

    def __init__(self, max_speed: float | None) -> None:
        self._driver = _PlanningExpert(math.inf if max_speed is None else max_speed)

    def label(self, observation: Observation, truth: GroundTruth, road: RoadMap) -> dict[str, Any]:
        """The label of a tick as JSON values. Ticks must come in order, but any may be left out."""
        plan, state = self._driver.plan(truth, road)
        scene = plan.scene
        ahead = float(plan.lateral.at(np.array([scene.s + 3.0]))[0])
        control = tracking.control(truth.ego, road.path, scene.s, ahead, plan.acceleration)
        return {
            "acceleration": round(plan.acceleration, 2),
            "top": round(plan.top, 2),
            "offset": round(ahead, 2),
            "action": speaking_expert.action(plan, observation),
            "trajectory": speaking_expert.trajectory(plan),
            "control": {name: round(value, 3) for name, value in vars(control).items()},
            "reason": reason_of(plan, state),
        }


class _PlanningExpert(ExpertDriver):
    """The expert, whose plan and memory are read instead of its control."""

    def plan(self, truth: GroundTruth, road: RoadMap) -> tuple[ExpertPlan, ExpertState]:
        plan = self._plan(truth, road, EPISODE)
        return plan, self._states[EPISODE]


def reason_of(plan: ExpertPlan, state: ExpertState) -> dict[str, Any]:
    """{"kind", "actor"}: the step of the decision that determines the acceleration, and the actor behind it, or None.

    kind: clear (nothing slows the car), speed_limit, curve, red_light, stop_sign, line_ahead (the car has to stop at a
    line, but not yet slow down for it), vehicle_ahead, yield (to a stream, or before moving into a lane), actor (the
    rollouts brake for it), passing (beside an obstacle), blocked (no way past).
    """
    bounds = plan.bounds
    if bounds["contact"] < bounds["gap"] - LOWER:
        return {"kind": "actor", "actor": _contact(plan, state)}
    if bounds["gap"] < bounds["follow"] - LOWER:
        return {"kind": "yield", "actor": _of_a_stream(plan.scene)}
    lines = _held(plan.scene, state)
    if bounds["follow"] < bounds["line"] - LOWER:
        return {"kind": "blocked" if state.no_way_past else "vehicle_ahead", "actor": _ahead(plan.scene, state)}
    if lines and plan.acceleration < LOWER:
        return {"kind": lines, "actor": None}
    if state.waiting_for_gap:
        return {"kind": "yield", "actor": None}
    if plan.lateral.purpose in ("pass", "oncoming"):
        return {"kind": "passing", "actor": _blocker(plan.scene, state)}
    return {"kind": "line_ahead" if lines else _speed_reason(plan, state), "actor": None}


def _speed_reason(plan: ExpertPlan, state: ExpertState) -> str:
    """Without actors and lines: whether a bend or the speed limit keeps the car from accelerating."""
    if plan.acceleration > LOWER:
        return "clear"
    cruise = min(expert.CRUISE_SHARE * plan.scene.road.speed_limit, state.max_speed)
    return "curve" if plan.top < BEND * cruise else "speed_limit"


def _held(scene: ExpertScene, state: ExpertState) -> str | None:
    """red_light or stop_sign, if the car has to stop at a line ahead."""
    memory = copy.copy(state)
    memory.stops_made = set(state.stops_made)
    for line in scene.road.stop_lines:
        if line.on_route and line.route_s is not None:
            gap = line.route_s - (scene.s + expert.FRONT)
            if -1.0 < gap < 60.0 and expert.must_stop(line, gap, scene, memory):
                return "red_light" if line.control == "signal" else "stop_sign"
    return None


def _ahead(scene: ExpertScene, state: ExpertState) -> str | None:
    """The actor that the car follows most closely."""
    each = {x.actor.id: expert.follow(replace(scene, actors=[x]), state) for x in scene.actors}
    return min(each, key=lambda k: each[k]) if each else None


def _contact(plan: ExpertPlan, state: ExpertState) -> str | None:
    """The actor for which alone the rollouts brake most."""
    each: Mapping[str, float] = {
        x.actor.id: expert.safest_acceleration(
            replace(plan.scene, actors=[x]), copy.copy(state), plan.bounds["gap"], plan.top
        )
        for x in plan.scene.actors
    }
    worst = min(each, key=lambda k: each[k]) if each else None
    return worst if worst is not None and each[worst] < plan.bounds["gap"] - LOWER else None


def _of_a_stream(scene: ExpertScene) -> str | None:
    """The nearest vehicle of the streams that cross or join."""
    lines = [(stream, RoutePath(stream.points)) for stream in scene.truth.streams]
    found = [x for x in scene.actors if any(gaps.belongs(x.actor, stream, line) for stream, line in lines)]
    return min(found, key=lambda x: math.hypot(x.s - scene.s, x.d - scene.d)).actor.id if found else None


def _blocker(scene: ExpertScene, state: ExpertState) -> str | None:
    """The nearest actor that blocks the lane."""
    group = manoeuvre.blockers(scene.road, scene.truth, scene.actors, state.standstill, scene.s)
    return group[0].actor.id if group else None
