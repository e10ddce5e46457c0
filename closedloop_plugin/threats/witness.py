"""A driver without words as the target: a witness tells what it is observed to do, in the same three answers.

Everything said is derived: from probes of the driver (probes.py), and from what the moment's truth holds of the kinds
of road users that the probes found it to look at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.agents.make import make_agent
from closedloop_plugin.core.frames import to_ego
from closedloop_plugin.core.state import PEDESTRIANS, STATIC, Actor, Control, Kind
from closedloop_plugin.threats.base import Moment
from closedloop_plugin.threats.probes import AHEAD_M, SPEED, Findings, probe
from closedloop_plugin.threats.site import site_of
from closedloop_plugin.threats.transcript import Answer, Stage

REACH_M = 60.0
MOST, UNSEEN = 6, 3  # road users that are named, seen and not seen
NEAR = " or ".join(f"{m:g}" for m in AHEAD_M)
LOOKED: Mapping[Stage, str] = {
    "perception": f"observed: its controls at {SPEED:g} m/s on the empty road, and with somebody {NEAR} m ahead",
    "prediction": "observed: its controls with somebody who is about to get into its way",
    "planning": "observed: its control now, and on the empty road at several speeds",
}


class Witness:
    """`spec`: the driver as --agent names it. `agent`: one of it, for its name."""

    source: Literal["said", "observed"] = "observed"

    def __init__(self, spec: str, agent: Agent) -> None:
        self.spec, self.agent = spec, agent

    def describe(self) -> dict[str, Any]:
        return {**self.agent.describe(), "spec": self.spec, "kind": "driver without words, observed"}

    def tell(self, scenes: Sequence[Sequence[Moment]]) -> list[list[Answer]]:
        """See Teller.tell. The last frame is the one that is tried."""
        return [self._one(moments[-1]) for moments in scenes]

    def _one(self, moment: Moment) -> list[Answer]:
        found = probe(lambda: make_agent(self.spec), moment)
        texts: dict[Stage, str] = {
            "perception": _perception(found, moment),
            "prediction": _prediction(found, moment),
            "planning": _planning(found, moment),
        }
        return [Answer(stage=stage, question=LOOKED[stage], text=text) for stage, text in texts.items()]


# -- perception --------------------------------------------------------------------------------------------------------


def _perception(found: Findings, moment: Moment) -> str:
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


def _around(actors: Sequence[Actor], moment: Moment) -> str:
    seen = _nearest(actors, moment)
    if not seen:
        return "Nobody is near."
    told = [_placed(a, forward, left, moment) for a, forward, left in seen[:MOST]]
    more = f", and {len(seen) - MOST} more" if len(seen) > MOST else ""
    return f"In view: {'; '.join(told)}{more}."


def _nearest(actors: Sequence[Actor], moment: Moment) -> list[tuple[Actor, float, float]]:
    """(who, metres ahead, metres to the left), the nearest first, within REACH_M."""
    ego = moment.truth.ego
    placed = [(a, *to_ego(a.x, a.y, ego.x, ego.y, ego.yaw)) for a in actors]
    return sorted((p for p in placed if math.hypot(*p[1:]) < REACH_M), key=lambda p: math.hypot(*p[1:]))


def _placed(actor: Actor, forward: float, left: float, moment: Moment) -> str:
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
    if actor.kind is Kind.ANIMAL:
        return "animals"
    return "cyclists" if actor.kind in (Kind.BICYCLE, Kind.MOTORCYCLE) else "vehicles"


# -- prediction and planning -------------------------------------------------------------------------------------------


def _prediction(found: Findings, moment: Moment) -> str:
    minds = [name for name, control in found.foresees.items() if control is not None]
    not_minded = [name for name, control in found.foresees.items() if control is None]
    told = [f"It reacts to {_list(minds)}."] if minds else ["It expects nothing of others."]
    told += [f"It does not react to {name}." for name in not_minded]
    moving = [a for a in moment.truth.actors if abs(a.speed) > 0.5 and found.sees.get(_class(a)) is not None]
    told.append(_around(moving, moment).replace("In view:", "Moving now:") if moving else "Nobody moves near it now.")
    return " ".join(told)


def _planning(found: Findings, moment: Moment) -> str:
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


def _way(found: Findings, moment: Moment) -> str:
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
