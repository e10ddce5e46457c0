"""Fuser without knowledge of the target: words and numbers drawn uniformly. The baseline of the reflective fusers.

Place, adversary, cover and light are drawn uniformly among those that fit the site; the distance uniformly over the
site's rooms; the other numbers uniformly over the limits of ThreatSpec. Every number is one value, not a free range.
Each word is drawn once for its place, so that a behaviour with many places is as frequent as the vocabulary makes it.
Some specs get a further actor, drawn in the same way, and a condition of the pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pydantic import ValidationError

from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.fuser.slots import ThreatSlot, lights, slots
from closedloop_plugin.threats.site import LOW_SUN, USUAL_SKY, ThreatSite, fit
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
    ContradictorySign,
    Occluder,
    ParameterRange,
    TargetWeakness,
    ThreatActor,
    ThreatConditions,
    ThreatPerception,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.transcript import FuserExchange, ThreatAttempt


class OfflineFuser:
    """Base class: one attempt per request, from `spec`; deterministic for ThreatRequest.seed."""

    name = ""
    version = 0

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version}

    def make(self, requests: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """See Fuser.make."""
        return [self._attempt(request) for request in requests]

    def _attempt(self, request: ThreatRequest) -> ThreatAttempt:
        attempt = ThreatAttempt(number=request.number, seed=request.seed, fuser=self.describe())
        made = self.spec(request, Random(request.seed))
        if made is None:
            return attempt.model_copy(update={"refused": "the route has no room for any threat of the vocabulary"})
        spec, choice = made
        exchange = FuserExchange(purpose="fuse", prompt=choice, reply=spec.why)
        return attempt.model_copy(update={"spec": spec, "description": spec.description, "exchanges": [exchange]})

    def spec(self, request: ThreatRequest, rng: Random) -> tuple[ThreatSpec, str] | None:
        """(spec, from how many threats it was chosen); None if the route has no room for any."""
        raise NotImplementedError


def complete(fields: Mapping[str, Any], site: ThreatSite) -> ThreatSpec:
    """The spec of all fields but the description. It fits the site by construction, which is asserted."""
    plain = ThreatSpec(**{**fields, "description": "-"})
    problems = fit(plain, site)
    if problems:
        raise AssertionError(f"route {site.route}: {problems[0]}")
    text = f"{sentence(plain)} It tests the {plain.weakness.value}."
    return plain.model_copy(update={"description": text})


CHANGED = 0.5  # share of the conditions that differ from the route's
FURTHER, PICTURES = 0.35, 0.3  # odds of a further actor, and of a condition of the pictures
TRIES = 20  # draws of a further actor until one fits beside the first
# Ranges of the perception conditions: clearly visible, and the scene can still be understood.
RANGES: Mapping[str, tuple[float, float]] = {
    "worn_markings": (50, 95), "sun_glare": (50, 100), "lens_drops": (20, 50), "hidden_signs": (40, 75),
}  # fmt: skip
# Above the houses at the end of a street, and within a front camera's picture.
GLARE_SKY: Mapping[str, tuple[float, float]] = {"sun_altitude_angle": (10, 17), "cloudiness": (0, 20)}


class UniformFuser(OfflineFuser):
    """Fuser by chance."""

    name, version = "uniform", 2

    def spec(self, request: ThreatRequest, rng: Random) -> tuple[ThreatSpec, str] | None:
        site = request.transcript.site
        found = slots(site)
        if not found:
            return None
        slot = rng.choice(found)
        fields: dict[str, Any] = {
            **actor_fields(slot, rng),
            "occluder": rng.choice(slot.occluders),
            "ego_light": rng.choice(lights(slot, site)),
            "conditions": _conditions(rng),
            "weakness": rng.choice(list(TargetWeakness)),
            "why": "Drawn uniformly, without regard to the target.",
        }
        if rng.random() < FURTHER:
            fields["further"] = _further(fields, found, site, rng)
        spec = complete(fields, site)
        if rng.random() < PICTURES and (changes := picture_conditions(spec, site, rng)):
            spec = complete({**dict(spec), **rng.choice(changes)}, site)
        return spec, f"{len(found)} places that fit"


def actor_fields(slot: ThreatSlot, rng: Random) -> dict[str, Any]:
    """Fields of a ThreatActor at this slot, without a cover if the behaviour needs none."""
    adversary = rng.choice(slot.adversaries)
    kind = rng.choice(sorted(TRIGGER))
    fields: dict[str, Any] = {
        "adversary": adversary,
        "behaviour": slot.behaviour,
        "place": {"side": slot.side, "lane": slot.lane, "ahead_m": _ahead(slot, rng)},
        "trigger": {"kind": kind, "value": _value(TRIGGER[kind], rng)},
        "road": slot.road,
        "occluder": Occluder.NONE if Occluder.NONE in slot.occluders else slot.occluders[0],
    }
    for name, bounds in (("speed_mps", _speeds(slot.behaviour, adversary)), ("stays_s", STAY)):
        if name in RULES[slot.behaviour].numbers:
            fields[name] = _value(bounds, rng)
    return fields


def picture_conditions(spec: ThreatSpec, site: ThreatSite, rng: Random) -> list[dict[str, Any]]:
    """Changes of the spec by one condition of the pictures each, all that the site can show; of the signs one."""
    found: list[dict[str, Any]] = [
        {"perception": ThreatPerception.model_validate({name: values})} for name, values in RANGES.items()
    ]
    found[list(RANGES).index("sun_glare")]["conditions"] = _low_sun(spec.conditions, site)
    signs = [sign for sign in ContradictorySign if sign is not ContradictorySign.NONE]
    found.append({"perception": ThreatPerception(contradictory_sign=rng.choice(signs))})
    return [change for change in found if not fit(spec.model_copy(update=change), site)]


def _further(
    fields: Mapping[str, Any], found: Sequence[ThreatSlot], site: ThreatSite, rng: Random
) -> tuple[ThreatActor, ...]:
    """One actor that goes together with the first, at a place beside it; () if TRIES draws find none."""
    for _ in range(TRIES):
        actor = ThreatActor.model_validate(actor_fields(rng.choice(found), rng))
        try:
            spec = ThreatSpec(**{**fields, "further": (actor,), "description": "-"})
        except ValidationError:
            continue
        if not fit(spec, site):
            return (actor,)
    return ()


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


def _low_sun(conditions: ThreatConditions, site: ThreatSite) -> ThreatConditions:
    """The conditions with a low sun and few clouds, unless the spec or the route has rain or fog."""
    sky = {name: ParameterRange(low=low, high=high) for name, (low, high) in GLARE_SKY.items()}
    clear = all(
        site.weather.get(name, USUAL_SKY[name]) <= LOW_SUN[name][1] for name in ("precipitation", "fog_density")
    )
    return conditions.model_copy(update=sky) if clear else conditions


def _value(bounds: tuple[float, float], rng: Random) -> float:
    low, high = bounds
    return min(max(round(rng.uniform(low, high), 2), low), high)
