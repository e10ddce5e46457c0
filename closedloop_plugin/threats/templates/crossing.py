"""Templates of adversaries that cross the ego's path, on the open road or in a junction, of obstacles in its lane, and
of doors that open into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from closedloop_plugin.scenarios.looks import body_size
from closedloop_plugin.threats.spec import (
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    Occluder,
    ParameterRange,
    RoadKind,
)
from closedloop_plugin.threats.templates.draft import (
    SERVICES,
    ProgramDraft,
    at_edge,
    beside,
    breadth,
    given,
    in_junction,
)

ROOM_TO_PASS_M = 30.0  # road needed behind an obstacle to pass it in the oncoming lane
PULL_OUT_M = 8.0  # length of the move from beside the ego's lane into it, along the road
# Pieces of scattered obstacles: kind, (metres along the road, metres to the left of the lane's centre).
PIECES = {
    Adversary.CONES: ("cone", ((0.0, -1.2), (1.3, -0.4), (2.6, 0.4), (3.9, 1.2))),
    Adversary.DEBRIS: ("debris", ((0.0, -0.7), (0.9, 0.6), (2.0, -0.1))),
    Adversary.BARRIER: ("barrier", ((0.0, 0.0),)),
    Adversary.ANIMAL: ("animal", ((0.0, 0.0),)),
}


def open_door(draft: ProgramDraft) -> None:
    """A vehicle parked at the right edge, slightly inside the lane; parked cars before and behind if there is room."""
    kind = draft.actor.adversary.value
    where = draft.where()
    due, by = draft.due()
    rest = draft.free("rest", given(draft.actor.stays_s), "s", "the door stays open")
    at = draft.name("where")
    draft.add(
        f"{at} = {where}",
        f'new Wheeled at place({at}, parked("right", "{kind}", 0.35)), facing turned({at}, 0), \\',
        f'    with kind "{kind}", with behavior OpenDoor({at}, {due}, {by}, {rest}){draft.acts_as}',
    )
    row = [gap for gap in (-9.5, 9.5) if not in_junction(draft, gap, 4.6)]
    for gap in row:
        s = f"{at} {'+' if gap > 0 else '-'} {abs(gap):g}"
        draft.add(f'new Wheeled at place({s}, parked("right", "car", 0.0)), facing turned({s}, 0)')
    lend(draft, f"{at} + 12")


def block(draft: ProgramDraft) -> None:
    """An obstacle in the lane that leaves after the ego has waited for it."""
    actor = draft.actor
    where = draft.where()
    due, by = draft.due()
    rest = draft.free("rest", given(actor.stays_s), "s", "it stays after the ego has come to wait")
    at = draft.name("where")
    draft.add(f"{at} = {where}")
    if actor.adversary in PIECES:
        _scattered(draft, f"{due}, {by}, {rest}")
    else:
        _vehicle(draft, f"{at}, {due}, {by}, {rest}")
    lend(draft, f"{at} + 24")


def _vehicle(draft: ProgramDraft, moment: str) -> None:
    """A vehicle with its rear end at the meeting place. With an occluder it starts beside the lane and moves over."""
    actor, kind = draft.actor, draft.actor.adversary.value
    lamps = '{"siren", "hazard"}' if actor.adversary in SERVICES else '{"hazard"}'
    middle, path = f"{draft.name('where')} + {body_size(kind)[0] / 2:g}", draft.name("path")
    hidden = actor.occluder is not Occluder.NONE
    aside = f', alongside("{kind}"), accel=4.0, sideways=2.0' if hidden else ""
    draft.add(
        f"{path} = rail_at({middle}{aside})",
        f'new Wheeled at start_of({path}), facing facing_of({path}), with kind "{kind}", with lamps {lamps}, \\',
        f"    with rail {path}, with behavior Block({moment}{f', {PULL_OUT_M:g}' if hidden else ''}){draft.acts_as}",
    )
    beside(draft)


def _scattered(draft: ProgramDraft, moment: str) -> None:
    """Objects or an animal in the lane from the start; with an occluder they come out from behind it."""
    actor = draft.actor
    kind, pieces = PIECES[actor.adversary]
    one = len(pieces) == 1
    cls = "Walker" if actor.adversary is Adversary.ANIMAL else "Thing"
    at, path = draft.name("where"), draft.name("path")
    there = at if one else f"{at} + gap"
    begin = "0.0" if one else "d"
    if actor.occluder is not Occluder.NONE:
        begin = f'alongside("{actor.occluder.value}")'
    more = ("" if one else ", d") + (", walks_on=True" if actor.adversary is Adversary.ANIMAL else "")
    lines = (
        f'{path} = rail_across({there}, "right", d={begin})',
        f'new {cls} at start_of({path}), facing facing_of({path}), with kind "{kind}", with rail {path}, \\',
        f"    with behavior Obstruct({there}, {moment}{more}){draft.acts_as}",
    )
    draft.add(*lines if one else (f"for gap, d in {pieces!r}:", *(f"    {line}" for line in lines)))
    beside(draft)


def lend(draft: ProgramDraft, last: str) -> None:
    """Allow use of the oncoming lane if it is the only way past, and if the road behind is long enough."""
    site, actor = draft.site, draft.actor
    open_road = site.junction is None and actor.road is RoadKind.OPEN
    room = site.length_m - site.trigger_s - given(actor.place.ahead_m).high
    if open_road and site.oncoming and not site.left and not site.right and room >= ROOM_TO_PASS_M:
        draft.add("", f"require monitor LendOncomingLane({last})")


OFF = {AdversaryLane.ROADSIDE: 1.4, AdversaryLane.PAVEMENT: 3.4}  # m outside the last lane, start of the adversary
LEAST_MPS = 2.0  # through the junction: slower ones would not pass before the end of the episode
BEYOND_COVER = 0.9  # m between the occluder and an adversary on the pavement behind it


def cross(draft: ProgramDraft) -> None:
    """A pedestrian, animal or bicycle crosses the road from its edge or from the pavement."""
    actor = draft.actor
    side, kind = actor.place.side.value, actor.adversary.value
    where = draft.where()
    due, by = draft.due()
    pace = draft.free("pace", given(actor.speed_mps), "m/s", "across the road")
    cls = "Wheeled" if actor.adversary is Adversary.BICYCLE else "Walker"
    off = waiting_offset(actor.place.lane, actor.occluder)
    at, path = draft.name("where"), draft.name("path")
    draft.add(
        f"{at} = {where}",
        f'{path} = rail_across({at}, "{side}", {off:g})',
        f'new {cls} at start_of({path}), facing facing_of({path}), with kind "{kind}", with rail {path}, \\',
        f"    with behavior StepOut({at}, {due}, {by}, {pace}){draft.acts_as}",
    )
    at_edge(draft, side)


def waiting_offset(lane: AdversaryLane, cover: Occluder) -> float:
    """Start of a crossing adversary in metres outside the last lane; on the pavement, behind the occluder."""
    return OFF[lane] if lane is AdversaryLane.ROADSIDE else max(OFF[lane], 0.4 + breadth(cover) + BEYOND_COVER)


def run_light(draft: ProgramDraft) -> None:
    """A vehicle crosses the junction without right of way."""
    line, meet = draft.name("line"), draft.name("meet")
    draft.add(f'{line}, {meet} = line_over("{draft.actor.place.side.value}")')
    _through_junction(draft)


def turn_across(draft: ProgramDraft) -> None:
    """A vehicle from the far arm turns across the ego's path."""
    draft.add(f"{draft.name('line')}, {draft.name('meet')} = line_across()")
    _through_junction(draft)


def _through_junction(draft: ProgramDraft) -> None:
    actor = draft.actor
    due, by = draft.due()
    speed = given(actor.speed_mps)
    fast_enough = ParameterRange(low=max(speed.low, LEAST_MPS), high=max(speed.high, LEAST_MPS))
    pace = draft.free("pace", fast_enough, "m/s", "over the junction, less in bends")
    siren = ', with lamps {"siren"}' if actor.adversary in SERVICES else ""
    path, line, meet = draft.name("path"), draft.name("line"), draft.name("meet")
    draft.add(
        f"{path} = rail_before({line}, {meet}, {pace}, {due}, {by})",
        f'new Wheeled at start_of({path}), facing facing_of({path}), with kind "{actor.adversary.value}"{siren}, \\',
        f"    with rail {path}, with behavior RunJunction({meet}, {pace}, {due}, {by}){draft.acts_as}",
    )


TEMPLATES: Mapping[AdversaryBehaviour, Callable[[ProgramDraft], None]] = {
    AdversaryBehaviour.CROSS: cross,
    AdversaryBehaviour.RUN_LIGHT: run_light,
    AdversaryBehaviour.TURN_ACROSS: turn_across,
    AdversaryBehaviour.OPEN_DOOR: open_door,
    AdversaryBehaviour.BLOCK: block,
}
