"""The set of generated programs is closed: all bodies are enumerated, and every reply of a model gives one of them.

A program is a body, with numbers masked, and the weather: some of seven parameters in a fixed order, the conditions of
the pictures, and a sentence. The body of a program of several actors is a head and one section per actor. The
enumeration does not use the parser: it covers every combination of words that a ThreatSpec can have, and every outcome
of the conditions on numbers (`covers.in_junction`, `standing.lend`).
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
from closedloop_plugin.threats.fuser.uniform import UniformFuser
from closedloop_plugin.threats.spec import (
    RULES,
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    AdversarySide,
    ContradictorySign,
    EgoLight,
    Occluder,
    RoadKind,
    ThreatActor,
    ThreatConditions,
    ThreatPerception,
    ThreatSpec,
)
from closedloop_plugin.threats.spec_parsing import read_spec
from closedloop_plugin.threats.spec_text import clause, sentence
from closedloop_plugin.threats.templates import crossing as crossing_module
from closedloop_plugin.threats.templates import draft as draft_module
from closedloop_plugin.threats.templates.draft import ProgramDraft
from closedloop_plugin.threats.templates.program import TEMPLATES, program
from closedloop_plugin.threats.words import apart

PAGE = REPO / "docs" / "security.md"
LENDS, LENDS_NOT = site(), site(left=1)  # whether the oncoming lane is the only way past an obstacle
MERGE = crossing(topology="merge", length_m=160.0, control="none")
SITES = (LENDS, LENDS_NOT, site(left=1, right=1), crossing(), MERGE)
EDGE_GAPS, DOOR_GAPS = (-17.5, -10.5, 4.2), (-9.5, 9.5)  # of parked cars, left out within a junction
CONDITIONS = (*ThreatConditions.model_fields, *ThreatPerception.model_fields)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
WEATHER = re.compile(r"param (\w+) = N +# (?:%|degrees above the horizon): as CARLA's weather parameter\n")


SIGHT = re.compile(
    r"param (worn_markings|sun_glare|lens_drops|hidden_signs) = N +# %: [a-z ]+\n"
    r'|param contradictory_sign = "(stop|no_entry|speed_N)" +# a plate beside the road\n'
)
GLARE = "param sun_azimuth_angle = azimuth_ahead(stage.trigger_s)\n"
OTHER = {
    "adversary": "car", "behaviour": "tailgate", "place": {"side": "behind", "lane": "own", "ahead_m": 20},
    "trigger": {"value": 3}, "road": "open",
}  # fmt: skip


@dataclass(frozen=True)
class ProgramSkeleton:
    """A program with numbers, suite and route masked; weather, conditions and sections separate from the body."""

    body: str
    weather: tuple[str, ...]
    sky: str
    sections: tuple[str, ...] = ()  # of several actors


def masked(text: str) -> str:
    text = re.sub(r"Range\(N, N\)|N to N", "N", NUMBER.sub("N", text.replace("speed_90", "speed_N")))
    return re.sub(r"^(param \w+ = N) +#", r"\1 #", text, flags=re.MULTILINE)


def section(number: int, params: Sequence[str], lines: Sequence[str], head: str) -> str:
    """One actor's part, masked, with the names of a first actor."""
    own = [re.sub(rf"\b(\w+)_{number}\b", r"\1", line) if number > 1 else line for line in (*params, *lines)]
    return masked("\n".join([head, *own])).rstrip()


def skeleton(text: str) -> ProgramSkeleton:
    text = re.sub(r'^param route = "[^"\s:\\]+:[\w.-]+"$', 'param route = "R"', text, count=1, flags=re.MULTILINE)
    head, _, rest = masked(text).removeprefix('"""').partition('"""')
    first, _, sky = head.partition(". ")
    weather = tuple(WEATHER.findall(rest))
    rest = SIGHT.sub("", WEATHER.sub("", rest)).replace(GLARE, "")
    if not (parts := re.split(r"^# (\d)\. ", text, flags=re.MULTILINE))[1:]:
        return ProgramSkeleton(f"{first.rstrip('.')}\n{rest}", weather, sky)
    # Several actors: each one's parameters and lines, and what is left of the head.
    kept, sections = masked(parts[0]).partition('"""\n')[2], []
    kept = SIGHT.sub("", WEATHER.sub("", kept)).replace(GLARE, "")
    declared = re.findall(r"^param .*$", parts[0], flags=re.MULTILINE)
    for number, part in zip(map(int, parts[1::2]), parts[2::2], strict=True):
        ending = re.compile(rf"param \w+?_{number} = " if number > 1 else r"param (?!\w+_[23] )\w+ = ")
        fixed = ("route", "red_for", "contradictory_sign", "sun_azimuth_angle", *CONDITIONS)
        params = [p for p in declared if ending.match(p) and p.split()[1] not in fixed]
        clause_, _, lines = part.partition("\n")
        sections.append(section(number, params, lines.rstrip().splitlines(), clause_))
        for line in params:
            kept = kept.replace(masked(line) + "\n", "", 1)
    return ProgramSkeleton(kept.rstrip(), weather, sky, tuple(sections))


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
                for module in (draft_module, crossing_module):
                    patched.setattr(module, "in_junction", lambda draft, gap, long, out=excluded: gap in out)
                found.add(skeleton(program(spec, where)).body)
    return frozenset(found)


@pytest.fixture(scope="module")
def sections() -> frozenset[str]:
    """The section of every actor of a program of several; the other actor changes nothing in it."""
    found = set()
    for words in word_choices():
        try:
            spec = ThreatSpec.model_validate({**words, "further": []})
        except ValidationError:
            continue
        spec = spec.model_copy(update={"further": (ThreatActor.model_validate(OTHER),)})
        for excluded, where in itertools.product(outcomes(spec), (LENDS, LENDS_NOT)):
            with pytest.MonkeyPatch.context() as patched:
                for module in (draft_module, crossing_module):
                    patched.setattr(module, "in_junction", lambda draft, gap, long, out=excluded: gap in out)
                draft = ProgramDraft(spec, where)
                TEMPLATES[spec.behaviour](draft)
            found.add(section(1, draft.params, draft.lines, f"{clause(spec, alone=False)}."))
    return frozenset(found)


@pytest.fixture(scope="module")
def heads() -> frozenset[str]:
    """What a program of several actors has besides their sections: the route, the light, the ego."""
    found = set()
    for light in EgoLight:
        words = {"road": "junction", "ego_light": light, "occluder": "none"}
        spec = ThreatSpec.model_validate(valid_spec(**words, further=[valid_spec_of_cross()]))
        found.add(skeleton(program(spec, crossing())).body)
    return frozenset(found)


def valid_spec_of_cross() -> dict[str, Any]:
    return {"adversary": "child", "behaviour": "cross", "place": {"side": "left", "lane": "pavement", "ahead_m": 60},
            "trigger": {"value": 2}, "road": "junction", "speed_mps": 2}  # fmt: skip


@pytest.fixture(scope="module")
def skies() -> frozenset[str]:
    """Every sentence about sky and light."""
    found = set()
    values = ((None, -10, 5, 45), (None, 10, 40, 80), (None, 10, 30, 60), EgoLight)
    names = ("worn_markings", "sun_glare", "lens_drops", "hidden_signs")
    sights = [
        ThreatPerception.model_validate({"contradictory_sign": sign, **dict.fromkeys(chosen, 50)})
        for sign in ContradictorySign
        for count_ in range(5)
        for chosen in itertools.combinations(names, count_)
    ]
    for sun, rain, fog, light in itertools.product(*values):
        sky = {"sun_altitude_angle": sun, "precipitation": rain, "fog_density": fog}
        spec = ThreatSpec.model_validate(valid_spec(road="junction", ego_light=light, conditions=sky))
        for sight in sights:
            text = sentence(spec.model_copy(update={"perception": sight}))
            found.add(masked(text.partition(". ")[2]))
    return frozenset(found)


@dataclass(frozen=True)
class KnownPrograms:
    """The enumerated parts of programs."""

    bodies: frozenset[str]
    sections: frozenset[str]
    heads: frozenset[str]
    skies: frozenset[str]

    def have(self, found: ProgramSkeleton) -> bool:
        """Whether body, sections, weather and sentence are enumerated ones."""
        names = [name for name in ThreatConditions.model_fields if name in found.weather]
        whole = self.heads if found.sections else self.bodies
        parts = found.body in whole and set(found.sections) <= self.sections
        return parts and list(found.weather) == names and found.sky in self.skies


@pytest.fixture(scope="module")
def known(
    bodies: frozenset[str], sections: frozenset[str], heads: frozenset[str], skies: frozenset[str]
) -> KnownPrograms:
    return KnownPrograms(bodies, sections, heads, skies)


def test_the_page_states_the_size_of_the_set(known: KnownPrograms) -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    assert f"{len(known.bodies):,} program bodies" in page
    assert f"{len(known.sections):,} sections" in page
    assert f"2^{len(ThreatConditions.model_fields)} choices of weather parameters" in page
    assert f"{2**4 * len(ContradictorySign)} choices of conditions of the pictures" in page
    assert f"{len(known.skies):,} sentences" in page


def test_bodies_contain_only_words_of_the_templates(bodies: frozenset[str], sections: frozenset[str]) -> None:
    """Quoted texts are words of the vocabulary or fixed ones; calls are of functions that the templates name."""
    enums = (Adversary, Occluder, AdversarySide)
    words = {word.value for enum in enums for word in enum} | {"R", "time", "distance", "green", "red", "siren",
             "hazard", "cone", "static.prop.container", "static.prop.advertisement", "act N"}  # fmt: skip
    quoted = {text for body in bodies | sections for text in re.findall(r'"([^"]*)"', body)}
    assert quoted <= words
    called = {name for body in bodies | sections for name in re.findall(r"\b(\w+)\(", body.partition("\n")[2])}
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
    if dice.random() < 0.3:
        spec |= {"further": [_some_further(dice, slot, possible)], "occluder": "none"}
        spec["occluder"] = dice.choice(slot.occluders) if Occluder.NONE not in slot.occluders else "none"
    sight = {name: sorted(dice.uniform(0, 80) for _ in "ab") for name in ("worn_markings", "lens_drops")}
    sight["contradictory_sign"] = dice.choice(list(ContradictorySign))
    spec["perception"] = {name: value for name, value in sight.items() if dice.random() < 0.3}
    return _attacked(dice, spec)


def _some_further(dice: random.Random, first: ThreatSlot, possible: Sequence[ThreatSlot]) -> dict[str, Any]:
    """Another actor, usually one that goes together with the first."""
    fitting = [slot for slot in possible if apart(first.behaviour, slot.behaviour) is not None]
    slot = dice.choice(fitting or possible)
    low, high = dice.choice(slot.rooms)
    numbers = {"speed_mps": 3.0, "stays_s": 5.0}
    return {
        "adversary": dice.choice(slot.adversaries), "behaviour": slot.behaviour, "road": slot.road,
        "place": {"side": slot.side, "lane": slot.lane, "ahead_m": dice.uniform(low, min(high, 80.0))},
        "trigger": {"value": dice.uniform(0.5, 8.0)}, "occluder": dice.choice(slot.occluders),
        **{name: value for name, value in numbers.items() if name in RULES[slot.behaviour].numbers},
    }  # fmt: skip


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
    known: KnownPrograms, record_property: Callable[[str, object], None]
) -> None:
    programs, several, found = 0, 0, set()
    replies, possible = count(100_000), [(where, slots(where)) for where in SITES]
    for number in range(replies):
        dice = random.Random(number)
        where, found_slots = dice.choice(possible)
        read = read_spec(some_reply(dice, found_slots), where)
        if read.spec is None:
            assert read.problems
            continue
        shape = skeleton(program(read.spec, where))
        assert known.have(shape), (number, shape)
        programs += 1
        several += bool(shape.sections)
        found.add(shape.body)
    assert programs > replies / 4 and several > replies / 200
    record_property("replies", replies)
    record_property("programs", programs)
    record_property("different bodies", len(found))


def test_answers_with_code_give_an_enumerated_program(known: KnownPrograms) -> None:
    """The fuser without a model searches the target's predictions for words, and quotes them."""
    for number in range(100):
        dice = random.Random(number)
        texts = tuple(f"{dice.choice(CODE)} A car is ahead. {dice.choice(CODE)}" for _ in range(3))
        where = dice.choice(SITES)
        for fuser in (RulesFuser(), UniformFuser()):
            (made,) = fuser.make([threat_request(where, texts, seed=number)])  # type: ignore[arg-type]
            assert made.spec is not None and known.have(skeleton(program(made.spec, where))), made.spec


def test_other_programs_are_not_in_the_set(known: KnownPrograms) -> None:
    """The check must be able to fail."""
    text = program(ThreatSpec.model_validate(valid_spec()), LENDS)
    assert known.have(skeleton(text))
    for old, new in (
        ('"child"', '"chick"'), ("ego = new", "import os\nego = new"), ("Range(30, 45)", "Range(30, id())"),
        ("A child", "A chick"), ("param ahead", "param wetness = 5 # %: x\nparam ahead"),
    ):  # fmt: skip
        assert old in text and not known.have(skeleton(text.replace(old, new, 1)))
