"""Interviewee for drivers that do not use language: their reactions to probes are reported as the three answers.

The answers are derived from probes of the driver in a state that it really reached on its route, and from the ground
truth of that state, restricted to the kinds of road users that the driver reacts to. A probe puts the ego at its place
and speed, alone or with one addition, and records the driver's immediate control. If the control does not change, the
driver does not react to the addition. Probes run in the world process, where ground truth and map are.

A driver that sees only images cannot be probed, because an addition would have to be rendered; nor one that exists only
in the parent process. Then the answers contain what its drive shows, and that it was not probed.

The answers enter the prompt of a model fuser: their wording is part of the measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from closedloop_plugin.agents.base import Agent, DecisionRequest
from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.state import PEDESTRIANS, STATIC, Actor, ActorKind, Control, GroundTruth, SignalState
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.threats.base import DrivenState, InterviewScene
from closedloop_plugin.threats.driven.summary import ProbedReactions
from closedloop_plugin.threats.site import site_of
from closedloop_plugin.threats.transcript import Stage, StageAnswer
from lmms_eval_ad2.errors import Ad2Error

AHEAD_M = (40.0, 30.0, 22.0, 14.0, 8.0)  # distances of a stationary actor in the ego's lane, farthest first
STANDS = 2.0  # m/s: a slower ego is probed at SPEED
SPEED = 8.0  # m/s
BESIDE_M = 10.0  # an actor that is not farther ahead is beside the ego
MIN_CHANGE = 0.02  # of throttle, brake or steering; smaller changes are ignored
SEEDS = (0, 1)
SPEEDS = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 17.0, 20.0, 24.0)  # m/s, at which the pedals are probed
STANDING: Mapping[str, ActorKind] = {
    "vehicles": ActorKind.CAR,
    "cyclists": ActorKind.BICYCLE,
    "pedestrians": ActorKind.PEDESTRIAN,
    "animals": ActorKind.ANIMAL,
    "things on the road": ActorKind.DEBRIS,
}
# For an ego at SPEED, see `scaled`:
# name -> (kind, m ahead, m to the left, heading relative to the road in degrees, m/s)
MOVING: Mapping[str, tuple[ActorKind, float, float, float, float]] = {
    "a pedestrian who is about to cross": (ActorKind.PEDESTRIAN, 16.0, -3.6, 90.0, 1.8),
    "a car beside it that is moving into its lane": (ActorKind.CAR, 7.0, 3.2, -20.0, 5.0),
    "an oncoming car on its side of the road": (ActorKind.CAR, 34.0, 0.6, 180.0, 8.0),
    "a car that comes out of a side road": (ActorKind.CAR, 13.0, -9.7, 90.0, 6.5),
    "a car close behind it": (ActorKind.CAR, -7.0, 0.0, 0.0, 9.0),
}
SIZES = {
    ActorKind.CAR: (4.6, 1.9, 1.5), ActorKind.BICYCLE: (1.8, 0.6, 1.7), ActorKind.PEDESTRIAN: (0.5, 0.5, 1.8),
    ActorKind.ANIMAL: (1.1, 0.4, 0.8), ActorKind.DEBRIS: (1.0, 1.0, 0.4),
}  # fmt: skip
REACH_M = 60.0  # radius in which the text names road users
MAX_SEEN, MAX_UNSEEN = 6, 3  # road users that the text names
FAR, NEAR = f"{AHEAD_M[0]:g}", f"{AHEAD_M[-1]:g}"
PROBE_QUESTIONS: Mapping[Stage, str] = {
    "perception": f"observed: its controls on the empty road, and with somebody {FAR} to {NEAR} m ahead",
    "prediction": "observed: its controls with somebody who is about to get into its way",
    "planning": "observed: its control at this moment, and on the empty road at several speeds",
}
NOT_PROBED = "observed: its drive; this driver cannot be probed"


@dataclass(frozen=True)
class ProbeResults:
    """Results of all probes. `standing`, `moving`: probe -> control, None if equal to the control on the empty road.

    `speed`: of the ego, m/s. `now`: control in the state itself. `distances`: largest distance of a stationary actor
    with a reaction, m. `lights`: reaction to a red light, None for a route without traffic lights.
    """

    speed: float
    empty_road: Control
    now: Control
    standing: Mapping[str, Control | None] = field(default_factory=dict)
    distances: Mapping[str, float | None] = field(default_factory=dict)
    moving: Mapping[str, Control | None] = field(default_factory=dict)
    lights: bool | None = None
    follows_lane: bool = False
    top_speed: float = 0.0  # m/s up to which it accelerates on the empty road
    constant_pedals: bool = False  # equal pedals at every speed
    seed_dependent: bool = False  # the control depends on the seed


def probe(driver: Agent, state: DrivenState) -> ProbeResults:
    """Run all probes in one state. Raises Ad2Error if the driver returns no control."""
    scene = _ProbeScene(driver, state)
    empty_road = scene.control()
    by_speed = [scene.control(speed=v) for v in SPEEDS]
    standing = {name: scene.reaction(kind, empty_road) for name, kind in STANDING.items()}
    return ProbeResults(
        speed=scene.speed,
        empty_road=empty_road,
        now=scene.decide(state.truth, state.observation.speed),
        standing={name: control for name, (control, _) in standing.items()},
        distances={name: distance for name, (_, distance) in standing.items()},
        moving={name: _change(empty_road, scene.control(scene.scaled(*actor))) for name, actor in MOVING.items()},
        lights=scene.obeys_lights(),
        follows_lane=_change(scene.control(left=0.0), scene.control(left=0.9)) is not None,
        top_speed=max((v for v, c in zip(SPEEDS, by_speed, strict=True) if c.throttle > MIN_CHANGE), default=0.0),
        constant_pedals=all(_change(by_speed[0], replace(c, steer=by_speed[0].steer)) is None for c in by_speed),
        seed_dependent=_change(empty_road, scene.control(seed=SEEDS[1])) is not None,
    )


class _ProbeScene:
    """The road at a state without other actors. `speed`: of the state, or SPEED if the ego stands there."""

    def __init__(self, driver: Agent, state: DrivenState) -> None:
        self.driver, self.state = driver, state
        self.speed = round(state.observation.speed, 1) if state.observation.speed >= STANDS else SPEED
        path = state.road.path
        here = path.locate(state.truth.ego.x, state.truth.ego.y)[0]
        self.s = min(here, max(0.0, path.length - AHEAD_M[-2]))  # with room for the nearer probes

    def control(self, *actors: Actor, speed: float | None = None, left: float = 0.0, s: float | None = None,
                red: bool = False, seed: int = SEEDS[0]) -> Control:  # fmt: skip
        """The control with the ego at `s`, `left` metres left of its line."""
        at = self.s if s is None else s
        pace = self.speed if speed is None else speed
        x, y, yaw = self.state.road.path.pose(at, left)
        ego = replace(self.state.truth.ego, x=x, y=y, yaw=yaw, speed=pace, yaw_rate=0.0, ax=0.0, ay=0.0)
        light = SignalState.RED if red else SignalState.GREEN
        signals = {line.id: light for line in self.state.road.stop_lines if line.control == "signal"}
        truth = replace(self.state.truth, ego=ego, actors=actors, signals=signals, contacts=())
        return self.decide(truth, pace, seed)

    def decide(self, truth: GroundTruth, speed: float, seed: int = SEEDS[0]) -> Control:
        """The control of the driver without history."""
        driver, state = self.driver, self.state
        driver.start("probe", seed)
        observation = replace(state.observation, speed=speed)
        privileged = driver.privileged
        request = DecisionRequest("probe", observation, truth if privileged else None,
                                  state.road if privileged else None)  # fmt: skip
        decision = driver.decide([request])[0]
        driver.end("probe")
        if decision.control is None:
            raise Ad2Error(f"{driver.name}: no control to observe: {decision.error or 'it answers in text'}")
        return decision.control.checked()

    def reaction(self, kind: ActorKind, empty_road: Control) -> tuple[Control | None, float | None]:
        """(changed control at the nearest, largest distance) with a reaction to a stationary actor; (None, None).

        Pedestrians and animals face across the road.
        """
        turned = 90.0 if kind in (ActorKind.PEDESTRIAN, ActorKind.ANIMAL) else 0.0
        found = [
            (change, ahead)
            for ahead in AHEAD_M
            if (change := _change(empty_road, self.control(self.actor(kind, ahead, 0.0, turned, 0.0)))) is not None
        ]
        return (found[-1][0], found[0][1]) if found else (None, None)

    def actor(self, kind: ActorKind, ahead: float, left: float, turned: float, speed: float) -> Actor:
        x, y, yaw = self.state.road.path.pose(self.s + ahead, left)
        length, width, height = SIZES[kind]
        yaw += math.radians(turned)
        return Actor(id="probe", kind=kind, x=x, y=y, yaw=yaw, speed=speed, length=length, width=width, height=height)

    def scaled(self, kind: ActorKind, ahead: float, left: float, turned: float, speed: float) -> Actor:
        """A moving actor whose times to the ego's path are those at SPEED.

        What is far ahead comes nearer at a lower speed, and vehicles are slower in proportion.
        """
        share = self.speed / SPEED
        return self.actor(
            kind, ahead * share if ahead > BESIDE_M else ahead, left, turned,
            speed if kind is ActorKind.PEDESTRIAN else speed * share,
        )  # fmt: skip

    def obeys_lights(self) -> bool | None:
        """Whether a red light 15 m ahead changes anything."""
        line = next((x for x in self.state.road.stop_lines if x.on_route and x.control == "signal"), None)
        if line is None or line.route_s is None:
            return None
        s = line.route_s - 15.0
        return _change(self.control(s=s), self.control(s=s, red=True)) is not None


def _change(before: Control, after: Control) -> Control | None:
    differences = (after.steer - before.steer, after.throttle - before.throttle, after.brake - before.brake)
    return after if max(map(abs, differences)) > MIN_CHANGE else None


class DriverObserver:
    """Observes a driver in states of its drive (recorder.StateObserver).

    `driver`: recipe of the agent; None: it is not probed.
    """

    def __init__(self, driver: FactoryRecipe | None) -> None:
        self.driver = driver

    def observe(self, state: DrivenState) -> tuple[list[StageAnswer], ProbedReactions]:
        if self.driver is None:
            speed = state.observation.speed
            moment = f"At this moment it drives at {speed:.1f} m/s. "
            answers = [
                StageAnswer(
                    stage=stage, question=NOT_PROBED, text=f"{moment if stage == 'planning' else ''}It was not probed."
                )
                for stage in get_args(Stage)
            ]
            return answers, ProbedReactions(speed=round(speed, 2))
        results = probe(self.driver.make(), state)
        stages: dict[Stage, str] = {
            "perception": _perception(results, state),
            "prediction": _prediction(results, state),
            "planning": _planning(results, state),
        }
        reactions = ProbedReactions(
            speed=results.speed,
            distances=dict(results.distances),
            moving={name: control is not None for name, control in results.moving.items()},
            lights=results.lights,
        )
        return [StageAnswer(stage=k, question=PROBE_QUESTIONS[k], text=v) for k, v in stages.items()], reactions


class ObservedInterviewee:
    """A driver without language. `spec`: the value of --agent; `agent`: an instance, for its description.

    `recipe` makes the driver in a world process; None if it cannot be probed there.
    """

    source: Literal["said", "observed"] = "observed"

    def __init__(self, spec: str, agent: Agent, recipe: FactoryRecipe | None) -> None:
        self.spec, self.agent = spec, agent
        self.probed = recipe if agent.privileged or not agent.cameras else None

    @property
    def observer(self) -> FactoryRecipe:
        return FactoryRecipe(f"{__name__}:DriverObserver", {"driver": self.probed})

    def describe(self) -> dict[str, Any]:
        kind = "driver without words, observed" + ("" if self.probed else ", not probed")
        return {**self.agent.describe(), "spec": self.spec, "kind": kind}

    def answer(self, scenes: Sequence[InterviewScene]) -> list[list[StageAnswer]]:
        """The answers that the observer has written during the drive."""
        return [list(scene.moment.answers) for scene in scenes]


# -- perception --------------------------------------------------------------------------------------------------------


def _perception(results: ProbeResults, state: DrivenState) -> str:
    sees = [name for name, control in results.standing.items() if control is not None]
    blind = [name for name, control in results.standing.items() if control is None]
    if sees:
        far = [f"{name} {results.distances[name]:g} m ahead" for name in sees if results.distances.get(name)]
        sentences = [f"At {results.speed:g} m/s it reacts to {_list(far)} in its lane, and not farther away."]
        sentences += [f"It does not look at {_list(blind, 'or')}."] if blind else []
        sentences.append(_around([a for a in state.truth.actors if _class(a) in sees], state))
    else:
        sentences = [
            f"It looks at nobody: with {_list(blind, 'or')} {FAR} to {NEAR} m ahead in its lane it does the same."
        ]
    unseen = _nearest([a for a in state.truth.actors if _class(a) in blind], state)[:MAX_UNSEEN]
    sentences += [f"It does not look at {_placed(*item, state)}." for item in unseen]
    if results.lights is not None:
        sentences.append("It obeys the traffic lights." if results.lights else "It does not look at traffic lights.")
    sentences.append("It follows the line of its lane." if results.follows_lane else "It does not look at the lane.")
    sentences.append("It does not look at weather or darkness.")
    return " ".join(sentences)


def _around(actors: Sequence[Actor], state: DrivenState) -> str:
    seen = _nearest(actors, state)
    if not seen:
        return "Nobody is near."
    sentences = [_placed(a, forward, left, state) for a, forward, left in seen[:MAX_SEEN]]
    more = f", and {len(seen) - MAX_SEEN} more" if len(seen) > MAX_SEEN else ""
    return f"In view: {'; '.join(sentences)}{more}."


def _nearest(actors: Sequence[Actor], state: DrivenState) -> list[tuple[Actor, float, float]]:
    """(actor, metres ahead, metres to the left) within REACH_M, nearest first."""
    ego = state.truth.ego
    placed = [(a, *to_ego(a.x, a.y, ego.x, ego.y, ego.yaw)) for a in actors]
    return sorted((p for p in placed if math.hypot(*p[1:]) < REACH_M), key=lambda p: math.hypot(*p[1:]))


def _placed(actor: Actor, forward: float, left: float, state: DrivenState) -> str:
    where = f"{abs(forward):.0f} m {'ahead' if forward > 0 else 'back'}"
    width = state.road.lane_width
    beside = "in its lane" if abs(left) < width / 2 else f"{abs(left):.0f} m to the {'left' if left > 0 else 'right'}"
    pace = "standing" if abs(actor.speed) < 0.3 else f"at {abs(actor.speed):.0f} m/s"
    kind = actor.kind.value
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} {where} {beside}, {pace}"


def _class(actor: Actor) -> str:
    """The key of STANDING for this actor."""
    if actor.kind in PEDESTRIANS:
        return "pedestrians"
    if actor.kind in STATIC:
        return "things on the road"
    if actor.kind is ActorKind.ANIMAL:
        return "animals"
    return "cyclists" if actor.kind in (ActorKind.BICYCLE, ActorKind.MOTORCYCLE) else "vehicles"


# -- prediction and planning -------------------------------------------------------------------------------------------


def _prediction(results: ProbeResults, state: DrivenState) -> str:
    noticed = [name for name, control in results.moving.items() if control is not None]
    ignored = [name for name, control in results.moving.items() if control is None]
    sentences = [f"It reacts to {_list(noticed)}."] if noticed else ["It expects nothing of others."]
    sentences += [f"It does not react to {name}." for name in ignored]
    moving = [a for a in state.truth.actors if abs(a.speed) > 0.5 and results.standing.get(_class(a)) is not None]
    sentences.append(
        _around(moving, state).replace("In view:", "Moving now:") if moving else "Nobody moves near it now."
    )
    return " ".join(sentences)


def _planning(results: ProbeResults, state: DrivenState) -> str:
    limit = state.road.speed_limit
    sentences = [f"At this moment: {_words(results.now)}."]
    if results.seed_dependent:
        sentences.append("What it does is a matter of chance.")
    if results.constant_pedals and results.top_speed > 0:
        sentences.append("Its pedals stay the same at every speed.")
    elif results.top_speed > 0:
        sentences.append(
            f"On an empty road it accelerates up to about {results.top_speed:.0f} m/s (the limit is {limit:.0f} m/s)"
            " and then keeps the speed."
        )
    else:
        sentences.append("On an empty road it does not accelerate either; it stays where it is.")
    sentences.append(_way(results, state))
    braking = [
        name for name, c in results.standing.items() if c is not None and c.brake > results.empty_road.brake + 0.02
    ]
    if braking:
        sentences.append(f"For {_list(braking)} in its lane it brakes.")
    elif results.top_speed > 0:
        sentences.append("It does not brake for anybody.")
    return " ".join(sentences)


def _way(results: ProbeResults, state: DrivenState) -> str:
    """The direction of its route at the junction."""
    site = site_of("", state.route, state.road)
    if not results.follows_lane:
        return "It does not steer along its route."
    bend = state.road.path.bend(site.crossing[0], site.crossing[1] - site.crossing[0]) if site.crossing else 0.0
    if abs(bend) > 0.6:
        return f"At the junction it will turn {'left' if bend > 0 else 'right'} with its route."
    return "It will go straight on through the junction." if site.crossing else "It will go on along the road."


def _words(control: Control) -> str:
    parts = [f"throttle {control.throttle:.1f}" if control.throttle > 0.02 else "",
            f"brake {control.brake:.1f}" if control.brake > 0.02 else "",
            f"wheel {'right' if control.steer > 0 else 'left'} {abs(control.steer):.2f}"
            if abs(control.steer) > 0.02 else "wheel straight"]  # fmt: skip
    return ", ".join(filter(None, parts))


def _list(items: Sequence[str], last: str = "and") -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"
