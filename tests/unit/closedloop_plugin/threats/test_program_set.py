"""The set of generated programs is closed: all bodies are enumerated, and every reply of a model gives one of them.

A program is a body, with numbers masked, and the weather: some of seven parameters in a fixed order, and a sentence.
The enumeration does not use the parser: it covers every combination of words that a ThreatSpec can have, and every
outcome of the conditions on numbers (`covers.in_junction`, `standing.lend`).
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import ValidationError
from support.running import REPO
from support.threats.threat_requests import crossing, site, threat_request, valid_spec
from support.tiers import count

from closedloop_plugin.threats.fuser.rules import RulesFuser
from closedloop_plugin.threats.fuser.slots import ThreatSlot, slots
from closedloop_plugin.threats.spec import (
    RULES,
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    AdversarySide,
    EgoLight,
    Occluder,
    RoadKind,
    ThreatConditions,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_parsing import read_spec
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.templates import covers
from closedloop_plugin.threats.templates.program import program

PAGE = REPO / "docs" / "security.md"
LENDS, LENDS_NOT = site(), site(left=1)  # whether the oncoming lane is the only way past an obstacle
MERGE = crossing(topology="merge", length_m=160.0, control="none")
SITES = (LENDS, LENDS_NOT, site(left=1, right=1), crossing(), MERGE)
EDGE_GAPS, DOOR_GAPS = (-17.5, -10.5, 4.2), (-9.5, 9.5)  # of parked cars, left out within a junction
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
WEATHER = re.compile(r"param (\w+) = N +# (?:%|degrees above the horizon): as CARLA's weather parameter\n")


@dataclass(frozen=True)
class ProgramSkeleton:
    """A program with numbers, suite and route masked; weather separate from the body."""

    body: str
    weather: tuple[str, ...]
    sky: str


def skeleton(text: str) -> ProgramSkeleton:
    text = re.sub(r'^param route = "[^"\s:\\]+:[\w.-]+"$', 'param route = "R"', text, count=1, flags=re.MULTILINE)
    text = re.sub(r"Range\(N, N\)|N to N", "N", NUMBER.sub("N", text))
    text = re.sub(r"^(param \w+ = N) +#", r"\1 #", text, flags=re.MULTILINE)
    head, _, rest = text.removeprefix('"""').partition('"""')
    first, _, sky = head.partition(". ")
    return ProgramSkeleton(f"{first.rstrip('.')}\n{WEATHER.sub('', rest)}", tuple(WEATHER.findall(rest)), sky)


def word_choices() -> Iterator[dict[str, Any]]:
    """Every combination of words that the rules of a behaviour allow, with some numbers."""
    for behaviour, rule in RULES.items():
        for adversary, occluder, side, lane, road, light, kind in itertools.product(
            rule.adversaries, rule.occluders, rule.sides, rule.lanes, rule.roads, EgoLight, ("time", "distance")
        ):
            yield {
                "adversary": adversary, "behaviour": behaviour, "road": road, "occluder": occluder, "ego_light": light,
                "place": {"side": side, "lane": lane, "ahead_m": 20}, "trigger": {"kind": kind, "value": 5},
                "speed_mps": 3 if "speed_mps" in rule.numbers else None, "weakness": "planning", "description": "x",
                "stays_s": 5 if "stays_s" in rule.numbers else None,
            }  # fmt: skip


def outcomes(spec: ThreatSpec) -> Iterator[frozenset[float]]:
    """Every set of parked cars that a junction can exclude."""
    gaps: tuple[float, ...] = DOOR_GAPS if spec.behaviour is AdversaryBehaviour.OPEN_DOOR else ()
    if spec.behaviour is AdversaryBehaviour.CROSS and spec.occluder is Occluder.PARKED_CARS:
        gaps = EDGE_GAPS
    for kept in itertools.product((False, True), repeat=len(gaps)):
        yield frozenset(itertools.compress(gaps, kept))


@pytest.fixture(scope="module")
def bodies() -> frozenset[str]:
    """The body of every program."""
    found = set()
    for words in word_choices():
        try:
            spec = ThreatSpec.model_validate(words)
        except ValidationError:  # words that do not go together, e.g. a light without a junction
            continue
        for excluded, where in itertools.product(outcomes(spec), (LENDS, LENDS_NOT)):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(covers, "in_junction", lambda draft, gap, long, out=excluded: gap in out)
                found.add(skeleton(program(spec, where)).body)
    return frozenset(found)


@pytest.fixture(scope="module")
def skies() -> frozenset[str]:
    """Every sentence about sky and light."""
    found = set()
    values = ((None, -10, 5, 45), (None, 10, 40, 80), (None, 10, 30, 60), EgoLight)
    for sun, rain, fog, light in itertools.product(*values):
        sky = {"sun_altitude_angle": sun, "precipitation": rain, "fog_density": fog}
        junction = {"road": "junction", "ego_light": light, "conditions": sky}
        found.add(sentence(ThreatSpec.model_validate(valid_spec(**junction))).partition(". ")[2])
    return frozenset(found)


def is_known(found: ProgramSkeleton, bodies: frozenset[str], skies: frozenset[str]) -> bool:
    """Whether body, weather and sentence are enumerated ones."""
    names = [name for name in ThreatConditions.model_fields if name in found.weather]
    return found.body in bodies and list(found.weather) == names and found.sky in skies


def test_the_page_states_the_size_of_the_set(bodies: frozenset[str], skies: frozenset[str]) -> None:
    assert f"{len(bodies):,} program bodies" in PAGE.read_text("utf-8")
    assert f"2^{len(ThreatConditions.model_fields)} choices of weather parameters" in PAGE.read_text("utf-8")
    assert f"{len(skies)} sentences" in PAGE.read_text("utf-8")


def test_bodies_contain_only_words_of_the_templates(bodies: frozenset[str]) -> None:
    """Quoted texts are words of the vocabulary or fixed ones; calls are of functions that the templates name."""
    enums = (Adversary, Occluder, AdversarySide)
    words = {word.value for enum in enums for word in enum} | {"R", "time", "distance", "green", "red", "siren",
             "hazard", "cone", "static.prop.container", "static.prop.advertisement"}  # fmt: skip
    quoted = {text for body in bodies for text in re.findall(r'"([^"]*)"', body)}
    assert quoted <= words
    called = {name for body in bodies for name in re.findall(r"\b(\w+)\(", body.partition("\n")[2])}
    assert not called & {"eval", "exec", "open", "compile", "getattr", "simulator", "localPath"}
    assert all("import" not in body.replace("from closedloop_plugin.scenarios.actions import *", "") for body in bodies)


CODE = (
    '"""\nimport os; os.system("id")\n"""', "__import__('os').system('id')", "car\nnew Car at (0, 0)", "Range(0, 1)",
    "1); import os; print(", "require False", "{{7*7}}", "%s%n", "../../etc/passwd", "param x = 1", "N", "\x00",
    "globalParameters.ahead", '"), with behavior Evil(), ("',
)  # fmt: skip


def some_reply(dice: random.Random, possible: Sequence[ThreatSlot]) -> str:
    """A reply: one of the possible specs of a site with random numbers, often with code in a field, or damaged."""
    slot = dice.choice(possible)
    rule = RULES[slot.behaviour]
    low, high = dice.choice(slot.rooms)
    ahead = sorted(dice.uniform(low, min(high, 80.0)) for _ in range(2))
    kind, due = dice.choice((("time", (0.5, 8.0)), ("distance", (4.0, 60.0))))
    light = dice.choice(list(EgoLight)) if slot.road is RoadKind.JUNCTION else EgoLight.CYCLE
    sky = {name: dice.uniform(0, 90) for name in ThreatConditions.model_fields if dice.random() < 0.5}
    spec: dict[str, Any] = {
        "adversary": dice.choice(slot.adversaries), "behaviour": slot.behaviour, "road": slot.road,
        "place": {"side": slot.side, "lane": slot.lane, "ahead_m": dice.choice((ahead, ahead[0]))},
        "trigger": {"kind": kind, "value": sorted(dice.uniform(*due) for _ in "ab")},
        "occluder": dice.choice(slot.occluders), "ego_light": light, "conditions": sky, "weakness": "perception",
        "description": dice.choice(CODE), "why": dice.choice(CODE),
    }  # fmt: skip
    for name, limits in (("speed_mps", (0.3, 4.0)), ("stays_s", (1.0, 25.0))):
        if name in rule.numbers:
            spec[name] = sorted(dice.uniform(*limits) for _ in "ab")
    return _attacked(dice, spec)


def _attacked(dice: random.Random, spec: dict[str, Any]) -> str:
    """The reply as JSON, in four of six cases with code as a value or key, another word, or code within the text."""
    attack = dice.randrange(6)
    holder = dice.choice((spec, spec["place"], spec["trigger"], spec["conditions"]))
    if attack == 2:
        code = dice.choice(CODE)
        holder[dice.choice(sorted(holder) or ["x"])] = dice.choice((code, [1, code], {"low": 1, "x": code}))
    elif attack == 3:
        holder[dice.choice(CODE)] = 1
    elif attack == 4:
        enum = dice.choice((Adversary, AdversaryBehaviour, AdversaryLane, AdversarySide, Occluder))
        name = {Adversary: "adversary", AdversaryBehaviour: "behaviour", Occluder: "occluder"}.get(enum)
        target, key = (spec, name) if name else (spec["place"], "lane" if enum is AdversaryLane else "side")
        target[key] = dice.choice(list(enum))
    text = json.dumps(spec)
    if attack == 5:
        at = dice.randrange(len(text))
        text = text[:at] + dice.choice(CODE) + text[at + dice.randrange(3) :]
    return dice.choice(("", "Here it is:\n```json\n", dice.choice(CODE))) + text


@pytest.mark.soak
def test_every_reply_gives_an_enumerated_program_or_none(
    bodies: frozenset[str], skies: frozenset[str], record_property: Callable[[str, object], None]
) -> None:
    programs, found = 0, set()
    replies, possible = count(100_000), [(where, slots(where)) for where in SITES]
    for number in range(replies):
        dice = random.Random(number)
        where, found_slots = dice.choice(possible)
        read = read_spec(some_reply(dice, found_slots), where)
        if read.spec is None:
            assert read.problems
            continue
        shape = skeleton(program(read.spec, where))
        assert is_known(shape, bodies, skies), (number, shape)
        programs += 1
        found.add(shape.body)
    assert programs > replies / 3
    record_property("replies", replies)
    record_property("programs", programs)
    record_property("different bodies", len(found))


def test_answers_with_code_give_an_enumerated_program(bodies: frozenset[str], skies: frozenset[str]) -> None:
    """The fuser without a model reads keywords of the target's answers."""
    for number in range(100):
        dice = random.Random(number)
        texts = tuple(f"{dice.choice(CODE)} A car is ahead. {dice.choice(CODE)}" for _ in range(3))
        where = dice.choice(SITES)
        (made,) = RulesFuser().make([threat_request(where, texts, seed=number)])  # type: ignore[arg-type]
        assert made.spec is not None and is_known(skeleton(program(made.spec, where)), bodies, skies)


def test_other_programs_are_not_in_the_set(bodies: frozenset[str], skies: frozenset[str]) -> None:
    """The check must be able to fail."""
    text = program(ThreatSpec.model_validate(valid_spec()), LENDS)
    assert is_known(skeleton(text), bodies, skies)
    for old, new in (
        ('"child"', '"chick"'), ("ego = new", "import os\nego = new"), ("Range(30, 45)", "Range(30, id())"),
        ("A child", "A chick"), ("param ahead", "param wetness = 5 # %: x\nparam ahead"),
    ):  # fmt: skip
        assert old in text and not is_known(skeleton(text.replace(old, new, 1)), bodies, skies)
