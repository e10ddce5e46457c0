"""Fuser with a language model: three answers -> a description -> a JSON object, with at most N repairs.

Only the validated ThreatSpec is used further; every exchange is stored. Model output enters prompts only in fences.
facts_of, vocabulary_of and schema_of describe a site in the prompts: its facts, the behaviours it has room for, and
the JSON schema narrowed to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion, ModelReply, fenced
from closedloop_plugin.driver.prompts.texts import PromptTexts
from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.fuser.driven_text import drive_text, stage_text, survived_lines
from closedloop_plugin.threats.fuser.slots import ThreatSlot, slots
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    MOST_FURTHER,
    RULES,
    AdversaryBehaviour,
    AdversaryLane,
    ContradictorySign,
    EgoLight,
    RoadKind,
    TargetWeakness,
    ThreatConditions,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_parsing import kept, read_spec, short
from closedloop_plugin.threats.spec_text import ACTS, SIGHT, sentence
from closedloop_plugin.threats.transcript import FuserExchange, Stage, ThreatAttempt
from closedloop_plugin.threats.words import apart

DESCRIPTION_LENGTH = 2000  # characters of a description that are stored and used
EARLIER_ATTEMPTS = 5  # listed in a prompt
# Conditions of the pictures, as the prompts name them.
PERCEPTION = {
    "worn_markings": "percent of the lane markings that are worn off",
    "sun_glare": "strength in percent of the glare of a sun straight ahead; needs conditions with "
    "sun_altitude_angle from 1 to 20 and few clouds",
    "lens_drops": "percent of the picture behind drops on the lens, at most 80",
    "hidden_signs": "percent of each sign and light behind leaves, at most 80",
    "contradictory_sign": "a plate at the right edge that contradicts the road",
}


@dataclass
class _FusionState:
    """A request in progress."""

    request: ThreatRequest
    description: str = ""
    exchanges: list[FuserExchange] = field(default_factory=list)
    problems: tuple[str, ...] = ()
    reply: str = ""
    spec: ThreatSpec | None = None
    refused: str = ""

    @property
    def open(self) -> bool:
        return self.spec is None and not self.refused


class ModelFuser:
    """Fuser with a model backend. Each step is one backend call for all requests."""

    def __init__(self, backend: ModelBackend, texts: PromptTexts, repairs: int = 3) -> None:
        self.backend, self.texts, self.repairs = backend, texts, repairs
        self.name = backend.name

    def describe(self) -> dict[str, Any]:
        """Identity: equal for equal arguments, so without facts that only replies reveal (served_as)."""
        known = {k: v for k, v in self.backend.describe().items() if k != "served_as"}
        return {"name": self.name, **known, "repairs": self.repairs, "prompts_sha256": self.texts.sha256}

    def make(self, requests: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """See Fuser.make."""
        states = [_FusionState(request) for request in requests]
        for state in states:
            if state.request.transcript.interview.error:
                state.refused = f"no interview: {state.request.transcript.interview.error}"
        self._fuse(states)
        self._construct(states)
        for _ in range(self.repairs):
            self._repair(states)
        return [self._attempt(state) for state in states]

    def _fuse(self, states: Sequence[_FusionState]) -> None:
        """Step 1: three answers -> a description."""
        pending = [state for state in states if state.open]
        prompts = [self._fuse_prompt(state.request) for state in pending]
        for state, prompt, reply in self._send("fuse", pending, prompts):
            state.exchanges.append(_exchange("fuse", prompt, reply))
            state.description = reply.text.rpartition("</think>")[2].strip()[:DESCRIPTION_LENGTH]
            if reply.error is None and not state.description:
                state.refused = "fuse: the reply has no description"

    def _construct(self, states: Sequence[_FusionState]) -> None:
        pending = [state for state in states if state.open]
        for state, prompt, reply in self._send("construct", pending, [self._construct_prompt(s) for s in pending]):
            self._read(state, "construct", prompt, reply)

    def _repair(self, states: Sequence[_FusionState]) -> None:
        pending = [state for state in states if state.open]
        prompts = [
            self.texts.fill(
                "repair",
                task=self._construct_prompt(state),
                reply=fenced("your reply", state.reply),
                problems=_lines(state.problems),
            )
            for state in pending
        ]
        for state, prompt, reply in self._send("repair", pending, prompts):
            self._read(state, "repair", prompt, reply)

    def _send(
        self, purpose: str, states: Sequence[_FusionState], prompts: Sequence[str]
    ) -> list[tuple[_FusionState, str, ModelReply]]:
        """Send one prompt per request. A failed reply refuses its request, with the error as the reason."""
        if not states:
            return []
        questions = []
        for state, prompt in zip(states, prompts, strict=True):
            attempt = f"{state.request.round}.{state.request.number}"
            key = f"{state.request.transcript.route}|{attempt}|{purpose}|{len(state.exchanges)}"
            questions.append(ModelQuestion(key, prompt, state.request.images))
        replies = self.backend.ask(questions)
        for state, reply in zip(states, replies, strict=True):
            if reply.error is not None:
                state.refused = kept(f"{purpose}: no reply: {reply.error}", 500)
        return list(zip(states, prompts, replies, strict=True))

    def _read(
        self, state: _FusionState, purpose: Literal["construct", "repair"], prompt: str, reply: ModelReply
    ) -> None:
        exchange = _exchange(purpose, prompt, reply)
        if reply.error is None:
            read = read_spec(reply.text, state.request.transcript.site, state.description)
            state.spec, state.problems, state.reply = read.spec, read.problems, reply.text
            if reply.cut and read.spec is None:
                state.problems = (*read.problems, "the reply was cut at the token limit; be shorter")
            exchange = exchange.model_copy(update={"problems": list(state.problems)})
        state.exchanges.append(exchange)

    def _attempt(self, state: _FusionState) -> ThreatAttempt:
        if state.open:
            tries = sum(e.purpose != "fuse" for e in state.exchanges)
            state.refused = short(f"no valid spec in {tries} replies; the last: {'; '.join(state.problems)}", 1000)
        return ThreatAttempt(
            number=state.request.number,
            seed=state.request.seed,
            fuser={**self.describe(), **self.backend.describe()},
            description=kept(state.description),
            exchanges=state.exchanges,
            spec=state.spec,
            refused=kept(state.refused),
        )

    # Prompts

    def _fuse_prompt(self, request: ThreatRequest) -> str:
        transcript = request.transcript
        answers = {stage: fenced(f"the driver's {stage}", stage_text(transcript, stage)) for stage in get_args(Stage)}
        shown = "The pictures show what the driver saw." if request.images else ""
        return self.texts.fill(
            "fuse", **answers, drive=drive_text(transcript.interview.drive), facts=facts_of(transcript.site),
            pictures=shown, earlier=self._earlier(request), **self._extras(transcript.site),
        )  # fmt: skip

    def _extras(self, site: ThreatSite) -> dict[str, str]:
        """What a description may have besides one road user: {placeholder: sentence, or "" if the site has none}."""
        sight = ", ".join(SIGHT[name] for name in _perception_of(site))
        return {
            "further": self.texts.fill("further", n=MOST_FURTHER) if _together(_by_behaviour(site)) else "",
            "sight": self.texts.fill("sight", list=sight) if sight else "",
        }

    def _construct_prompt(self, state: _FusionState) -> str:
        site = state.request.transcript.site
        return self.texts.fill(
            "construct",
            description=fenced("description", state.description),
            facts=facts_of(site),
            vocabulary=vocabulary_of(site),
            schema=schema_of(site),
            earlier=self._earlier(state.request),
        )

    def _earlier(self, request: ThreatRequest) -> str:
        """Text about the earlier attempts for this route: why they failed the check, or how the target got through."""
        attempts = []
        for attempt in request.transcript.attempts[-EARLIER_ATTEMPTS:]:
            if attempt.spec is not None and attempt.verdict is not None and not attempt.verdict.passed:
                attempts.append(f"{sentence(attempt.spec)} Fault: {short(attempt.verdict.reason, 300)}")
            elif attempt.spec is None and attempt.refused:
                attempts.append(f"No usable reply: {short(attempt.refused, 300)}")
        parts = [self.texts.fill("earlier", list=fenced("earlier attempts", _lines(attempts)))] if attempts else []
        if survived := survived_lines(request.transcript.attempts[-EARLIER_ATTEMPTS:]):
            parts.append(self.texts.fill("survived", list=fenced("survived scenarios", _lines(survived))))
        return "\n".join(parts)


def _lines(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _exchange(purpose: Literal["fuse", "construct", "repair"], prompt: str, reply: ModelReply) -> FuserExchange:
    return FuserExchange(
        purpose=purpose,
        prompt=kept(prompt),
        reply=kept(reply.text),
        error=kept(reply.error, 500) if reply.error is not None else None,
        seconds=round(reply.seconds, 3),
    )


def facts_of(site: ThreatSite) -> str:
    """The facts of a site as sentences."""
    lanes = [f"{n} more lane{'s' * (n > 1)} of its direction on the {side}"
             for n, side in ((site.left, "left"), (site.right, "right")) if n]  # fmt: skip
    if site.oncoming:
        lanes.append(f"{site.oncoming} oncoming lane{'s' * (site.oncoming > 1)}")
    sentences = [
        f"The route is {site.length_m:.0f} m long; the speed limit is {site.speed_limit:.1f} m/s.",
        f"Beside the ego's lane: {', '.join(lanes) if lanes else 'no other lane'}.",
        _junction(site),
    ]
    if site.weather:
        sun, rain, fog = (site.weather.get(k, 0.0) for k in ("sun_altitude_angle", "precipitation", "fog_density"))
        sentences.append(f"Weather: sun {sun:.0f} degrees above the horizon, rain {rain:.0f} %, fog {fog:.0f} %.")
    return "\n".join(sentences)


def _junction(site: ThreatSite) -> str:
    if site.crossing is None:
        return "It crosses no junction."
    control = {"signal": "with traffic lights", "stop": "with a stop sign", "yield": "where the ego must give way"}
    start = max(site.crossing[0] - site.trigger_s, 0.0)
    return f"It crosses a junction {start:.0f} m on, {control.get(site.control, 'without signs')}."


def vocabulary_of(site: ThreatSite) -> str:
    """One line per behaviour: its meaning and the words that are possible with it on this route.

    Then the behaviours that can act together, and the conditions of the pictures.
    """
    found = _by_behaviour(site)
    lines = [_line(behaviour, group) for behaviour, group in found.items()]
    return "\n".join([*lines, *_together(found), *_perception_lines(site)])


def _line(behaviour: AdversaryBehaviour, group: Sequence[ThreatSlot]) -> str:
    first = group[0]
    act = ACTS[behaviour].format(side="side", from_side="a side", occluder="vehicle")
    needs = ", ".join(RULES[behaviour].numbers)
    places = "; ".join(dict.fromkeys(_place(slot) for slot in group))
    return (
        f"- {behaviour.value}: {act}. adversary: {_words(first.adversaries)}. occluder: {_words(first.occluders)}. "
        f"place: {places}. {f'needs {needs}' if needs else 'needs neither speed_mps nor stays_s'}"
    )


def _together(found: Mapping[AdversaryBehaviour, Sequence[ThreatSlot]]) -> list[str]:
    """The pairs of behaviours that are possible on this route; [] if there is none."""
    pairs = [
        f"{one.value} with {other.value}" + (f" (places {need:g} m apart)" if need else "")
        for one in found
        for other in found
        if one.value <= other.value and (need := apart(one, other)) is not None
    ]
    if not pairs:
        return []
    return [
        f"At most {MOST_FURTHER} more actors can act too, in further; each has its own place, trigger and numbers. "
        f"These go together: {'; '.join(pairs)}. Together with others an oncoming vehicle stays in lane oncoming, and "
        "at most one actor is hidden by an occluder"
    ]


def _perception_lines(site: ThreatSite) -> list[str]:
    """One line about the conditions of the pictures; [] if there is none."""
    shown = [f"{name}: {what}" for name, what in _perception_of(site).items()]
    return [f"perception changes only the pictures. {'; '.join(shown)}"] if shown else []


def _perception_of(site: ThreatSite) -> dict[str, str]:
    """Conditions of the pictures that the site's world shows and that change something on this route."""
    hidden = {"hidden_signs"} if site.control == "none" else set()
    return {name: what for name, what in PERCEPTION.items() if name in site.shows and name not in hidden}


def _place(slot: ThreatSlot) -> str:
    where = f"side {slot.side.value} with lane {slot.lane.value} on road {slot.road.value}"
    if slot.road is RoadKind.JUNCTION and slot.lane is AdversaryLane.CROSSING_ROAD:
        return f"{where}, ahead_m [5, 5]"
    rooms = " or ".join(f"{low:.1f} to {high:.1f}" for low, high in ((a + 0.05, b - 0.05) for a, b in slot.rooms))
    return f"{where}, ahead_m within {rooms}"


def schema_of(site: ThreatSite) -> str:
    """JSON schema of ThreatSpec on one line, with enums narrowed to the route's possibilities and ranges as pairs."""
    found = [slot for group in _by_behaviour(site).values() for slot in group]
    pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}

    shares = {k: {**pair, "description": "percent"} for k in _perception_of(site)}
    if "contradictory_sign" in shares:
        shares["contradictory_sign"] = _enum(ContradictorySign)
    weather = {k: {**pair, "description": "degrees, -60 to 90" if k.startswith("sun") else "percent"}
               for k in ThreatConditions.model_fields}  # fmt: skip
    trigger = {**pair, "description": "seconds (0.5 to 8) or metres (4 to 60) from the ego to the meeting place"}
    place = {
        "side": _enum(s.side for s in found),
        "lane": _enum(s.lane for s in found),
        "ahead_m": {**pair, "description": "metres, 5 to 80, from the route's trigger, or from the junction's exit"},
    }
    lights = list(EgoLight) if site.control == "signal" else [EgoLight.CYCLE]
    actor = {
        "behaviour": _enum(s.behaviour for s in found),
        "adversary": _enum(a for s in found for a in s.adversaries),
        "place": _object(place, list(place)),
        "trigger": _object({"kind": {"enum": ["time", "distance"]}, "value": trigger}, ["kind", "value"]),
        "road": _enum(s.road for s in found),
        "speed_mps": {**pair, "description": "m/s, 0.3 to 18"},
        "stays_s": {**pair, "description": "seconds, 1 to 25"},
        "occluder": _enum(o for s in found for o in s.occluders),
    }
    required = ["behaviour", "adversary", "place", "trigger", "road"]
    properties = {
        **actor,
        "ego_light": _enum(lights),
        "conditions": _object(weather, []),
        "perception": _object(shares, []),
        "further": {"type": "array", "items": _object(actor, required), "maxItems": MOST_FURTHER},
        "weakness": _enum(TargetWeakness),
        "description": {"type": "string", "maxLength": 600},
        "why": {"type": "string", "maxLength": 600},
    }
    assert set(properties) == set(ThreatSpec.model_fields)
    return json.dumps(_object(properties, [*required, "weakness"]), separators=(",", ":"))


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _enum(words: Iterable[StrEnum]) -> dict[str, Any]:
    return {"enum": sorted({word.value for word in words})}


def _words(words: Iterable[StrEnum]) -> str:
    return ", ".join(word.value for word in words)


def _by_behaviour(site: ThreatSite) -> dict[AdversaryBehaviour, list[ThreatSlot]]:
    found: dict[AdversaryBehaviour, list[ThreatSlot]] = {}
    for slot in slots(site):
        found.setdefault(slot.behaviour, []).append(slot)
    return found
