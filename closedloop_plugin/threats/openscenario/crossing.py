"""Writers of the behaviours in scenarios/actions_crossing.scenic: each adds the events of one actor to its story.

A writer has the arguments of its behaviour. What OpenSCENARIO cannot express is added to `story.missing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from closedloop_plugin.threats.openscenario.story import VERTICES, ActorStory

STEP_S = 0.05  # time step with which a move into the lane is computed
THERE_M = 0.3  # an object this close to its place is there


def step_out(
    story: ActorStory, where: float, due: float, kind: str, pace: float, accel: float = 6, lag: float = 0.0
) -> None:
    rail = story.rail
    line = story.trajectory(story.along_rail(rail.s, rail.path.length - 0.3))
    trigger = story.due(where, due, kind)
    if lag:
        trigger = story.after(story.event("seen", trigger, story.speed(0.0, accel)), lag)
    act = story.event("act", trigger, story.speed(pace, accel), line)
    story.event("end", story.completed(act), story.speed(0.0, rail.brake))


def run_junction(story: ActorStory, meet: tuple[float, float], pace: float, due: float, kind: str) -> None:
    rail, where = story.rail, meet[0]
    # The ego moves, or has come close: it does not drive into a junction before an ego that waits.
    trigger = [
        [*group, moving]
        for group in story.due(where, due, kind)
        for moving in (story.ego_faster(2.0), story.ego_within(where, 8.0, 0.0))
    ]
    line = story.trajectory(story.along_rail(rail.s, rail.path.length))
    act = story.event("act", trigger, story.speed(pace, rail.accel), line)
    story.event("end", story.completed(act), story.remove())
    story.miss(
        "slows down in bends",
        "adapts its speed to meet the ego, unless the ego gives way",
        "brakes for an ego that stands in its lane",
    )


def open_door(story: ActorStory, where: float, due: float, kind: str, rest: float) -> None:
    act = story.event("act", story.due(where, due, kind), story.door(True))
    story.event("end", story.after(act, rest), story.door(False))


def block(story: ActorStory, where: float, due: float, kind: str, rest: float, run: float = 0.0) -> None:
    act = ""
    if run:
        act = story.event(
            "act", story.near(where, due, kind), story.speed(5.0, story.rail.accel), _moving_in(story, run)
        )
        story.event("stop", story.completed(act), story.speed(0.0, story.rail.brake))
    lamps = story.lamps(story.actor.lamps, on=False)
    story.event("leave", story.waited(where, rest, act), *lamps, story.speed(8.0, story.rail.accel))
    story.miss("the ego's waiting times add up, and count below 0.5 m/s")


def obstruct(
    story: ActorStory, where: float, due: float, kind: str, rest: float, d: float = 0.0, pace: float = 3.0,
    walks_on: bool = False,
) -> None:  # fmt: skip
    rail, road = story.rail, story.scene.road
    there = rail.path.locate(*road.path.pose(where, d)[:2])[0]
    act = ""
    if there - rail.s > THERE_M:
        line = story.trajectory(story.along_rail(rail.s, there))
        act = story.event("act", story.near(where, due, kind), story.speed(pace, rail.accel), line)
        story.event("stop", story.completed(act), story.speed(0.0, rail.brake))
    left = story.waited(where, rest, act)
    if walks_on:
        line = story.trajectory(story.along_rail(max(there, rail.s), rail.path.length - 0.3))
        walk = story.event("leave", left, story.speed(pace, rail.accel), line)
        story.event("end", story.completed(walk), story.speed(0.0, rail.brake))
    else:
        story.event("leave", left, story.remove())
    story.miss("the ego's waiting times add up, and count below 0.5 m/s")


def _moving_in(story: ActorStory, run: float) -> Any:
    """The trajectory of a vehicle beside the lane that moves to its centre within `run` metres, from its Rail."""
    rail = replace(story.rail, d_wanted=0.0, stop_s=story.rail.s + run, speed=5.0, now=0.0)
    places = [(rail.s, rail.d)]
    for _ in range(400):
        rail.advance(STEP_S)
        places.append((rail.s, rail.d))
        if rail.now == 0.0:
            break
    poses = []
    for i in range(VERTICES):
        s = places[0][0] + (places[-1][0] - places[0][0]) * i / (VERTICES - 1)
        d = next((d for at, d in places if at >= s - 1e-9), places[-1][1])
        poses.append(rail.path.pose(s, d))
    return story.trajectory(poses)


WRITERS: Mapping[str, Callable[..., None]] = {
    "StepOut": step_out,
    "RunJunction": run_junction,
    "OpenDoor": open_door,
    "Block": block,
    "Obstruct": obstruct,
}
