"""Templates of vehicles that drive beside, ahead of, behind or towards the ego.

Speeds are clipped to the range in which the behaviour is a threat: a vehicle that cuts in or drives slowly is slower
than a cruising ego, an emergency vehicle faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    AdversarySide,
    Occluder,
    ParameterRange,
)
from closedloop_plugin.threats.templates.draft import ProgramDraft, given

CRUISE = 0.65  # speed of a careful driver, as a share of the speed limit
BICYCLE_TOP = 6.0  # m/s
COVER_STARTS = {
    Occluder.VAN: 9.0,
    Occluder.TRUCK: 10.5,
    Occluder.BUS: 12.5,
}  # m ahead of the ego
OVER, OVER_WHAT = ParameterRange(low=0.8, high=1.4), "of its middle to the left of the ego lane's"
SLOW_WHAT = "to which the car ahead slows gently"
THINGS = {Adversary.DEBRIS: "debris", Adversary.BARRIER: "barrier", Adversary.CONES: "cone"}


def brake_hard(draft: ProgramDraft) -> None:
    at, lead = _where(draft), draft.name("lead")
    due, kind = draft.due()
    rest = draft.free("rest", given(draft.actor.stays_s), "s", "at a standstill")
    draft.add(f"{lead} = rail_at(15, accel=3.0)")
    _vehicle(draft, lead, f"BrakeHard({at}, {due}, {kind}, {rest})")


def slow_ahead(draft: ProgramDraft) -> None:
    at, slow = _where(draft), draft.name("slow")
    due, kind = draft.due()
    pace = _pace(draft, 0.5, 0.6 * _cruise(draft.site), "as slowly as it goes")
    stays = draft.free("stays", given(draft.actor.stays_s), "s", "so slowly")
    aside = ", -0.2 * width" if draft.actor.adversary is Adversary.BICYCLE else ""
    draft.add(f"{slow} = rail_at(short_of({at}, 2 * {pace}){aside}, accel=2.0)")
    _vehicle(draft, slow, f"SlowAhead({at}, {due}, {kind}, {pace}, {stays})")


def cut_in(draft: ProgramDraft) -> None:
    at, cutter = _where(draft), draft.name("cutter")
    due, kind = draft.due()
    pace = _pace(draft, 3.0, 0.7 * _cruise(draft.site), "of who cuts in, for the first seconds")
    side = 1 if draft.actor.place.side is AdversarySide.LEFT else -1
    if draft.actor.place.lane is AdversaryLane.ROADSIDE:
        place = f"{at} + 3, roadside({side})"
    else:
        place = f"short_of({at}, 1.5 * {pace}), stage.lane({side})"
    draft.add(f"{cutter} = rail_at({place}, accel=2.5, sideways=1.8)")
    _vehicle(draft, cutter, f"CutIn({at}, {due}, {kind}, {pace}, {side})")


def oncoming(draft: ProgramDraft) -> None:
    """A vehicle against the ego, in its lane; in the oncoming lane, if others act too."""
    at, start, against = _where(draft), draft.name("start"), draft.name("against")
    due, kind = draft.due()
    pace = _pace(draft, 4.0, 16.0, "of who comes")
    seconds = due if kind == '"time"' else f"{due} / {_cruise(draft.site):.1f}"
    draft.add(f"{start} = further({at}, {pace} * ({seconds} + 2))")
    if draft.actor.place.lane is AdversaryLane.ONCOMING:
        over = "oncoming_lane()" if not draft.alone else draft.free("over", OVER, "m", OVER_WHAT)
        draft.add(f"{against} = rail_at({start}, oncoming_lane(), direction=-1, accel=4.0, sideways=3.0)")
    else:
        over = "0"
        draft.add(f"{against} = rail_at({start}, direction=-1, accel=4.0, sideways=3.0)")
    _vehicle(draft, against, f"Oncoming({at}, {due}, {kind}, {pace}, {over})")


def tailgate(draft: ProgramDraft) -> None:
    """A follower, and a car ahead that gives the ego a reason to slow down, unless another actor does."""
    at, follower = _where(draft), draft.name("follower")
    due, kind = draft.due()
    gap = draft.free("gap", ParameterRange(low=2.5, high=4.5), "m", "between the follower and the ego")
    late = draft.free("late", ParameterRange(low=0.35, high=0.6), "s", "the follower's reaction time")
    slow = draft.free("slow", ParameterRange(low=2.5, high=4.5), "m/s", SLOW_WHAT) if draft.alone else ""
    draft.add(f"{follower} = rail_at(-13, accel=4.0)")
    _vehicle(draft, follower, f"Tailgate({at}, {due}, {kind}, {gap}, {late})")
    if draft.alone:
        draft.add("", "lead = rail_at(22, accel=3.0)")
        _vehicle(draft, "lead", f"SlowDown(where, {due}, {kind}, {slow})", kind="car")


def hidden_stop(draft: ProgramDraft) -> None:
    actor = draft.actor
    at, cover, hidden = draft.name("where"), draft.name("cover"), draft.name("hidden")
    draft.add(f"{at} = at_least({draft.where()}, 32)")
    due, kind = draft.due()
    pace = _pace(draft, 3.0, _cruise(draft.site) + 3.0, "of what hides it, at most")
    stays = draft.free("stays", given(actor.stays_s), "s", "until the lane is free again")
    draft.add(f"{cover} = rail_at({COVER_STARTS[actor.occluder]:g}, accel=3.0)")
    _vehicle(draft, cover, f"SwerveAway({at}, {due}, {kind}, {pace})", kind=actor.occluder.value)
    draft.add("")
    if actor.adversary in THINGS:
        row = "for d in (-0.8, 0.0, 0.8):" if actor.adversary is Adversary.CONES else "for d in (0.0,):"
        draft.add(
            row,
            f"    new Thing at place({at} + 0.5, d), facing turned({at}, 0), \\",
            f'        with kind "{THINGS[actor.adversary]}", with behavior StandHidden({at}, {stays}){draft.acts_as}',
        )
    else:
        draft.add(f"{hidden} = rail_at({at} + 3, accel=2.0)")
        _vehicle(draft, hidden, f"StandHidden({at}, {stays})", lamps='{"hazard"}')


def emergency_pass(draft: ProgramDraft) -> None:
    at, siren = _where(draft), draft.name("siren")
    due, kind = draft.due()
    cruise = _cruise(draft.site)
    pace = _pace(draft, 1.4 * cruise, 1.8 * cruise, "of the emergency vehicle")
    back = draft.free("back", ParameterRange(low=18, high=26), "m", "from its middle to the ego's before that")
    draft.add(f"{siren} = rail_at(-{back}, accel=4.0, brake=7.0, sideways=2.0)")
    _vehicle(draft, siren, f"PassWithSiren({at}, {due}, {kind}, {pace}, {back})")


def _where(draft: ProgramDraft) -> str:
    """Declare the meeting place; return its name."""
    name = draft.name("where")
    draft.add(f"{name} = {draft.where()}")
    return name


def _cruise(site: ThreatSite) -> float:
    return CRUISE * site.speed_limit


def _pace(draft: ProgramDraft, least: float, most: float, what: str) -> str:
    """Declare `pace`, the spec's speed clipped to [least, most] m/s."""
    if draft.actor.adversary is Adversary.BICYCLE:
        most = min(most, BICYCLE_TOP)
    speed = given(draft.actor.speed_mps)
    low, high = (min(max(value, least), most) for value in (speed.low, speed.high))
    return draft.free("pace", ParameterRange(low=low, high=high), "m/s", what)


def _vehicle(draft: ProgramDraft, rail: str, behaviour: str, kind: str = "", lamps: str = "") -> None:
    """Add a vehicle on a rail; the adversary unless `kind` is given."""
    kind = kind or draft.actor.adversary.value
    lit = f", with lamps {lamps}" if lamps else ""
    draft.add(
        f'new Wheeled at start_of({rail}), facing facing_of({rail}), with kind "{kind}"{lit}, with rail {rail}, \\',
        f"    with behavior {behaviour}{draft.acts_as}",
    )


TEMPLATES: Mapping[AdversaryBehaviour, Callable[[ProgramDraft], None]] = {
    AdversaryBehaviour.BRAKE_HARD: brake_hard,
    AdversaryBehaviour.SLOW_AHEAD: slow_ahead,
    AdversaryBehaviour.CUT_IN: cut_in,
    AdversaryBehaviour.ONCOMING: oncoming,
    AdversaryBehaviour.TAILGATE: tailgate,
    AdversaryBehaviour.HIDDEN_STOP: hidden_stop,
    AdversaryBehaviour.EMERGENCY_PASS: emergency_pass,
}
