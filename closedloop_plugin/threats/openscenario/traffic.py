"""Writers of the behaviours in scenarios/actions_traffic.scenic: each adds the events of one actor to its story.

A writer has the arguments of its behaviour. What OpenSCENARIO cannot express is added to `story.missing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from closedloop_plugin.threats.openscenario.story import CRUISE, ActorStory

PATIENCE_S = 6.0  # of an emergency vehicle behind the ego
IN_LANE_M = 0.3  # lateral offset below which an oncoming vehicle is in the ego's lane
FOLLOWED = "keeps a time gap only (not the fixed part of its distance), until the ego is due"


def brake_hard(story: ActorStory, where: float, due: float, kind: str, rest: float) -> None:
    top = 0.8 * story.scene.road.speed_limit
    if kind == "time":
        _lead(story, top, seconds=min(due, 1.5))
    else:
        _lead(story, top, metres=min(due, 20.0))
    act = story.event("act", story.due(where, due, kind), story.speed(0.0, 7.5))
    story.event("resume", story.completed(act, rest), story.drive_on())


def slow_down(story: ActorStory, where: float, due: float, kind: str, pace: float, lasts: float = 6.0) -> None:
    _lead(story, story.scene.usual, seconds=1.4)
    slow = story.event("slow", story.due(where, due, kind), story.speed(pace, 2.2))
    story.event("resume", story.after(slow, lasts), story.drive_on())


def slow_ahead(story: ActorStory, where: float, due: float, kind: str, pace: float, stays: float) -> None:
    rail = story.rail
    _approach(story, where, due, kind, pace)
    act = story.event("act", story.near(where, due, kind), story.speed(pace, rail.accel))
    if story.actor.kind == "bicycle":
        aside = -((story.scene.lanes("right") + 0.5) * story.scene.road.lane_width + 1.6)
        story.event("leave", story.after(act, stays), story.shift(aside), story.speed(max(pace, 3.0), rail.accel))
        story.miss("stops 30 m after it has left the road")
    else:
        story.event("resume", story.after(act, stays), story.drive_on())


def swerve_away(story: ActorStory, where: float, due: float, kind: str, pace: float) -> None:
    rail, long = story.rail, story.actor.length
    _lead(story, pace, seconds=0.6)
    # It must swerve at the latest when its front is 12 m before the object plus 0.35 s of its own motion.
    must = [story.actor_time_to(where - 12.0, 0.35)]
    right = story.scene.lanes("right") > 0
    back = story.change_lane(1, story.actor.name) if right else story.shift(0.0)
    aside = story.change_lane(-1, story.actor.name) if right else story.shift(-(story.actor.width / 2 + 1.65))
    act = story.event(
        "act",
        [*story.due(where, due, kind), must],
        aside,
        story.speed(max(pace, 4.0), rail.accel),
        story.lamp("right", True),
    )
    story.event("resume", story.after(act, 6.0), back, story.lamp("right", False), story.drive_on())
    story.miss(
        f"stays aside until it is {14 + long / 2:.0f} m beyond the object and clear of the ego (6 s in the file)",
        "keeps the speed that it has when it swerves (its highest in the file)",
    )


def stand_hidden(story: ActorStory, where: float, stays: float) -> None:
    acting = story.scene.acting
    if acting is None:
        story.miss("leaves after the scenario's action, which no actor of the program has")
        return
    _, due, kind = acting.arguments[:3]
    seconds = due if kind == "time" else due / (CRUISE * story.scene.road.speed_limit)
    left = story.after(f"{acting.name}_act", min(max(seconds, 0.0), 6.0) + stays)
    if story.actor.rail is None:
        story.event("leave", left, story.remove())
    else:
        lamps = story.lamps(story.actor.lamps, on=False)
        story.event("leave", left, *lamps, story.drive_on())
    story.miss("stays longer while the ego is beside it", "counts from the arrival of an ego at constant speed")


def cut_in(story: ActorStory, where: float, due: float, kind: str, pace: float, side: int, crawl: float = 5.0) -> None:
    lamp = "right" if side > 0 else "left"
    _approach(story, where, due, kind, pace)
    lane = story.change_lane(0, story.scene.ego.name)
    act = story.event(
        "act", story.due(where, due, kind), lane, story.speed(pace, story.rail.accel), story.lamp(lamp, True)
    )
    story.event("resume", story.after(act, crawl), story.lamp(lamp, False), story.drive_on())


def oncoming(story: ActorStory, where: float, due: float, kind: str, pace: float, over: float = 0.0) -> None:
    rail = story.rail
    meet = story.synchronize(where, where, rail.d, pace)
    if abs(rail.d - over) < IN_LANE_M:  # in the ego's lane from the start, against its direction
        story.event("approach", story.started(), meet, story.trajectory(story.along_rail(rail.s, 0.0)))
        moves = []
    else:
        story.event("approach", story.started(), meet)
        moves = [story.change_lane(0, story.scene.ego.name, over)]
    act = story.event("act", story.due(where, due, kind), story.speed(pace, rail.accel), *moves)
    yielding = [story.ego_slower(2.0), story.ego_closer(45.0), *story.completed(act)[0]]
    story.event("brake", [yielding], story.speed(0.0, 7.5))
    story.miss(
        "returns to its own lane if the ego brakes, and reverses if both stand face to face",
        "is removed 60 m behind the ego",
    )


def tailgate(story: ActorStory, where: float, due: float, kind: str, gap: float, late: float) -> None:
    top = 1.2 * story.scene.road.speed_limit
    story.event("follow", story.at_start(), story.keep_gap(ahead=False, metres=gap, top=top, brake=4.0))
    close = [[*group, story.ego_closer(gap + 2.0)] for group in story.due(where, due, kind)]
    act = story.event("act", close, story.keep_gap(ahead=False, metres=gap, top=top, brake=4.0))
    story.event("resume", story.after(act, 8.0), story.drive_on())
    story.miss("reacts late to the ego's speed")


def pass_with_siren(story: ActorStory, where: float, due: float, kind: str, pace: float, back: float) -> None:
    scene = story.scene
    free = back - scene.ego.length / 2 - story.actor.length / 2
    story.event("follow", story.at_start(), story.keep_gap(ahead=False, metres=free, top=pace))
    act = story.event(
        "act", story.due(where, due, kind), story.speed(pace, story.rail.accel), story.lamp("siren", True),
        *scene.signals(route="green", cross="red"),
    )  # fmt: skip
    story.event("pass", story.after(act, PATIENCE_S), story.change_lane(1, story.actor.name))
    story.miss(
        "passes within the lane if the ego makes way, and returns to the lane afterwards",
        f"passes on the left once the ego has held it up for 3 to 6 s (in the file {PATIENCE_S:g} s after the siren)",
        "an ego that has not given way is an infraction (yield failed)",
    )


def _lead(story: ActorStory, top: float, *, metres: float | None = None, seconds: float | None = None) -> None:
    story.event("lead", story.at_start(), story.keep_gap(ahead=True, metres=metres, seconds=seconds, top=top))
    if seconds is not None:
        story.miss(FOLLOWED)
    story.miss("while ahead: slower in bends and at red lights, and waits for an ego that falls back")


def _approach(story: ActorStory, where: float, due: float, kind: str, pace: float) -> None:
    """Its rear is at `where` when the ego is due. By time: `due` seconds later, when the ego is at `where`, it has
    driven on at `pace`; by distance: the ego's front is then `due` before `where`."""
    s = where + story.actor.length / 2
    if kind == "time":
        action = story.synchronize(where, s + pace * due, story.rail.d, pace)
    else:
        action = story.synchronize(where - due, s, story.rail.d, pace)
    story.event("approach", story.started(), action)


WRITERS: Mapping[str, Callable[..., None]] = {
    "BrakeHard": brake_hard,
    "SlowDown": slow_down,
    "SlowAhead": slow_ahead,
    "SwerveAway": swerve_away,
    "StandHidden": stand_hidden,
    "CutIn": cut_in,
    "Oncoming": oncoming,
    "Tailgate": tailgate,
    "PassWithSiren": pass_with_siren,
}
