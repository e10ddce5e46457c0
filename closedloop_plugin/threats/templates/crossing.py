"""Templates of adversaries that cross the ego's path, on the open road or in a junction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from closedloop_plugin.threats.spec import Adversary, AdversaryBehaviour, AdversaryLane, Occluder, ParameterRange
from closedloop_plugin.threats.templates import covers
from closedloop_plugin.threats.templates.draft import ProgramDraft
from closedloop_plugin.threats.templates.standing import block, open_door

OFF = {AdversaryLane.ROADSIDE: 1.4, AdversaryLane.PAVEMENT: 3.4}  # m outside the last lane, start of the adversary
LEAST_MPS = 2.0  # through the junction: slower ones would not pass before the end of the episode
BEYOND_COVER = 0.9  # m between the occluder and an adversary on the pavement behind it


def cross(draft: ProgramDraft) -> None:
    """A pedestrian, animal or bicycle crosses the road from its edge or from the pavement."""
    spec = draft.spec
    side, kind = spec.place.side.value, spec.adversary.value
    where = draft.where()
    due, by = draft.due()
    pace = draft.free("pace", covers.given(spec.speed_mps), "m/s", "across the road")
    cls = "Wheeled" if spec.adversary is Adversary.BICYCLE else "Walker"
    off = waiting_offset(spec.place.lane, spec.occluder)
    draft.add(
        f"where = {where}",
        f'path = rail_across(where, "{side}", {off:g})',
        f'new {cls} at start_of(path), facing facing_of(path), with kind "{kind}", with rail path, \\',
        f"    with behavior StepOut(where, {due}, {by}, {pace})",
    )
    covers.at_edge(draft, side)


def waiting_offset(lane: AdversaryLane, cover: Occluder) -> float:
    """Start of a crossing adversary in metres outside the last lane; on the pavement, behind the occluder."""
    return OFF[lane] if lane is AdversaryLane.ROADSIDE else max(OFF[lane], 0.4 + covers.breadth(cover) + BEYOND_COVER)


def run_light(draft: ProgramDraft) -> None:
    """A vehicle crosses the junction without right of way."""
    draft.add(f'line, meet = line_over("{draft.spec.place.side.value}")')
    _through_junction(draft)


def turn_across(draft: ProgramDraft) -> None:
    """A vehicle from the far arm turns across the ego's path."""
    draft.add("line, meet = line_across()")
    _through_junction(draft)


def _through_junction(draft: ProgramDraft) -> None:
    spec = draft.spec
    due, by = draft.due()
    given = covers.given(spec.speed_mps)
    fast_enough = ParameterRange(low=max(given.low, LEAST_MPS), high=max(given.high, LEAST_MPS))
    pace = draft.free("pace", fast_enough, "m/s", "over the junction, less in bends")
    siren = ', with lamps {"siren"}' if spec.adversary in covers.SERVICES else ""
    draft.add(
        f"path = rail_before(line, meet, {pace}, {due}, {by})",
        f'new Wheeled at start_of(path), facing facing_of(path), with kind "{spec.adversary.value}"{siren}, \\',
        f"    with rail path, with behavior RunJunction(meet, {pace}, {due}, {by})",
    )


TEMPLATES: Mapping[AdversaryBehaviour, Callable[[ProgramDraft], None]] = {
    AdversaryBehaviour.CROSS: cross,
    AdversaryBehaviour.RUN_LIGHT: run_light,
    AdversaryBehaviour.TURN_ACROSS: turn_across,
    AdversaryBehaviour.OPEN_DOOR: open_door,
    AdversaryBehaviour.BLOCK: block,
}
