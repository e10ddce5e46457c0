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
    actor = draft.actor
    side, kind = actor.place.side.value, actor.adversary.value
    where = draft.where()
    due, by = draft.due()
    pace = draft.free("pace", covers.given(actor.speed_mps), "m/s", "across the road")
    cls = "Wheeled" if actor.adversary is Adversary.BICYCLE else "Walker"
    off = waiting_offset(actor.place.lane, actor.occluder)
    at, path = draft.name("where"), draft.name("path")
    draft.add(
        f"{at} = {where}",
        f'{path} = rail_across({at}, "{side}", {off:g})',
        f'new {cls} at start_of({path}), facing facing_of({path}), with kind "{kind}", with rail {path}, \\',
        f"    with behavior StepOut({at}, {due}, {by}, {pace}){draft.acts_as}",
    )
    covers.at_edge(draft, side)


def waiting_offset(lane: AdversaryLane, cover: Occluder) -> float:
    """Start of a crossing adversary in metres outside the last lane; on the pavement, behind the occluder."""
    return OFF[lane] if lane is AdversaryLane.ROADSIDE else max(OFF[lane], 0.4 + covers.breadth(cover) + BEYOND_COVER)


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
    given = covers.given(actor.speed_mps)
    fast_enough = ParameterRange(low=max(given.low, LEAST_MPS), high=max(given.high, LEAST_MPS))
    pace = draft.free("pace", fast_enough, "m/s", "over the junction, less in bends")
    siren = ', with lamps {"siren"}' if actor.adversary in covers.SERVICES else ""
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
