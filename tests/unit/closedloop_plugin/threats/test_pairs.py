"""Specs of several actors: which go together, where there is room, and how their programs keep them apart."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError
from support.threats.threat_requests import crossing, site, valid_spec

from closedloop_plugin.threats.pairs import APART_M, apart, companions
from closedloop_plugin.threats.site import fit
from closedloop_plugin.threats.spec import AdversaryBehaviour, ThreatSpec
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.templates.program import program

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
CROSSES = {
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
        (LEAD, [CROSSES], "further.0.behaviour: cross does not act together with brake_hard; expected one of oncoming"),
        (LEAD, [FOLLOWER | {"speed_mps": 3}], "further.0.speed_mps: behaviour tailgate has no use for it"),
        (LEAD, [FOLLOWER | {"adversary": "child"}], "further.0.adversary: child does not go with behaviour tailgate"),
        (LEAD, [ONCOMING | {"place": ONCOMING["place"] | {"lane": "own"}}], "stays in its lane; expected oncoming"),  # type: ignore[operator]
        (valid_spec(), [CROSSES | {"occluder": "bus"}], "is parked at the roadside already; expected none"),
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
    assert fit(spec(valid_spec(), CROSSES), site()) == []
    near = CROSSES | {"place": CROSSES["place"] | {"ahead_m": [47, 50]}}  # type: ignore[operator]
    assert fit(spec(valid_spec(), near), site()) == [
        "further.0.place.ahead_m: cross needs 6 m along the road between its place and that of cross"
    ]
    assert any(
        "further.0.behaviour: this road has no oncoming lane" in p for p in fit(spec(LEAD, ONCOMING), site(oncoming=0))
    )
    # Distances count across the junction: 15 m after its exit is 61 m along this route, 16 m behind the other place.
    behind = CROSSES | {"road": "junction", "place": CROSSES["place"] | {"ahead_m": 15}}  # type: ignore[operator]
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
