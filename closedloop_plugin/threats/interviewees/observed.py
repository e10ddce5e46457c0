"""A driver without words as the target: a witness tells what it is observed to do, in the same three answers.

Everything said is derived: from probes of the driver (probes.py), and from what the moment's truth holds of the kinds
of road users that the probes found it to look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from closedloop_plugin.agents.base import Agent, DecisionRequest
from closedloop_plugin.agents.make import make_agent
from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.state import PEDESTRIANS, STATIC, Actor, ActorKind, Control, GroundTruth, SignalState
from closedloop_plugin.threats.base import InterviewFrame
from closedloop_plugin.threats.site import site_of
from closedloop_plugin.threats.transcript import Stage, StageAnswer
from lmms_eval_ad2.errors import Ad2Error

# What a driver without words reacts to, found by experiment: one moment, with and without somebody on the stage.
#
# Each probe puts the ego on its route at a town's speed, alone or with one thing more, and takes the control that the
# driver gives at once. A driver whose control does not change does not look there.
AHEAD_M = (14.0, 8.0)  # of who stands in the ego's lane: two tries
SPEED = 8.0  # m/s of the ego
FELT = 0.02  # a change of a pedal or the wheel that counts
SEEDS = (0, 1)
SPEEDS = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 17.0, 20.0, 24.0)  # m/s, at which the pedals are asked for
STANDING: Mapping[str, ActorKind] = {
    "vehicles": ActorKind.CAR,
    "cyclists": ActorKind.BICYCLE,
    "pedestrians": ActorKind.PEDESTRIAN,
    "animals": ActorKind.ANIMAL,
    "things on the road": ActorKind.DEBRIS,
}
# name -> (kind, m ahead, m to the left, its direction against the road's in degrees, m/s)
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


@dataclass(frozen=True)
class ProbeResults:
    """`sees`, `foresees`: probe -> its control, None where that is the same as on the empty road.
    `now`: the control at the moment itself. `lights`: None where the route has none."""

    alone: Control
    now: Control
    sees: Mapping[str, Control | None] = field(default_factory=dict)
    foresees: Mapping[str, Control | None] = field(default_factory=dict)
    lights: bool | None = None
    line: bool = False
    top: float = 0.0  # m/s up to which it still accelerates on the empty road
    steady: bool = False  # its pedals are the same at every speed
    chance: bool = False  # another seed, another control

    @property
    def looks(self) -> bool:
        """At anybody at all."""
        return any(self.sees.values()) or any(self.foresees.values())


def probe(make: Callable[[], Agent], moment: InterviewFrame) -> ProbeResults:
    """All experiments at one moment. Ad2Error where the driver cannot answer."""
    stage = _ProbeScene(make, moment)
    alone = stage.control()
    by_speed = [stage.control(speed=v) for v in SPEEDS]
    return ProbeResults(
        alone=alone,
        now=stage.decide(moment.truth, moment.observation.speed),
        sees={name: _first(_change(alone, stage.control(who)) for who in stage.standing(kind))
              for name, kind in STANDING.items()},
        foresees={name: _change(alone, stage.control(stage.actor(*what))) for name, what in MOVING.items()},
        lights=stage.obeys_lights(),
        line=_change(stage.control(beside=0.0), stage.control(beside=0.9)) is not None,
        top=max((v for v, c in zip(SPEEDS, by_speed, strict=True) if c.throttle > FELT), default=0.0),
        steady=all(_change(by_speed[0], replace(c, steer=by_speed[0].steer)) is None for c in by_speed),
        chance=_change(alone, stage.control(seed=SEEDS[1])) is not None,
    )  # fmt: skip


class _ProbeScene:
    """The moment's road with nobody on it."""

    def __init__(self, make: Callable[[], Agent], moment: InterviewFrame) -> None:
        self.make, self.moment = make, moment
        path = moment.road.path
        here = path.locate(moment.truth.ego.x, moment.truth.ego.y)[0]
        self.s = _straight(moment, here)

    def control(self, *actors: Actor, speed: float = SPEED, beside: float = 0.0, s: float | None = None,
                red: bool = False, seed: int = SEEDS[0]) -> Control:  # fmt: skip
        """With the ego at `s`, `beside` m to the left of its line."""
        at = self.s if s is None else s
        x, y, yaw = self.moment.road.path.pose(at, beside)
        ego = replace(self.moment.truth.ego, x=x, y=y, yaw=yaw, speed=speed, yaw_rate=0.0, ax=0.0, ay=0.0)
        state = SignalState.RED if red else SignalState.GREEN
        signals = {line.id: state for line in self.moment.road.stop_lines if line.control == "signal"}
        truth = replace(self.moment.truth, ego=ego, actors=actors, signals=signals, contacts=())
        return self.decide(truth, speed, seed)

    def decide(self, truth: GroundTruth, speed: float, seed: int = SEEDS[0]) -> Control:
        """Of a driver that has seen nothing before."""
        driver, moment = self.make(), self.moment
        driver.start("probe", seed)
        seen = replace(moment.observation, speed=speed)
        known = driver.privileged
        ask = DecisionRequest("probe", seen, truth if known else None, moment.road if known else None)
        decision = driver.decide([ask])[0]
        driver.end("probe")
        if decision.control is None:
            raise Ad2Error(f"{driver.name}: no control to observe: {decision.error or 'it answers in words'}")
        return decision.control.checked()

    def standing(self, kind: ActorKind) -> list[Actor]:
        """Where it is tried, each alone; who walks stands across the road."""
        turned = 90.0 if kind in (ActorKind.PEDESTRIAN, ActorKind.ANIMAL) else 0.0
        return [self.actor(kind, ahead, 0.0, turned, 0.0) for ahead in AHEAD_M]

    def actor(self, kind: ActorKind, ahead: float, left: float, turned: float, speed: float) -> Actor:
        x, y, yaw = self.moment.road.path.pose(self.s + ahead, left)
        return Actor("probe", kind, x, y, yaw + math.radians(turned), speed, *SIZES[kind])

    def obeys_lights(self) -> bool | None:
        """Whether a red light 15 m ahead changes anything."""
        line = next((x for x in self.moment.road.stop_lines if x.on_route and x.control == "signal"), None)
        if line is None or line.route_s is None:
            return None
        s = line.route_s - 15.0
        return _change(self.control(s=s), self.control(s=s, red=True)) is not None


def _straight(moment: InterviewFrame, here: float) -> float:
    """Where to try things: from the ego on, the place whose next 25 m bend least and have no stop line."""
    path = moment.road.path
    last = max(here, path.length - 40.0)
    places = [here + k * 5.0 for k in range(int((last - here) / 5.0) + 1)] or [here]
    lines = [x.route_s for x in moment.road.stop_lines if x.on_route and x.route_s is not None]

    def trouble(s: float) -> tuple[bool, float]:
        return any(s - 5.0 < at < s + 40.0 for at in lines), round(abs(path.bend(s, 25.0)), 2)

    return min(places, key=trouble)


def _first(changes: Iterable[Control | None]) -> Control | None:
    """The first change that there is."""
    return next((c for c in changes if c is not None), None)


def _change(before: Control, after: Control) -> Control | None:
    gaps = (after.steer - before.steer, after.throttle - before.throttle, after.brake - before.brake)
    return after if max(map(abs, gaps)) > FELT else None


REACH_M = 60.0
MOST, UNSEEN = 6, 3  # road users that are named, seen and not seen
NEAR = " or ".join(f"{m:g}" for m in AHEAD_M)
LOOKED: Mapping[Stage, str] = {
    "perception": f"observed: its controls at {SPEED:g} m/s on the empty road, and with somebody {NEAR} m ahead",
    "prediction": "observed: its controls with somebody who is about to get into its way",
    "planning": "observed: its control now, and on the empty road at several speeds",
}


class ObservedInterviewee:
    """`spec`: the driver as --agent names it. `agent`: one of it, for its name."""

    source: Literal["said", "observed"] = "observed"

    def __init__(self, spec: str, agent: Agent) -> None:
        self.spec, self.agent = spec, agent

    def describe(self) -> dict[str, Any]:
        return {**self.agent.describe(), "spec": self.spec, "kind": "driver without words, observed"}

    def tell(self, scenes: Sequence[Sequence[InterviewFrame]]) -> list[list[StageAnswer]]:
        """See Teller.tell. The last frame is the one that is tried."""
        return [self._one(moments[-1]) for moments in scenes]

    def _one(self, moment: InterviewFrame) -> list[StageAnswer]:
        found = probe(lambda: make_agent(self.spec), moment)
        texts: dict[Stage, str] = {
            "perception": _perception(found, moment),
            "prediction": _prediction(found, moment),
            "planning": _planning(found, moment),
        }
        return [StageAnswer(stage=stage, question=LOOKED[stage], text=text) for stage, text in texts.items()]


# -- perception --------------------------------------------------------------------------------------------------------


def _perception(found: ProbeResults, moment: InterviewFrame) -> str:
    sees = [name for name, control in found.sees.items() if control is not None]
    blind = [name for name, control in found.sees.items() if control is None]
    if sees:
        told = [f"It sees {_list(sees)} in its lane."]
        told += [f"It does not look at {_list(blind, 'or')}."] if blind else []
        told.append(_around([a for a in moment.truth.actors if _class(a) in sees], moment))
    else:
        told = [f"It looks at nobody: with {_list(blind, 'or')} {NEAR} m ahead in its lane it does the same."]
    unseen = _nearest([a for a in moment.truth.actors if _class(a) in blind], moment)[:UNSEEN]
    told += [f"It does not look at {_placed(*one, moment)}." for one in unseen]
    if found.lights is not None:
        told.append("It obeys the traffic lights." if found.lights else "It does not look at traffic lights.")
    told.append("It follows the line of its lane." if found.line else "It does not look at the lane.")
    told.append("It does not look at weather or darkness.")
    return " ".join(told)


def _around(actors: Sequence[Actor], moment: InterviewFrame) -> str:
    seen = _nearest(actors, moment)
    if not seen:
        return "Nobody is near."
    told = [_placed(a, forward, left, moment) for a, forward, left in seen[:MOST]]
    more = f", and {len(seen) - MOST} more" if len(seen) > MOST else ""
    return f"In view: {'; '.join(told)}{more}."


def _nearest(actors: Sequence[Actor], moment: InterviewFrame) -> list[tuple[Actor, float, float]]:
    """(who, metres ahead, metres to the left), the nearest first, within REACH_M."""
    ego = moment.truth.ego
    placed = [(a, *to_ego(a.x, a.y, ego.x, ego.y, ego.yaw)) for a in actors]
    return sorted((p for p in placed if math.hypot(*p[1:]) < REACH_M), key=lambda p: math.hypot(*p[1:]))


def _placed(actor: Actor, forward: float, left: float, moment: InterviewFrame) -> str:
    where = f"{abs(forward):.0f} m {'ahead' if forward > 0 else 'back'}"
    width = moment.road.lane_width
    beside = "in its lane" if abs(left) < width / 2 else f"{abs(left):.0f} m to the {'left' if left > 0 else 'right'}"
    pace = "standing" if abs(actor.speed) < 0.3 else f"at {abs(actor.speed):.0f} m/s"
    kind = actor.kind.value
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} {where} {beside}, {pace}"


def _class(actor: Actor) -> str:
    """The probe that stands for it."""
    if actor.kind in PEDESTRIANS:
        return "pedestrians"
    if actor.kind in STATIC:
        return "things on the road"
    if actor.kind is ActorKind.ANIMAL:
        return "animals"
    return "cyclists" if actor.kind in (ActorKind.BICYCLE, ActorKind.MOTORCYCLE) else "vehicles"


# -- prediction and planning -------------------------------------------------------------------------------------------


def _prediction(found: ProbeResults, moment: InterviewFrame) -> str:
    minds = [name for name, control in found.foresees.items() if control is not None]
    not_minded = [name for name, control in found.foresees.items() if control is None]
    told = [f"It reacts to {_list(minds)}."] if minds else ["It expects nothing of others."]
    told += [f"It does not react to {name}." for name in not_minded]
    moving = [a for a in moment.truth.actors if abs(a.speed) > 0.5 and found.sees.get(_class(a)) is not None]
    told.append(_around(moving, moment).replace("In view:", "Moving now:") if moving else "Nobody moves near it now.")
    return " ".join(told)


def _planning(found: ProbeResults, moment: InterviewFrame) -> str:
    limit = moment.road.speed_limit
    told = [f"At this moment: {_words(found.now)}."]
    if found.chance:
        told.append("What it does is a matter of chance.")
    if found.steady and found.top > 0:
        told.append("Its pedals stay the same at every speed.")
    elif found.top > 0:
        told.append(f"On an empty road it accelerates up to about {found.top:.0f} m/s (the limit is {limit:.0f} m/s)"
                    " and then keeps the speed.")  # fmt: skip
    else:
        told.append("On an empty road it does not accelerate either; it stays where it is.")
    told.append(_way(found, moment))
    braking = [name for name, c in found.sees.items() if c is not None and c.brake > found.alone.brake + 0.02]
    if braking:
        told.append(f"For {_list(braking)} in its lane it brakes.")
    elif found.top > 0:
        told.append("It does not brake for anybody.")
    return " ".join(told)


def _way(found: ProbeResults, moment: InterviewFrame) -> str:
    """Where its route leads; a driver that does not steer goes straight on."""
    site = site_of("", moment.route, moment.road)
    if not found.line:
        return "It does not steer along its route."
    bend = moment.road.path.bend(site.crossing[0], site.crossing[1] - site.crossing[0]) if site.crossing else 0.0
    if abs(bend) > 0.6:
        return f"At the junction it will turn {'left' if bend > 0 else 'right'} with its route."
    return "It will go straight on through the junction." if site.crossing else "It will go on along the road."


def _words(control: Control) -> str:
    said = [f"throttle {control.throttle:.1f}" if control.throttle > 0.02 else "",
            f"brake {control.brake:.1f}" if control.brake > 0.02 else "",
            f"wheel {'right' if control.steer > 0 else 'left'} {abs(control.steer):.2f}"
            if abs(control.steer) > 0.02 else "wheel straight"]  # fmt: skip
    return ", ".join(filter(None, said))


def _list(items: Sequence[str], last: str = "and") -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"
