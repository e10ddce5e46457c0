"""What a fusing model is told of a route: its facts in words, the behaviours that it has room for, the JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from closedloop_plugin.threats.fuser.slots import Slot, slots
from closedloop_plugin.threats.site import Site
from closedloop_plugin.threats.spec import (
    RULES,
    Behaviour,
    Conditions,
    Lane,
    Light,
    RoadKind,
    ThreatSpec,
    Weakness,
)
from closedloop_plugin.threats.words import ACTS


def facts_of(site: Site) -> str:
    """The site in plain sentences."""
    lanes = [f"{n} more lane{'s' * (n > 1)} of its direction on the {side}"
             for n, side in ((site.left, "left"), (site.right, "right")) if n]  # fmt: skip
    if site.oncoming:
        lanes.append(f"{site.oncoming} oncoming lane{'s' * (site.oncoming > 1)}")
    told = [
        f"The route is {site.length_m:.0f} m long; the speed limit is {site.speed_limit:.1f} m/s.",
        f"Beside the ego's lane: {', '.join(lanes) if lanes else 'no other lane'}.",
        _junction(site),
    ]
    if site.weather:
        sun, rain, fog = (site.weather.get(k, 0.0) for k in ("sun_altitude_angle", "precipitation", "fog_density"))
        told.append(f"Weather: sun {sun:.0f} degrees above the horizon, rain {rain:.0f} %, fog {fog:.0f} %.")
    return "\n".join(told)


def _junction(site: Site) -> str:
    if site.crossing is None:
        return "It crosses no junction."
    control = {"signal": "with traffic lights", "stop": "with a stop sign", "yield": "where the ego must give way"}
    start = max(site.crossing[0] - site.trigger_s, 0.0)
    return f"It crosses a junction {start:.0f} m on, {control.get(site.control, 'without signs')}."


def vocabulary_of(site: Site) -> str:
    """One line a behaviour: what it means, and the words that go with it on this route."""
    return "\n".join(_line(behaviour, group) for behaviour, group in _by_behaviour(site).items())


def _line(behaviour: Behaviour, group: Sequence[Slot]) -> str:
    first = group[0]
    act = ACTS[behaviour].format(side="side", from_side="a side", occluder="vehicle")
    needs = ", ".join(RULES[behaviour].numbers)
    places = "; ".join(dict.fromkeys(_place(slot) for slot in group))
    return (
        f"- {behaviour.value}: {act}. adversary: {_words(first.adversaries)}. occluder: {_words(first.occluders)}. "
        f"place: {places}. {f'needs {needs}' if needs else 'needs neither speed_mps nor stays_s'}"
    )


def _place(slot: Slot) -> str:
    where = f"side {slot.side.value} with lane {slot.lane.value} on road {slot.road.value}"
    if slot.road is RoadKind.JUNCTION and slot.lane is Lane.CROSSING_ROAD:
        return f"{where}, ahead_m [5, 5]"
    rooms = " or ".join(f"{low:.1f} to {high:.1f}" for low, high in ((a + 0.05, b - 0.05) for a, b in slot.rooms))
    return f"{where}, ahead_m within {rooms}"


def schema_of(site: Site) -> str:
    """A JSON schema of ThreatSpec on one line: enums narrowed to what this route has room for, intervals as pairs."""
    found = [slot for group in _by_behaviour(site).values() for slot in group]
    pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}

    weather = {k: {**pair, "description": "degrees, -60 to 90" if k.startswith("sun") else "percent"}
               for k in Conditions.model_fields}  # fmt: skip
    trigger = {**pair, "description": "seconds (0.5 to 8) or metres (4 to 60) from the ego to the meeting place"}
    place = {
        "side": _enum(s.side for s in found),
        "lane": _enum(s.lane for s in found),
        "ahead_m": {**pair, "description": "metres, 5 to 80, from the route's trigger, or from the junction's exit"},
    }
    lights = list(Light) if site.control == "signal" else [Light.CYCLE]
    properties = {
        "behaviour": _enum(s.behaviour for s in found),
        "adversary": _enum(a for s in found for a in s.adversaries),
        "place": _object(place, list(place)),
        "trigger": _object({"kind": {"enum": ["time", "distance"]}, "value": trigger}, ["kind", "value"]),
        "road": _enum(s.road for s in found),
        "speed_mps": {**pair, "description": "m/s, 0.3 to 18"},
        "stays_s": {**pair, "description": "seconds, 1 to 25"},
        "occluder": _enum(o for s in found for o in s.occluders),
        "ego_light": _enum(lights),
        "conditions": _object(weather, []),
        "weakness": _enum(Weakness),
        "description": {"type": "string", "maxLength": 600},
        "why": {"type": "string", "maxLength": 600},
    }
    assert set(properties) == set(ThreatSpec.model_fields)
    required = ["behaviour", "adversary", "place", "trigger", "road", "weakness"]
    return json.dumps(_object(properties, required), separators=(",", ":"))


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _enum(words: Iterable[StrEnum]) -> dict[str, Any]:
    return {"enum": sorted({word.value for word in words})}


def _words(words: Iterable[StrEnum]) -> str:
    return ", ".join(word.value for word in words)


def _by_behaviour(site: Site) -> dict[Behaviour, list[Slot]]:
    found: dict[Behaviour, list[Slot]] = {}
    for slot in slots(site):
        found.setdefault(slot.behaviour, []).append(slot)
    return found
