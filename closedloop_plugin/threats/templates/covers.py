"""Program lines for occluders: objects that hide an adversary at the edge of the road until late."""

from __future__ import annotations

from typing import Any

from closedloop_plugin.scenarios.looks import body_size, cover_size
from closedloop_plugin.threats.spec import Adversary, Occluder, ParameterRange, RoadKind
from closedloop_plugin.threats.templates.draft import ProgramDraft

SERVICES = frozenset({Adversary.POLICE, Adversary.AMBULANCE, Adversary.FIRETRUCK})
PROPS = {Occluder.CONTAINER: "static.prop.container", Occluder.ADVERTISEMENT: "static.prop.advertisement"}
ROW = ((-17.5, "car"), (-10.5, "car"), (-3.4, "van"), (4.2, "car"))  # parked cars: metres from the adversary, kind
FREE_M = 1.0  # between the end of an occluder and the adversary in front of it


def given(values: Any) -> ParameterRange:
    """A number that the behaviour requires; spec.clashes rejects specs without it."""
    assert isinstance(values, ParameterRange)
    return values


def breadth(cover: Occluder) -> float:
    """Width of an occluder in metres; 0 for none."""
    if cover is Occluder.NONE:
        return 0.0
    return body_size("van" if cover is Occluder.PARKED_CARS else cover.value)[1]


def at_edge(draft: ProgramDraft, side: str) -> None:
    """Add the spec's occluder at that edge of the road, so that it hides an adversary at `where`."""
    cover = draft.actor.occluder
    if cover is Occluder.NONE:
        return
    if cover is not Occluder.PARKED_CARS:
        _one(draft, f'parked("{side}", "{cover.value}")')
        return
    row = [(gap, kind) for gap, kind in ROW if gap == -3.4 or not in_junction(draft, gap, body_size(kind)[0])]
    items = ", ".join(f'({gap:g}, "{kind}")' for gap, kind in row)
    at = f"{draft.name('where')} + gap"
    draft.add(
        "",
        f"for gap, kind in ({items}{',' * (len(row) == 1)}):",
        f'    new Wheeled at place({at}, parked("{side}", kind)), facing turned({at}, 0), with kind kind',
    )


def beside(draft: ProgramDraft) -> None:
    """Add the spec's occluder to the right of the ego's lane."""
    if draft.actor.occluder is not Occluder.NONE:
        _one(draft, f'alongside("{draft.actor.occluder.value}")')


def _one(draft: ProgramDraft, d: str) -> None:
    cover = draft.actor.occluder
    long, wide = body_size(cover.value)
    at = draft.name("cover")
    draft.add("", f"{at} = {draft.name('where')} - {FREE_M + long / 2:g}")
    if cover not in PROPS:
        draft.add(f'new Wheeled at place({at}, {d}), facing turned({at}, 0), with kind "{cover.value}"')
        return
    high = cover_size(cover.value)[2]
    draft.add(
        f"new Thing at place({at}, {d}), facing turned({at}, 0), with fixed True, \\",
        f'    with blueprint "{PROPS[cover]}", with length {long:g}, with width {wide:g}, with height {high:g}',
    )


def in_junction(draft: ProgramDraft, gap: float, long: float) -> bool:
    """Whether a body of length `long`, `gap` metres from the meeting place, could be within 1 m of the junction."""
    site, ahead = draft.site, given(draft.actor.place.ahead_m)
    if site.crossing is None:
        return False
    start, end = site.crossing
    origin = end if draft.actor.road is RoadKind.JUNCTION else site.trigger_s
    return origin + ahead.high + gap + long / 2 > start - 1.0 and origin + ahead.low + gap - long / 2 < end + 1.0
