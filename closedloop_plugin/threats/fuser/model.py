"""The fuser that is a model: three answers -> one description in words -> one JSON object, repaired at most N times.

Only the validated ThreatSpec goes on from here; every exchange is kept. What a model said enters a prompt fenced.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from closedloop_plugin.agents.model_backend import ModelBackend, ModelQuestion, ModelReply, fenced
from closedloop_plugin.prompts.texts import PromptTexts
from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.fuser.slots import ThreatSlot, slots
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import (
    RULES,
    AdversaryBehaviour,
    AdversaryLane,
    EgoLight,
    RoadKind,
    TargetWeakness,
    ThreatConditions,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_parsing import kept, read_spec, short
from closedloop_plugin.threats.spec_text import ACTS, sentence
from closedloop_plugin.threats.transcript import FuserExchange, ThreatAttempt

DESCRIBED = 2000  # characters of a description that are kept and used
TOLD = 5  # earlier attempts that are told of


@dataclass
class _FusionState:
    """One wish under way."""

    wish: ThreatRequest
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
    """Batched over wishes: one call of the backend for each step of all of them."""

    def __init__(self, backend: ModelBackend, texts: PromptTexts, repairs: int = 3) -> None:
        self.backend, self.texts, self.repairs = backend, texts, repairs
        self.name = backend.name

    def describe(self) -> dict[str, Any]:
        """Equal at every start with the same arguments."""
        known = {k: v for k, v in self.backend.describe().items() if k != "served_as"}
        return {"name": self.name, **known, "repairs": self.repairs, "prompts_sha256": self.texts.sha256}

    def make(self, wishes: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """See Fuser.make."""
        works = [_FusionState(wish) for wish in wishes]
        for work in works:
            if work.wish.transcript.interview.error:
                work.refused = f"no interview: {work.wish.transcript.interview.error}"
        self._fuse(works)
        self._construct(works)
        for _ in range(self.repairs):
            self._repair(works)
        return [self._attempt(work) for work in works]

    def _fuse(self, works: Sequence[_FusionState]) -> None:
        """Three answers -> a description in prose."""
        asked = [work for work in works if work.open]
        prompts = [self._fuse_prompt(work.wish) for work in asked]
        for work, prompt, said in self._ask("fuse", asked, prompts):
            work.exchanges.append(_exchange("fuse", prompt, said))
            work.description = said.text.rpartition("</think>")[2].strip()[:DESCRIBED]
            if said.error is None and not work.description:
                work.refused = "fuse: the reply has no description"

    def _construct(self, works: Sequence[_FusionState]) -> None:
        asked = [work for work in works if work.open]
        for work, prompt, said in self._ask("construct", asked, [self._construct_prompt(w) for w in asked]):
            self._read(work, "construct", prompt, said)

    def _repair(self, works: Sequence[_FusionState]) -> None:
        asked = [work for work in works if work.open]
        prompts = [
            self.texts.fill(
                "repair",
                task=self._construct_prompt(work),
                reply=fenced("your reply", work.reply),
                problems=_lines(work.problems),
            )
            for work in asked
        ]
        for work, prompt, said in self._ask("repair", asked, prompts):
            self._read(work, "repair", prompt, said)

    def _ask(
        self, purpose: str, works: Sequence[_FusionState], prompts: Sequence[str]
    ) -> list[tuple[_FusionState, str, ModelReply]]:
        """A reply that failed ends its work, with the error as the reason."""
        if not works:
            return []
        questions = [
            ModelQuestion(f"{w.wish.transcript.route}|{w.wish.number}|{purpose}|{len(w.exchanges)}", p, w.wish.images)
            for w, p in zip(works, prompts, strict=True)
        ]
        answers = self.backend.ask(questions)
        for work, said in zip(works, answers, strict=True):
            if said.error is not None:
                work.refused = kept(f"{purpose}: no reply: {said.error}", 500)
        return list(zip(works, prompts, answers, strict=True))

    def _read(self, work: _FusionState, purpose: Literal["construct", "repair"], prompt: str, said: ModelReply) -> None:
        exchange = _exchange(purpose, prompt, said)
        if said.error is None:
            read = read_spec(said.text, work.wish.transcript.site, work.description)
            work.spec, work.problems, work.reply = read.spec, read.problems, said.text
            if said.cut and read.spec is None:
                work.problems = (*read.problems, "the reply was cut at the token limit; be shorter")
            exchange = exchange.model_copy(update={"problems": list(work.problems)})
        work.exchanges.append(exchange)

    def _attempt(self, work: _FusionState) -> ThreatAttempt:
        if work.open:
            tries = sum(e.purpose != "fuse" for e in work.exchanges)
            work.refused = short(f"no valid spec in {tries} replies; the last: {'; '.join(work.problems)}", 1000)
        return ThreatAttempt(
            number=work.wish.number,
            seed=work.wish.seed,
            fuser={**self.describe(), **self.backend.describe()},
            description=kept(work.description),
            exchanges=work.exchanges,
            spec=work.spec,
            refused=kept(work.refused),
        )

    # Prompts

    def _fuse_prompt(self, wish: ThreatRequest) -> str:
        answers = {a.stage: fenced(f"the driver's {a.stage}", a.text) for a in wish.transcript.interview.answers}
        for stage in ("perception", "prediction", "planning"):
            answers.setdefault(stage, fenced(f"the driver's {stage}", ""))
        shown = "The pictures show what the driver saw." if wish.images else ""
        facts = facts_of(wish.transcript.site)
        return self.texts.fill("fuse", **answers, facts=facts, pictures=shown, earlier=self._earlier(wish))

    def _construct_prompt(self, work: _FusionState) -> str:
        site = work.wish.transcript.site
        return self.texts.fill(
            "construct",
            description=fenced("description", work.description),
            facts=facts_of(site),
            vocabulary=vocabulary_of(site),
            schema=schema_of(site),
            earlier=self._earlier(work.wish),
        )

    def _earlier(self, wish: ThreatRequest) -> str:
        """What was tried before for this route, and why it did not do."""
        told = []
        for attempt in wish.transcript.attempts[-TOLD:]:
            if attempt.spec is not None and attempt.verdict is not None and not attempt.verdict.passed:
                told.append(f"{sentence(attempt.spec)} Fault: {short(attempt.verdict.reason, 300)}")
            elif attempt.spec is None and attempt.refused:
                told.append(f"No usable reply: {short(attempt.refused, 300)}")
        return self.texts.fill("earlier", list=fenced("earlier attempts", _lines(told))) if told else ""


def _lines(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _exchange(purpose: Literal["fuse", "construct", "repair"], prompt: str, said: ModelReply) -> FuserExchange:
    return FuserExchange(
        purpose=purpose,
        prompt=kept(prompt),
        reply=kept(said.text),
        error=kept(said.error, 500) if said.error is not None else None,
        seconds=round(said.seconds, 3),
    )


# What a fusing model is told of a route: its facts in words, the behaviours that it has room for, the JSON schema.
def facts_of(site: ThreatSite) -> str:
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


def _junction(site: ThreatSite) -> str:
    if site.crossing is None:
        return "It crosses no junction."
    control = {"signal": "with traffic lights", "stop": "with a stop sign", "yield": "where the ego must give way"}
    start = max(site.crossing[0] - site.trigger_s, 0.0)
    return f"It crosses a junction {start:.0f} m on, {control.get(site.control, 'without signs')}."


def vocabulary_of(site: ThreatSite) -> str:
    """One line a behaviour: what it means, and the words that go with it on this route."""
    return "\n".join(_line(behaviour, group) for behaviour, group in _by_behaviour(site).items())


def _line(behaviour: AdversaryBehaviour, group: Sequence[ThreatSlot]) -> str:
    first = group[0]
    act = ACTS[behaviour].format(side="side", from_side="a side", occluder="vehicle")
    needs = ", ".join(RULES[behaviour].numbers)
    places = "; ".join(dict.fromkeys(_place(slot) for slot in group))
    return (
        f"- {behaviour.value}: {act}. adversary: {_words(first.adversaries)}. occluder: {_words(first.occluders)}. "
        f"place: {places}. {f'needs {needs}' if needs else 'needs neither speed_mps nor stays_s'}"
    )


def _place(slot: ThreatSlot) -> str:
    where = f"side {slot.side.value} with lane {slot.lane.value} on road {slot.road.value}"
    if slot.road is RoadKind.JUNCTION and slot.lane is AdversaryLane.CROSSING_ROAD:
        return f"{where}, ahead_m [5, 5]"
    rooms = " or ".join(f"{low:.1f} to {high:.1f}" for low, high in ((a + 0.05, b - 0.05) for a, b in slot.rooms))
    return f"{where}, ahead_m within {rooms}"


def schema_of(site: ThreatSite) -> str:
    """A JSON schema of ThreatSpec on one line: enums narrowed to what this route has room for, intervals as pairs."""
    found = [slot for group in _by_behaviour(site).values() for slot in group]
    pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}

    weather = {k: {**pair, "description": "degrees, -60 to 90" if k.startswith("sun") else "percent"}
               for k in ThreatConditions.model_fields}  # fmt: skip
    trigger = {**pair, "description": "seconds (0.5 to 8) or metres (4 to 60) from the ego to the meeting place"}
    place = {
        "side": _enum(s.side for s in found),
        "lane": _enum(s.lane for s in found),
        "ahead_m": {**pair, "description": "metres, 5 to 80, from the route's trigger, or from the junction's exit"},
    }
    lights = list(EgoLight) if site.control == "signal" else [EgoLight.CYCLE]
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
        "weakness": _enum(TargetWeakness),
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


def _by_behaviour(site: ThreatSite) -> dict[AdversaryBehaviour, list[ThreatSlot]]:
    found: dict[AdversaryBehaviour, list[ThreatSlot]] = {}
    for slot in slots(site):
        found.setdefault(slot.behaviour, []).append(slot)
    return found
