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
    kind = draft.spec.adversary.value
    where = draft.where()
    due, by = draft.due()
    rest = draft.free("rest", covers.given(draft.spec.stays_s), "s", "the door stays open")
    draft.add(
        f"where = {where}",
        f'new Wheeled at place(where, parked("right", "{kind}", 0.35)), facing turned(where, 0), \\',
        f'    with kind "{kind}", with behavior OpenDoor(where, {due}, {by}, {rest})',
    )
    row = [gap for gap in (-9.5, 9.5) if not covers.in_junction(draft, gap, 4.6)]
    for gap in row:
        s = f"where {'+' if gap > 0 else '-'} {abs(gap):g}"
        draft.add(f'new Wheeled at place({s}, parked("right", "car", 0.0)), facing turned({s}, 0)')
    lend(draft, "where + 12")


def block(draft: ProgramDraft) -> None:
    """An obstacle in the lane that leaves after the ego has waited for it."""
    spec = draft.spec
    where = draft.where()
    due, by = draft.due()
    rest = draft.free("rest", covers.given(spec.stays_s), "s", "it stays after the ego has come to wait")
    draft.add(f"where = {where}")
    if spec.adversary in PIECES:
        _scattered(draft, f"{due}, {by}, {rest}")
    else:
        _vehicle(draft, f"where, {due}, {by}, {rest}")
    lend(draft, "where + 24")


def _vehicle(draft: ProgramDraft, moment: str) -> None:
    """A vehicle with its rear end at the meeting place. With an occluder it starts beside the lane and moves over."""
    spec, kind = draft.spec, draft.spec.adversary.value
    lamps = '{"siren", "hazard"}' if spec.adversary in covers.SERVICES else '{"hazard"}'
    middle = f"where + {body_size(kind)[0] / 2:g}"
    hidden = spec.occluder is not Occluder.NONE
    beside = f', alongside("{kind}"), accel=4.0, sideways=2.0' if hidden else ""
    draft.add(
        f"path = rail_at({middle}{beside})",
        f'new Wheeled at start_of(path), facing facing_of(path), with kind "{kind}", with lamps {lamps}, \\',
        f"    with rail path, with behavior Block({moment}{f', {PULL_OUT_M:g}' if hidden else ''})",
    )
    covers.beside(draft)


def _scattered(draft: ProgramDraft, moment: str) -> None:
    """Objects or an animal in the lane from the start; with an occluder they come out from behind it."""
    spec = draft.spec
    kind, pieces = PIECES[spec.adversary]
    one = len(pieces) == 1
    cls = "Walker" if spec.adversary is Adversary.ANIMAL else "Thing"
    there = "where" if one else "where + gap"
    begin = "0.0" if one else "d"
    if spec.occluder is not Occluder.NONE:
        begin = f'alongside("{spec.occluder.value}")'
    more = ("" if one else ", d") + (", walks_on=True" if spec.adversary is Adversary.ANIMAL else "")
    lines = (
        f'path = rail_across({there}, "right", d={begin})',
        f'new {cls} at start_of(path), facing facing_of(path), with kind "{kind}", with rail path, \\',
        f"    with behavior Obstruct({there}, {moment}{more})",
    )
    draft.add(*lines if one else (f"for gap, d in {pieces!r}:", *(f"    {line}" for line in lines)))
    covers.beside(draft)


def lend(draft: ProgramDraft, last: str) -> None:
    """Allow use of the oncoming lane if it is the only way past, and if the road behind is long enough."""
    site, spec = draft.site, draft.spec
    open_road = site.junction is None and spec.road is RoadKind.OPEN
    room = site.length_m - site.trigger_s - covers.given(spec.place.ahead_m).high
    if open_road and site.oncoming and not site.left and not site.right and room >= ROOM_TO_PASS_M:
        draft.add("", f"require monitor LendOncomingLane({last})")
