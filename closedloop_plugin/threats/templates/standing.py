"""Templates of obstacles in the ego's lane, and of doors that open into it."""

from __future__ import annotations

from closedloop_plugin.scenarios.looks import body_size
from closedloop_plugin.threats.spec import Adversary, Occluder, RoadKind
from closedloop_plugin.threats.templates import covers
from closedloop_plugin.threats.templates.draft import ProgramDraft

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
    rest = draft.free("rest", covers.given(draft.actor.stays_s), "s", "the door stays open")
    at = draft.name("where")
    draft.add(
        f"{at} = {where}",
        f'new Wheeled at place({at}, parked("right", "{kind}", 0.35)), facing turned({at}, 0), \\',
        f'    with kind "{kind}", with behavior OpenDoor({at}, {due}, {by}, {rest}){draft.acts_as}',
    )
    row = [gap for gap in (-9.5, 9.5) if not covers.in_junction(draft, gap, 4.6)]
    for gap in row:
        s = f"{at} {'+' if gap > 0 else '-'} {abs(gap):g}"
        draft.add(f'new Wheeled at place({s}, parked("right", "car", 0.0)), facing turned({s}, 0)')
    lend(draft, f"{at} + 12")


def block(draft: ProgramDraft) -> None:
    """An obstacle in the lane that leaves after the ego has waited for it."""
    actor = draft.actor
    where = draft.where()
    due, by = draft.due()
    rest = draft.free("rest", covers.given(actor.stays_s), "s", "it stays after the ego has come to wait")
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
    lamps = '{"siren", "hazard"}' if actor.adversary in covers.SERVICES else '{"hazard"}'
    middle, path = f"{draft.name('where')} + {body_size(kind)[0] / 2:g}", draft.name("path")
    hidden = actor.occluder is not Occluder.NONE
    beside = f', alongside("{kind}"), accel=4.0, sideways=2.0' if hidden else ""
    draft.add(
        f"{path} = rail_at({middle}{beside})",
        f'new Wheeled at start_of({path}), facing facing_of({path}), with kind "{kind}", with lamps {lamps}, \\',
        f"    with rail {path}, with behavior Block({moment}{f', {PULL_OUT_M:g}' if hidden else ''}){draft.acts_as}",
    )
    covers.beside(draft)


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
    covers.beside(draft)


def lend(draft: ProgramDraft, last: str) -> None:
    """Allow use of the oncoming lane if it is the only way past, and if the road behind is long enough."""
    site, actor = draft.site, draft.actor
    open_road = site.junction is None and actor.road is RoadKind.OPEN
    room = site.length_m - site.trigger_s - covers.given(actor.place.ahead_m).high
    if open_road and site.oncoming and not site.left and not site.right and room >= ROOM_TO_PASS_M:
        draft.add("", f"require monitor LendOncomingLane({last})")
