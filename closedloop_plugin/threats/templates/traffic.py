"""Vehicles that drive with, before, behind or against the ego."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from closedloop_plugin.threats.draft import Draft
from closedloop_plugin.threats.spec import Behaviour


def brake_hard(draft: Draft) -> None:
    where = draft.where()
    due, kind = draft.due()
    rest = draft.free("rest", draft.spec.stays_s, "s", "standing")
    draft.add(
        "lead = rail_at(13, accel=3.0)",
        f'new Wheeled at start_of(lead), facing facing_of(lead), with kind "{draft.spec.adversary.value}", with rail lead, \\',
        f"    with behavior BrakeHard({where}, {due}, {kind}, {rest})",
    )


TEMPLATES: Mapping[Behaviour, Callable[[Draft], None]] = {Behaviour.BRAKE_HARD: brake_hard}
