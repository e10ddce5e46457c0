"""Fuser without knowledge of the target: words and numbers drawn uniformly. The baseline of the reflective fusers.

Place, adversary, cover and light are drawn uniformly among those that fit the site; the distance uniformly over the
site's rooms; the other numbers uniformly over the limits of ThreatSpec. Every number is one value, not a free range.
Each word is drawn once for its place, so that a behaviour with many places is as frequent as the vocabulary makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.fuser.ruleset.complete import OfflineFuser, complete
from closedloop_plugin.threats.fuser.ruleset.extras import UNIFORM_ODDS
from closedloop_plugin.threats.fuser.slots import ThreatSlot, lights, slots
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    ON_FOOT,
    PERCENT,
    RULES,
    SPEED,
    STAY,
    SUN,
    TRIGGER,
    Adversary,
    AdversaryBehaviour,
    TargetWeakness,
    ThreatConditions,
    ThreatSpec,
)

CHANGED = 0.5  # share of the conditions that differ from the route's


class UniformFuser(OfflineFuser):
    """Fuser by chance."""

    name, version = "uniform", 1

    def spec(self, request: ThreatRequest, rng: Random) -> tuple[ThreatSpec, str] | None:
        site = request.transcript.site
        found = slots(site)
        return (uniform_spec(rng.choice(found), site, rng), f"{len(found)} places that fit") if found else None


def uniform_spec(slot: ThreatSlot, site: ThreatSite, rng: Random) -> ThreatSpec:
    """A spec at this slot, everything else drawn uniformly."""
    adversary = rng.choice(slot.adversaries)
    kind = rng.choice(sorted(TRIGGER))
    fields: dict[str, Any] = {
        "adversary": adversary,
        "behaviour": slot.behaviour,
        "place": {"side": slot.side, "lane": slot.lane, "ahead_m": _ahead(slot, rng)},
        "trigger": {"kind": kind, "value": _value(TRIGGER[kind], rng)},
        "road": slot.road,
        "occluder": rng.choice(slot.occluders),
        "ego_light": rng.choice(lights(slot, site)),
        "conditions": _conditions(rng),
        "weakness": rng.choice(list(TargetWeakness)),
        "why": "Drawn uniformly, without regard to the target.",
    }
    for name, bounds in (("speed_mps", _speeds(slot.behaviour, adversary)), ("stays_s", STAY)):
        if name in RULES[slot.behaviour].numbers:
            fields[name] = _value(bounds, rng)
    return complete(fields, site, rng, odds=UNIFORM_ODDS)


def _ahead(slot: ThreatSlot, rng: Random) -> float:
    low, high = rng.choices(slot.rooms, [max(b - a, 1e-6) for a, b in slot.rooms])[0]
    return _value((min(low + 0.05, high), max(high - 0.05, low)), rng)


def _speeds(behaviour: AdversaryBehaviour, adversary: Adversary) -> tuple[float, float]:
    fastest = ON_FOOT.get(adversary, SPEED[1]) if behaviour is AdversaryBehaviour.CROSS else SPEED[1]
    return SPEED[0], fastest


def _conditions(rng: Random) -> ThreatConditions:
    drawn: Mapping[str, float] = {
        name: _value(SUN if name == "sun_altitude_angle" else PERCENT, rng)
        for name in ThreatConditions.model_fields
        if rng.random() < CHANGED
    }
    return ThreatConditions.model_validate(drawn)


def _value(bounds: tuple[float, float], rng: Random) -> float:
    low, high = bounds
    return min(max(round(rng.uniform(low, high), 2), low), high)
