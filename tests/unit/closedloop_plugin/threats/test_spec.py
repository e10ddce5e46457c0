"""ThreatSpec is closed: other input is refused, and programs contain only known words and finite numbers."""

from __future__ import annotations

import ast
import io
import itertools
import math
import re
import tokenize
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.threats.threat_requests import crossing, site, valid_spec
from support.tiers import examples

from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import (
    ON_FOOT,
    RULES,
    Adversary,
    AdversaryBehaviour,
    AdversaryLane,
    AdversarySide,
    EgoLight,
    Occluder,
    ParameterRange,
    RoadKind,
    TargetWeakness,
    ThreatConditions,
    ThreatSpec,
    clashes,
)
from closedloop_plugin.threats.spec_text import ACTS, sentence
from closedloop_plugin.threats.templates.program import TEMPLATES, program
from closedloop_plugin.threats.words import APART_M, apart, companions

CORRIDOR = ThreatSite(
    suite="demo", route="101", scenario="X", town="Town01", map="corridor", length_m=134.0, trigger_s=12.0,
    speed_limit=13.9, lane_width=3.5, left=1, right=0, oncoming=1, topology="corridor",
)  # fmt: skip
ONE_WAY = CORRIDOR.model_copy(update={"left": 0, "right": 1, "oncoming": 0})
CROSSING = CORRIDOR.model_copy(
    update={
        "left": 0, "topology": "junction", "length_m": 78.0, "trigger_s": 6.0, "junction": (22.0, 52.0),
        "control": "signal",
    }
)  # fmt: skip
MERGE = CROSSING.model_copy(update={"topology": "merge", "length_m": 160.0, "control": "none", "oncoming": 0})
SITES = {"corridor": CORRIDOR, "one way": ONE_WAY, "junction": CROSSING, "merge": MERGE}

CUT_IN: dict[str, Any] = {
    "adversary": "car",
    "behaviour": "cut_in",
    "place": {"side": "left", "lane": "next_left", "ahead_m": [20, 40]},
    "trigger": {"kind": "time", "value": [1.5, 3]},
    "road": "open",
    "speed_mps": [4, 8],
    "weakness": "planning",
    "description": "A car cuts in.",
}
CROSSES: dict[str, Any] = CUT_IN | {
    "adversary": "child",
    "behaviour": "cross",
    "place": {"side": "right", "lane": "pavement", "ahead_m": [20, 40]},
    "speed_mps": 1.5,
}
HOSTILE = (
    '"""\nimport os; os.system("id")\n"""', "'; DROP", "\\", "{spec}", "%s", "<script>", "\x00", "param x = 1",
    "🙂" * 20, "Range(0, 1)", "__import__('os')", "car\nnew Car",
)  # fmt: skip


def changed(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with one field, "place.side", set."""
    first, _, rest = path.partition(".")
    return spec | {first: changed(spec.get(first, {}), rest, value) if rest else value}


def refusal(spec: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        ThreatSpec.model_validate(spec)
    return str(caught.value)


# -- the vocabulary ----------------------------------------------------------------------------------------------------


def test_valid_specs_are_accepted() -> None:
    assert ThreatSpec.model_validate(CUT_IN).place.ahead_m == ParameterRange(low=20, high=40)
    assert ThreatSpec.model_validate(CROSSES).speed_mps == ParameterRange(low=1.5, high=1.5)


WORDS = (
    "adversary",
    "behaviour",
    "place.side",
    "place.lane",
    "road",
    "occluder",
    "ego_light",
    "weakness",
    "trigger.kind",
)


@pytest.mark.parametrize("field", WORDS)
@pytest.mark.parametrize("value", [*HOSTILE, "", 1, True, None, [], {}, "CAR"])
def test_values_outside_the_vocabulary_are_refused(field: str, value: Any) -> None:
    assert field.split(".")[-1] in refusal(changed(CUT_IN, field, value))


@pytest.mark.parametrize("where", ["", "place.", "trigger.", "conditions."])
@pytest.mark.parametrize("name", ["program", "__class__", "param x"])
def test_unknown_fields_are_refused(where: str, name: str) -> None:
    assert "Extra inputs are not permitted" in refusal(changed(CUT_IN, where + name, 1))


NUMBERS = ("place.ahead_m", "trigger.value", "speed_mps", "conditions.fog_density", "conditions.sun_altitude_angle")
BAD = [
    math.nan, math.inf, -math.inf, True, [False, True], "import os", ["1", "import os"], [1], [1, 2, 3], [5, 4],
    [math.nan, 3], [1, math.inf], -1e9, 1e300, [], {"low": 1}, {"low": 1, "high": 2, "text": "x"}, ["6", "7"],
    {"low": "a", "high": 2}, {"low": 6, "high": True},
]  # fmt: skip


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_invalid_numbers_are_refused(field: str, value: Any) -> None:
    refusal(changed(CUT_IN, field, value))


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [("place.ahead_m", 5, 80), ("speed_mps", 0.3, 18), ("conditions.wetness", 0, 100),
     ("conditions.sun_altitude_angle", -60, 90), ("trigger.value", 0.5, 8)],
)  # fmt: skip
def test_numbers_have_limits(field: str, low: float, high: float) -> None:
    ThreatSpec.model_validate(changed(CUT_IN, field, [low, high]))
    for wrong in ([low - 0.01, high], [low, high + 0.01]):
        assert f"{low:g} to {high:g}" in refusal(changed(CUT_IN, field, wrong))


def test_a_trigger_by_distance_has_its_own_limits() -> None:
    ThreatSpec.model_validate(CUT_IN | {"trigger": {"kind": "distance", "value": [4, 60]}})
    assert "4 to 60 m" in refusal(CUT_IN | {"trigger": {"kind": "distance", "value": [2, 60]}})


def test_texts_are_bounded() -> None:
    assert "description" in refusal(CUT_IN | {"description": "x" * 601})
    assert "description" in refusal(CUT_IN | {"description": ""})
    assert "why" in refusal(CUT_IN | {"why": "x" * 601})


# -- valid combinations ------------------------------------------------------------------------------------------------


def test_every_behaviour_has_a_rule_a_template_and_a_phrase() -> None:
    assert set(RULES) == set(TEMPLATES) == set(ACTS) == set(AdversaryBehaviour)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"adversary": "cones"}, "adversary: cones does not go with behaviour cut_in; expected one of ambulance"),
        ({"road": "junction"}, "road: junction does not go with behaviour cut_in; expected one of open"),
        ({"occluder": "bus"}, "occluder: bus does not go with"),
        ({"speed_mps": None}, "speed_mps: behaviour cut_in needs it"),
        ({"stays_s": 3}, "stays_s: behaviour cut_in has no use for it"),
        ({"ego_light": "red"}, "ego_light: only a junction has a light"),
        ({"place": CUT_IN["place"] | {"side": "right"}}, "place.side: lane next_left is on the left"),
    ],
)
def test_clashes_are_reported(change: dict[str, Any], says: str) -> None:
    assert says in refusal(CUT_IN | change)


def test_all_clashes_are_reported_at_once() -> None:
    text = refusal(CUT_IN | {"adversary": "cones", "occluder": "bus", "stays_s": 3})
    assert text.count("cut_in") >= 3


# -- the site ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "change", "says"),
    [
        (ONE_WAY, {}, "place.lane: there is no lane on the left; expected next_right"),
        (CORRIDOR, {"place": CUT_IN["place"] | {"side": "right", "lane": "next_right"}}, "expected next_left"),
        (CORRIDOR, {"place": CUT_IN["place"] | {"lane": "roadside"}}, "the roadside of the ego's lane is on the right"),
        (CORRIDOR, CROSSES | {"road": "junction"}, "road: this route has no junction; expected open"),
        (CROSSING, CROSSES, "place.ahead_m: [20, 40] does not lie where there is room for it; expected numbers from"),
        (CORRIDOR.model_copy(update={"length_m": 90.0}), changed(CROSSES, "place.ahead_m", [60, 75]), "from 5 to 68 m"),
        (ONE_WAY, CROSSES | {"place": {"side": "right", "lane": "roadside", "ahead_m": 20}}, "expected next_right"),
        (MERGE, CROSSES | {"road": "junction", "ego_light": "green"}, "ego_light: the junction of this route has no"),
    ],
)  # fmt: skip
def test_specs_that_do_not_fit_the_site_are_reported(site: ThreatSite, change: dict[str, Any], says: str) -> None:
    problems = fit(ThreatSpec.model_validate(CUT_IN | change), site)
    assert any(says in problem for problem in problems), problems


def test_fitting_specs_are_accepted() -> None:
    assert fit(ThreatSpec.model_validate(CUT_IN), CORRIDOR) == []
    behind = changed(CROSSES | {"road": "junction", "ego_light": "red"}, "place.ahead_m", [6, 12])
    assert fit(ThreatSpec.model_validate(behind), CROSSING) == []


# -- the sentence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "A child crosses the road from the right, 20 to 40 m on."),
        (
            {"occluder": "advertisement"},
            "A child crosses the road from the right, 20 to 40 m on, hidden by an advertisement.",
        ),
        (
            {"adversary": "animal", "road": "junction", "ego_light": "red", "conditions": {"fog_density": 60}},
            "An animal crosses the road from the right, 20 to 40 m after the junction. "
            "Thick fog, the ego's light is red first.",
        ),
        (
            {"adversary": "police", "behaviour": "emergency_pass", "place": {"side": "behind", "lane": "own",
             "ahead_m": 20}, "speed_mps": [9, 12]},
            "A police car comes from behind with its siren on and wants to pass, 20 m on.",
        ),
        (
            {"adversary": "debris", "behaviour": "block", "place": {"side": "ahead", "lane": "own", "ahead_m": 20},
             "speed_mps": None, "stays_s": 5},
            "Debris lies in the ego's lane, 20 m on.",
        ),
        (
            {"adversary": "truck", "behaviour": "run_light", "road": "junction", "speed_mps": 8,
             "place": {"side": "left", "lane": "crossing_road", "ahead_m": 5}, "ego_light": "green"},
            "A truck crosses the junction from the left and gives way to nobody. The ego's light stays green.",
        ),
    ],
)  # fmt: skip
def test_the_sentence_of_a_spec(change: dict[str, Any], text: str) -> None:
    assert sentence(ThreatSpec.model_validate(CROSSES | change)) == text


# -- the program -------------------------------------------------------------------------------------------------------


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """JSON of a spec that the rules accept: any valid combination of words, any numbers within their limits."""
    behaviour = draw(st.sampled_from(AdversaryBehaviour))
    rule = RULES[behaviour]

    def one(words: Any) -> str:
        return draw(st.sampled_from(sorted(words)))

    def span(low: float, high: float) -> list[float]:
        return sorted(draw(st.tuples(*[st.floats(low, high)] * 2)))

    side, lane = one(rule.sides), one(rule.lanes)
    if lane in ("next_left", "next_right"):
        side = lane.removeprefix("next_")
    road, adversary = one(rule.roads), one(rule.adversaries)
    fastest = ON_FOOT[adversary] if behaviour is AdversaryBehaviour.CROSS else 18
    kind = one(["time", "distance"])
    text = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=80))
    return {
        "adversary": adversary, "behaviour": behaviour.value, "road": road, "occluder": one(rule.occluders),
        "place": {"side": side, "lane": lane, "ahead_m": span(5, 80)},
        "trigger": {"kind": kind, "value": span(0.5, 8) if kind == "time" else span(4, 60)},
        "speed_mps": span(0.3, fastest) if "speed_mps" in rule.numbers else None,
        "stays_s": span(1, 25) if "stays_s" in rule.numbers else None,
        "ego_light": one(EgoLight) if road == "junction" else "cycle",
        "conditions": {"fog_density": span(0, 100), "sun_altitude_angle": draw(st.floats(-60, 90))},
        "weakness": one(TargetWeakness), "description": draw(text), "why": draw(text),
    }  # fmt: skip


def shifted(spec: dict[str, Any], site: ThreatSite) -> dict[str, Any]:
    """The spec with its place moved onto a stretch of the site."""
    stretches = site.room_ahead() if spec["road"] == "open" else site.room_behind_junction()
    if not stretches:
        return spec
    low, high = stretches[0]
    share = [(value - 5) / 75 for value in spec["place"]["ahead_m"]]
    return changed(spec, "place.ahead_m", [low + part * (high - low) for part in share])


def vocabulary(site: ThreatSite) -> set[str]:
    """Every name and text that the templates write, collected from specs with plain texts."""
    known: set[str] = set()
    choices = itertools.product(
        AdversaryBehaviour, (EgoLight.CYCLE, EgoLight.GREEN, EgoLight.RED), RoadKind, ("time", "distance")
    )
    for behaviour, light, road, kind in choices:
        rule = RULES[behaviour]
        if road not in rule.roads:
            continue
        for adversary, occluder, side, lane in itertools.product(
            rule.adversaries, rule.occluders, rule.sides, rule.lanes
        ):
            spec = {
                "adversary": adversary, "behaviour": behaviour, "road": road, "occluder": occluder, "ego_light": light,
                "place": {"side": side, "lane": lane, "ahead_m": 20}, "trigger": {"kind": kind, "value": 5},
                "speed_mps": 3 if "speed_mps" in rule.numbers else None, "weakness": "planning", "description": "x",
                "stays_s": 5 if "stays_s" in rule.numbers else None,
                "conditions": dict.fromkeys(ThreatConditions.model_fields, 5),
            }  # fmt: skip
            try:
                known |= words_of(program(ThreatSpec.model_validate(spec), site))
            except ValidationError:
                continue
    return known


def words_of(text: str) -> set[str]:
    """Names, operators and string literals of a program's code; AssertionError for a number that is not finite."""
    found: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NUMBER:
            assert math.isfinite(float(token.string)), token
        elif token.type in (tokenize.NAME, tokenize.OP, tokenize.STRING) and not token.string.startswith('"""'):
            found.add(token.string)
    return found


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    return {name: vocabulary(site) for name, site in SITES.items()}


@pytest.mark.integration
@given(data=st.data())
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_program_contains_only_known_words_and_finite_numbers(
    known: dict[str, set[str]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(SITES)))
    site = SITES[name]
    raw = shifted(data.draw(specs()), site)
    spec = ThreatSpec.model_validate(raw)
    if fit(spec, site):
        return
    text = program(spec, site)
    assert text == program(spec, site)
    assert text == program(
        spec.model_copy(update={"description": "y", "why": "", "weakness": TargetWeakness.PLANNING}), site
    )
    assert text.isascii()
    assert "nan" not in text.split('"""')[2]
    assert words_of(text) <= known[name]
    head = ast.literal_eval(text[: text.index("\n")])
    assert re.fullmatch(r"[A-Za-z0-9 ,.'_-]+", head)


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_a_model_are_not_part_of_the_program(text: str) -> None:
    spec = ThreatSpec.model_validate(CROSSES | {"description": text, "why": text})
    assert program(spec, CORRIDOR) == program(ThreatSpec.model_validate(CROSSES), CORRIDOR)


def test_clashes_never_raises_for_known_words() -> None:
    spec = ThreatSpec.model_validate(CUT_IN)
    for adversary, side, lane, occluder in itertools.product(Adversary, AdversarySide, AdversaryLane, Occluder):
        place = spec.place.model_copy(update={"side": side, "lane": lane})
        clashes(spec.model_copy(update={"adversary": adversary, "place": place, "occluder": occluder}))


LEAD: dict[str, Any] = {
    "adversary": "van", "behaviour": "brake_hard", "place": {"side": "ahead", "lane": "own", "ahead_m": [30, 40]},
    "trigger": {"value": [2, 3]}, "road": "open", "stays_s": [3, 6],
}  # fmt: skip
FOLLOWER = {
    "adversary": "truck", "behaviour": "tailgate", "place": {"side": "behind", "lane": "own", "ahead_m": [30, 40]},
    "trigger": {"value": [2, 4]}, "road": "open",
}  # fmt: skip
ONCOMING = {
    "adversary": "car", "behaviour": "oncoming", "place": {"side": "opposite", "lane": "oncoming", "ahead_m": [30, 40]},
    "trigger": {"value": 3}, "road": "open", "speed_mps": [6, 9],
}  # fmt: skip
CHILD = {
    "adversary": "child", "behaviour": "cross", "place": {"side": "left", "lane": "pavement", "ahead_m": [60, 70]},
    "trigger": {"value": 2}, "road": "open", "speed_mps": 2,
}  # fmt: skip


def spec(first: dict[str, Any], *further: dict[str, Any], **more: Any) -> ThreatSpec:
    return ThreatSpec.model_validate({**first, "further": further, "weakness": "planning", "description": "x", **more})


def test_pairs_are_of_known_behaviours_and_mutual() -> None:
    for behaviour in AdversaryBehaviour:
        for other in companions(behaviour):
            assert behaviour in companions(other) and apart(behaviour, other) == apart(other, behaviour)
    assert all(1 <= len(pair) <= 2 for pair in APART_M)
    assert companions(AdversaryBehaviour.EMERGENCY_PASS) == []


@pytest.mark.parametrize(
    ("first", "further", "says"),
    [
        (LEAD, [CHILD], "further.0.behaviour: cross does not act together with brake_hard; expected one of oncoming"),
        (LEAD, [FOLLOWER | {"speed_mps": 3}], "further.0.speed_mps: behaviour tailgate has no use for it"),
        (LEAD, [FOLLOWER | {"adversary": "child"}], "further.0.adversary: child does not go with behaviour tailgate"),
        (LEAD, [ONCOMING | {"place": ONCOMING["place"] | {"lane": "own"}}], "stays in its lane; expected oncoming"),  # type: ignore[operator]
        (valid_spec(), [CHILD | {"occluder": "bus"}], "is parked at the roadside already; expected none"),
        (LEAD, [FOLLOWER] * 3, "at most 2 items"),
        (LEAD, [FOLLOWER, FOLLOWER], "further.1.behaviour: tailgate does not act together with tailgate"),
    ],
)  # fmt: skip
def test_actors_that_do_not_go_together_are_refused(
    first: dict[str, Any], further: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        spec(first, *further)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["program", "further", "ego_light"])
def test_a_further_actor_has_no_other_fields(name: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        spec(LEAD, FOLLOWER | {name: []})


def test_the_site_must_have_room_for_every_actor() -> None:
    assert fit(spec(LEAD, FOLLOWER), site()) == []
    assert fit(spec(valid_spec(), CHILD), site()) == []
    near = CHILD | {"place": CHILD["place"] | {"ahead_m": [47, 50]}}  # type: ignore[operator]
    assert fit(spec(valid_spec(), near), site()) == [
        "further.0.place.ahead_m: cross needs 6 m along the road between its place and that of cross"
    ]
    assert any(
        "further.0.behaviour: this road has no oncoming lane" in p for p in fit(spec(LEAD, ONCOMING), site(oncoming=0))
    )
    # Distances count across the junction: 15 m after its exit is 61 m along this route, 16 m behind the other place.
    behind = CHILD | {"road": "junction", "place": CHILD["place"] | {"ahead_m": 15}}  # type: ignore[operator]
    before = valid_spec(place={"side": "right", "lane": "pavement", "ahead_m": [8, 10]})
    assert fit(spec(before, behind), crossing()) == []


def test_a_program_names_every_actor_apart() -> None:
    text = program(spec(LEAD, FOLLOWER, ego_light="cycle"), site())
    assert text.startswith(
        '"""A van drives ahead of the ego and brakes to a standstill, 30 to 40 m on, and a truck follows the ego much '
        'too closely, 30 to 40 m on."""'
    )
    assigned = re.findall(r"^(?:param )?(\w+) = ", text, re.M)
    assert len(assigned) == len(set(assigned))
    assert {"ahead", "due", "ahead_2", "due_2", "gap_2", "where", "lead", "where_2", "follower_2"} <= set(assigned)
    assert re.findall(r'with acts_as "(.*?)"', text) == ["act 1", "act 2"]
    assert "SlowDown" not in text  # the van is the reason to brake
    assert re.findall(r"^# .*$", text, re.M) == [
        "# 1. A van drives ahead of the ego and brakes to a standstill, 30 to 40 m on.",
        "# 2. A truck follows the ego much too closely, 30 to 40 m on.",
    ]


def test_an_oncoming_vehicle_among_others_stays_in_its_lane() -> None:
    both = spec(LEAD, ONCOMING)
    assert "comes towards the ego in the oncoming lane" in sentence(both)
    assert "oncoming_lane())," in program(both, site()).replace(" with acts_as", "")
    assert "param over = Range(0.8, 1.4)" in program(spec(ONCOMING), site())


def test_one_actor_is_written_as_before() -> None:
    text = program(spec(FOLLOWER), site())
    assert "acts_as" not in text and "# 1." not in text and "SlowDown(where, " in text
    assert "while a car ahead slows down" in text


def test_a_stored_spec_without_the_new_fields_is_read() -> None:
    old = spec(LEAD).model_dump_json(exclude={"further", "perception"})
    assert ThreatSpec.model_validate_json(old) == spec(LEAD)
    stored = spec(LEAD, FOLLOWER, perception={"worn_markings": [40, 80], "contradictory_sign": "stop"})
    assert ThreatSpec.model_validate_json(stored.model_dump_json()) == stored


# -- conditions of the pictures ----------------------------------------------------------------------------------------

LOW = {"sun_altitude_angle": [10, 15], "cloudiness": [0, 20]}


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        ({"perception": {"hidden_signs": 50}}, {}, "perception.hidden_signs: this route has no sign or light"),
        ({"perception": {"sun_glare": 50}}, {}, "expected conditions.sun_altitude_angle 1 to 20"),
        ({"perception": {"sun_glare": 50}, "conditions": LOW | {"fog_density": 60}}, {}, "fog_density 0 to 25"),
        ({"perception": {"worn_markings": 50}}, {"shows": ("lens_drops",)}, "this world does not show it"),
        ({"perception": {"contradictory_sign": "stop"}}, {"control": "stop"}, "has a stop sign of its own"),
    ],
)  # fmt: skip
def test_conditions_that_a_site_cannot_show(change: dict[str, Any], where: dict[str, Any], says: str) -> None:
    assert any(says in problem for problem in fit(spec(LEAD, **change), site(**where)))


def test_conditions_are_parameters_of_the_program() -> None:
    sight = {"worn_markings": [40, 80], "sun_glare": 90, "contradictory_sign": "no_entry"}
    made = spec(LEAD, perception=sight, conditions=LOW)
    assert fit(made, site()) == []
    text = program(made, site())
    assert "param worn_markings = Range(40, 80)        # %: of the road markings are worn off" in text
    assert "param sun_glare = 90 " in text and 'param contradictory_sign = "no_entry"' in text
    assert "param sun_azimuth_angle = azimuth_ahead(stage.trigger_s)" in text
    assert sentence(made).endswith(
        "Worn lane markings, glare of the sun ahead, a no entry sign that contradicts the road."
    )


@pytest.mark.parametrize("sight", [{"lens_drops": 81}, {"worn_markings": [50, 101]}, {"contradictory_sign": "90"}])
def test_conditions_are_bounded(sight: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        spec(LEAD, perception=sight)
