"""Replies with keys and values: JSON, lists, tables and sentences."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.driver.interpreters.parsing.instruction import (
    REASONS,
    DrivingInstruction,
    UnclearInstruction,
    parse_instruction,
)
from closedloop_plugin.driver.interpreters.parsing.key_values import PairFindings, UnclearValue, read_pair, read_part
from closedloop_plugin.driver.interpreters.parsing.words import STRENGTH

KMH = 1 / 3.6


def says(pace: str = "go", way: str | None = None, force: str = "", **numbers: float) -> DrivingInstruction:
    return DrivingInstruction(pace, way, force, **numbers)


def pedals(throttle: float, brake: float, steer: float | None = None, way: str | None = None) -> DrivingInstruction:
    return DrivingInstruction("go", way, throttle=throttle, brake=brake, steer=steer)


REPLIES = [
    # a control object is that control
    ('{"throttle":0.4,"steer":0,"brake":0.0}', pedals(0.4, 0.0, 0.0)),
    ('```json\n{"throttle":0.4,"steer":0,"brake":0.0}\n```', pedals(0.4, 0.0, 0.0)),
    ('Brake! {"throttle":0.4,"steer":0,"brake":0.0}', pedals(0.4, 0.0, 0.0)),
    ('{"response": {"brake": 0, "steer": -0.1, "throttle": "0.4"}}', pedals(0.4, 0.0, -0.1)),
    ('<answer>{"throttle": 2, "steer": 0, "brake": 0}</answer>', pedals(1.0, 0.0, 0.0)),  # clamped
    ("x " * 3000 + '{"throttle":0.4,"steer":0,"brake":0.0}', pedals(0.4, 0.0, 0.0)),
    ('{"throttle": NaN, "steer": 0, "brake": 0}', "not_finite throttle"),
    ('{"throttle": 0.1, "throttle": 0.9, "steer": 0, "brake": 0}', "doubled_key throttle"),
    # an object without steering follows the route; without the other pedal it is incomplete
    ('{"throttle": 0.4, "brake": 0}', pedals(0.4, 0.0)),
    ('{"throttle": 1}', "missing_key brake"),
    ('{"throttle": "a lot", "brake": 0}', "not_a_number throttle"),
    # objects in words
    ('{"throttle": "none", "steer": 0, "brake": "hard"}', says("brake", None, "hard", steer=0.0)),
    ('{"stop": false, "accelerate": true, "turn_left": false}', says("faster")),
    ('{"action": "slow down", "reason": "the car ahead is braking hard"}', says("slow")),
    ('{"action": {"speed": "slow", "direction": "right"}}', says("slow", "right")),
    ('{"final_action": ["slow down", "turn left"]}', says("slow", "left")),
    ('{"perception": [{"type": "car", "direction": "left"}], "action": "stop"}', says("stop")),
    ('{"perception": [{"type": "car", "direction": "left"}], "advice": "stop"}', "no_action"),
    ('{"weather": "rain"} Slow down.', says("slow")),
    # pedals
    ("throttle: 0.5, brake: 0", pedals(0.5, 0.0)),
    ("- throttle: 0.4\n- steer: 0\n- brake: 0", pedals(0.4, 0.0, 0.0)),
    ("| control | value |\n|---|---|\n| throttle | 0.4 |\n| brake | 0 |", pedals(0.4, 0.0)),
    ("Throttle: 0.2 (gentle), brake: 0 (none), steer: -0.05 (slightly left)", pedals(0.2, 0.0, -0.05)),
    ("throttle = 40%; brake = 0%", pedals(0.4, 0.0)),
    ("brake 0, throttle 0.3, steer -0.1", pedals(0.3, 0.0, -0.1)),
    ("0.4 throttle and zero brake", pedals(0.4, 0.0)),
    ("Apply 30% brake.", pedals(0.0, 0.3)),
    ("Set the throttle to 0.5 and the brake to 0.", pedals(0.5, 0.0)),
    ("Throttle: 0, brake: 0", pedals(0.0, 0.0)),
    ("Throttle: 0.3. Direction: turn left.", pedals(0.3, 0.0, way="left")),
    ("Accelerate. Throttle: 0.3", DrivingInstruction("faster", throttle=0.3, brake=0.0)),
    ("Slow down. Throttle: 0.3", "contradiction"),
    ("throttle 0.3, brake 0.4", "contradiction"),
    ("Stop. Throttle: 0. Brake: 0.", "contradiction"),
    ("Throttle: 7", "off_scale throttle"),
    ("Brake: 20 N", "unknown_unit"),
    ("Throttle: 0.2. Throttle: 0.4.", "doubled_key throttle"),
    ("0.4, 0, 0", "no_action"),
    # denials and confirmations
    ("Brake: none. Throttle: gentle.", says("faster", None, "soft")),
    ("Brake: none", "negated_only"), ("Brake: 0", "negated_only"), ("Stop: no", "negated_only"),
    ("Acceleration: 0", "negated_only"),
    ("Brake: no, accelerate: yes", says("faster")),
    ("Stopping is not necessary. Keep going.", says()),
    ("The brake should not be applied. Continue.", says()),
    ("Emergency brake: no. Keep the speed.", says("keep")),
    ("Emergency braking: yes", says("brake", None, "hard")),
    ("Release the brake and accelerate.", says("faster")),
    ("Release the throttle.", says("slow")),
    ("Turn left: no. Go straight: yes.", says("go", "straight")),
    # speeds
    ("Speed: 0. Direction: straight.", says("stop", "straight")),
    ("Speed = 0 km/h", says("stop")), ("speed: none", says("stop")),
    ("Target speed: 20 km/h, direction: left", says("go", "left", speed=20 * KMH)),
    ("Speed: 5", "no_unit"), ("Speed: 5 knots", "unknown_unit"), ("Speed: 900 km/h", "off_scale speed"),
    ("Current speed: 5 m/s. Speed: maintain.", says("keep")),
    ("The speed is 5 m/s, so accelerate.", says("faster")),
    ("Slow down to 20 km/h.", says("slow", speed=20 * KMH)),
    ("Reduce the speed to 20 km/h.", says("slow", speed=20 * KMH)),
    ("Decelerate to 0", says("slow", speed=0.0)),
    ("Maintain a speed of 5 m/s.", says("keep", speed=5.0)),
    ("Drive at 10 mph.", says("go", speed=4.4704)),
    ("I am driving at 3 m/s; slow down.", says("slow")),
    ("Slow down to 20 km/h. Speed: 10 km/h.", "several_speeds"),
    ("Stop. Speed: 10 km/h.", "contradiction"),
    ("Acceleration: -2 m/s²", says("slow")), ("Acceleration: 2", "no_unit"),
    ("Brake: do not. Keep the speed.", says("keep")),
    ("Brake: apply gently.", says("brake", None, "soft")), ("Brake: press the pedal hard", says("brake", None, "hard")),
    ("Brake: as needed", "unclear_value brake"), ("Brake: maintain", "unclear_value brake"),
    ("Brake at the crosswalk.", says("brake")),
    ("Throttle: no change", says("keep")), ("Speed: no change", says("keep")),
    ("Speed: do not change", "no_action"),
    # reasons, later and conditional parts
    ("Brake: none because the road is clear. Accelerate.", says("faster")),
    ("Throttle: 0.3 since the light is green, brake: 0", pedals(0.3, 0.0)),
    ("Brake: 0.5 if a child appears.", "conditional"),
    ("Since the road is clear, brake: 0, accelerate.", says("faster")),
    ("Because the light is red, brake: 1.0", pedals(0.0, 1.0)),
    ("Keep the speed, then brake 0.5.", says("keep")),
    ("If a child appears, brake: 1.0. Accelerate.", says("faster")),
    ("Throttle: 0.3, because the road is free, speed: 0", pedals(0.3, 0.0)),
    # directions
    ("Turn: left. Speed: slow.", says("slow", "left")),
    ("Lane change: left", says("go", "change_left")),
    ("Lane change: none; speed: maintain", says("keep")),
    ("Steering: 0.1. Slow down.", says("slow", steer=0.1)),
    ("Steering: left", says("go", "slight_left")),
    ("Steering: 10 degrees", "unknown_unit"),
    ("Direction: turn left. Steering: 0.3", "contradiction"),
    ("Heading: 45", "no_unit"),
    ("Throttle: 0.4, Steer: hard left", pedals(0.4, 0.0, way="left")),
    ("Steer: hard left", says("go", "left")), ("Steer hard left.", says("go", "left", "hard")),
    ("Throttle: 0.4, Steering angle: 20 degrees left", "unknown_unit"),
    ("Throttle: 0.4, Brake: 0, Steer: 15° right", "unknown_unit"),
    ("Steer 20 degrees left, throttle 0.4", "unknown_unit"),
    ("Steer: 0.2 left, throttle: 0.3", pedals(0.3, 0.0, -0.2)),
    ("Steer: +0.2 left, throttle: 0.3", "unclear_value steer"),
    ("Steer (positive = left): 0.2, throttle: 0.3", "unclear_value steer"),
    ("Throttle - 0.3, steer - 0.2", "unclear_value steer"),  # a dash or a minus sign
    # other layouts
    ('{"throttle":0.4,"steer":0,"brake":0.0', "truncated"),
    ('{"throttle": 0.4, "steer": 0, "brake": 0.0, "reason": "the ro', pedals(0.4, 0.0, 0.0)),
    ('"throttle":0.4,"steer":0,"brake":0.0', pedals(0.4, 0.0, 0.0)),
    ('{"throttle":0.4;"steer":0;"brake":0.0}', pedals(0.4, 0.0, 0.0)),
    ('{"throttle":0.4 "steer":0 "brake":0.0}', pedals(0.4, 0.0, 0.0)),
    (r'"{\"throttle\":0.4,\"steer\":0,\"brake\":0.0}"', pedals(0.4, 0.0, 0.0)),
    ("<throttle>0.4</throttle><steer>0</steer><brake>0</brake>", pedals(0.4, 0.0, 0.0)),
    ("carla.VehicleControl(throttle=0.4, steer=0.0, brake=0.0)", pedals(0.4, 0.0, 0.0)),
    ("throttle 0.4 brake 0", pedals(0.4, 0.0)), ("brake 0 throttle 0.4", pedals(0.4, 0.0)),
    ("Throttle 0.4 brake none steer 0", pedals(0.4, 0.0, 0.0)),
    ("Throttle 40% Brake 0% Steer 0%", pedals(0.4, 0.0, 0.0)),
    ("Go straight brake none", says("go", "straight")), ("Stop - no. Go.", says()),
    ("brake - none", "negated_only"), ("brake(none)", "negated_only"), ("brake (0)", "negated_only"),
    ("brake [0]", "negated_only"), ("stop (no)", "negated_only"), ('{"pace": "none"}', "negated_only"),
    ("Slow down if needed, brake: 0", "conditional"),
    ("Brake 0.3-0.5", "unclear_value brake"), ("Throttle: 0,4, Brake: 0", "unclear_value throttle"),
    ('{"throttle": 0.4, "steer": 0, "brake": 0,4}', "malformed"),
    ("Throttle: 0.4\nBrake:", "unclear_value brake"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "expected"), REPLIES, ids=[text[-40:] for text, _ in REPLIES])
def test_replies_with_keys_and_values(reply: str, expected: DrivingInstruction | str) -> None:
    if isinstance(expected, str):
        with pytest.raises(UnclearInstruction) as caught:
            parse_instruction(reply)
        assert str(caught.value) == expected
    else:
        found = parse_instruction(reply)
        numbers = [v and pytest.approx(v) for v in (expected.throttle, expected.brake, expected.steer, expected.speed)]
        assert (found.pace, found.way, found.force) == (expected.pace, expected.way, expected.force)
        assert [found.throttle, found.brake, found.steer, found.speed] == numbers


@pytest.mark.parametrize("part", ["the light is red", "slow down", "speed: keep the speed", "go to the left", "", ":"])
def test_other_parts_are_left_to_the_words(part: str) -> None:
    findings = PairFindings()
    assert not read_part(part, findings) and findings == PairFindings()


SHARE = st.integers(0, 100).map(lambda n: n / 100)
LAYOUTS = (
    "json", "fenced", "nested", "loose", "lines", "bullets", "commas", "equals", "percent", "blanks", "semicolons",
    "no commas", "quoted keys", "no brace", "string", "in a string", "tags", "attributes", "call", "members",
    "brackets", "next line", "row", "table",
)  # fmt: skip


def written(layout: str, pairs: list[tuple[str, float]]) -> str:
    data = dict(pairs)
    match layout:
        case "json":
            return json.dumps(data)
        case "fenced":
            return f"Here it is:\n```json\n{json.dumps(data, indent=2)}\n```"
        case "nested":
            return json.dumps({"thought": "the car ahead brakes, stop", "control": [data]})
        case "loose":
            return "{" + ", ".join(f"'{k}': {v}" for k, v in pairs) + "}"
        case "bullets":
            return "\n".join(f"- **{k.title()}:** {v}" for k, v in pairs)
        case "commas":
            return ", ".join(f"{k} {v}" for k, v in pairs) + "."
        case "equals":
            return "; ".join(f"{k}={v}" for k, v in pairs)
        case "percent":
            return "\n".join(f"{k}: {v * 100:.0f}%" for k, v in pairs)
        case "blanks":
            return " ".join(f"{k} {v}" for k, v in pairs)
        case "semicolons":
            return "{" + ";".join(f'"{k}":{v}' for k, v in pairs) + "}"
        case "no commas":
            return "{" + " ".join(f'"{k}":{v}' for k, v in pairs) + "}"
        case "quoted keys":
            return ",".join(f'"{k}":{v}' for k, v in pairs)
        case "no brace":
            return "```json\n" + json.dumps(data, indent=1).rstrip("}") + "```"
        case "string":
            return json.dumps(json.dumps(data, indent=1))
        case "in a string":
            return json.dumps({"response": json.dumps(data)})
        case "tags":
            return "".join(f"<{k}>{v}</{k}>" for k, v in pairs)
        case "attributes":
            return "<control " + " ".join(f'{k}="{v}"' for k, v in pairs) + "/>"
        case "call":
            return "carla.VehicleControl(" + ", ".join(f"{k}={v}" for k, v in pairs) + ", hand_brake=False)"
        case "members":
            return "\n".join(f"control.{k} = {v}" for k, v in pairs)
        case "brackets":
            return ", ".join(f"{k} ({v})" for k, v in pairs)
        case "next line":
            return "\n".join(f"{k}:\n{v}" for k, v in pairs)
        case "row":
            return ", ".join(data) + " = " + ", ".join(map(str, data.values()))
        case "table":
            return "\n".join(["|".join(data), "|".join("---" for _ in data), "|".join(map(str, data.values()))])
    return "\n".join(f"{k}: {v}" for k, v in pairs)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.sampled_from(LAYOUTS), SHARE, st.integers(-100, 100).map(lambda n: n / 100), st.booleans(),
    st.permutations(["throttle", "steer", "brake"]),
)  # fmt: skip
def test_a_control_in_any_layout_is_that_control(
    layout: str, pressed: float, steer: float, brakes: bool, order: list[str]
) -> None:
    values = {"throttle": 0.0 if brakes else pressed, "steer": steer, "brake": pressed if brakes else 0.0}
    found = parse_instruction(written(layout, [(key, values[key]) for key in order]))
    assert (found.throttle, found.steer, found.brake) == pytest.approx(tuple(values.values()))


WRITTEN_CUT = ("json", "fenced", "loose", "semicolons", "no commas", "string", "in a string", "call")


@settings(max_examples=examples(600), deadline=None)
@given(
    st.sampled_from(WRITTEN_CUT), SHARE, st.integers(-100, 100).map(lambda n: n / 100),
    st.permutations(["throttle", "steer", "brake"]), st.floats(0, 1),
    st.sampled_from(["", '"the road', "0.12", "null"]),
)  # fmt: skip
def test_a_control_that_is_cut_off_is_that_control_or_unread(
    layout: str, pressed: float, steer: float, order: list[str], share: float, more: str
) -> None:
    values = {"throttle": pressed, "steer": steer, "brake": 0.0}
    reply = written(layout, [(key, values[key]) for key in order])
    if more and layout == "json":
        reply = reply.replace("}", f', "reason": {more}')
    try:
        found = parse_instruction(reply[: round(share * len(reply))])
    except UnclearInstruction:
        return
    assert (found.throttle, found.steer, found.brake) == pytest.approx(tuple(values.values()))


DENIALS = st.sampled_from(
    ["none", "no", "0", "0.0", "0%", "off", "not needed", "not applied", "zero", "false", "null", "none at all", "❌"]
)
SIGNS = st.sampled_from([": ", "=", " = ", " -> ", " is ", " ", " - ", ":", " => ", ":\n"])
BRACKETS = st.sampled_from(["{} ({})", "{}({})", "{} [{}]", '"{}": {}', '"{}": "{}"', "<{0}>{1}</{0}>", "**{}** {}"])
GAPS = st.sampled_from([". ", ", ", "\n", "; ", " ", " - ", " | ", " and "])
BRAKES = st.sampled_from(["brake", "Brake", "braking", "the brake", "Brake pedal", "brakes"])


@settings(max_examples=examples(200), deadline=None)
@given(BRAKES, SIGNS, DENIALS, st.sampled_from([". ", ", ", "\n", "; "]), st.booleans())
def test_a_denied_brake_leaves_the_rest(brake: str, sign: str, denial: str, gap: str, first: bool) -> None:
    parts = [f"{brake}{sign}{denial}", "keep the speed"]
    found = parse_instruction(gap.join(parts if first else parts[::-1]))
    assert found.pace == "keep" and not found.brake


@settings(max_examples=examples(800), deadline=None)
@given(
    st.sampled_from(["brake", "Brake", "braking", "the brake", "Brake pedal", "brakes", "emergency brake", "stop"]),
    st.one_of(BRACKETS, SIGNS.map(lambda sign: "{}" + sign + "{}")), DENIALS, GAPS,
    st.sampled_from(["keep the speed", "Throttle: 0.4", "throttle 0.4", "go straight", "steer 0", "turn left", ""]),
    st.booleans(),
)  # fmt: skip
def test_a_denied_brake_never_brakes(brake: str, layout: str, denial: str, gap: str, other: str, first: bool) -> None:
    parts = [layout.format(brake, denial), other]
    try:
        found = parse_instruction(gap.join(parts if first else parts[::-1]))
    except UnclearInstruction:
        return
    assert found.pace not in STRENGTH and not found.brake


KEYS = st.sampled_from(["throttle", "brake", "steer", "speed", "direction", "lane change", "stop", "turn left",
                        "action", "acceleration", "target speed", "x", "current speed"])  # fmt: skip
VALUES = st.one_of(
    st.floats().map(str), st.integers().map(str), st.text(max_size=8),
    st.sampled_from(["none", "yes", "hard", "left", "keep", "5 m/s", "0", "stop", "30%", "1e400", "-", "slow down"]),
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.tuples(KEYS, SIGNS, VALUES), max_size=6), st.booleans())
def test_any_key_values_give_a_known_instruction_or_a_known_reason(
    pairs: list[tuple[str, str, str]], as_json: bool
) -> None:
    reply = json.dumps({k: v for k, _, v in pairs}) if as_json else ", ".join("".join(pair) for pair in pairs)
    try:
        found = parse_instruction(reply)
    except UnclearInstruction as exc:
        assert str(exc).split()[0] in REASONS
    else:
        assert (found.throttle is None) == (found.brake is None)
        assert all(v is None or 0 <= v <= 1 for v in (found.throttle, found.brake))
        assert found.steer is None or -1 <= found.steer <= 1
        assert found.speed is None or 0 <= found.speed <= 70


@pytest.mark.parametrize("text", ["brake: " * 20_000, "a:" * 20_000, "| " * 20_000, "(" * 20_000, "throttle 1 " * 9000])
def test_repetitive_key_values_take_bounded_time(text: str) -> None:
    """A pattern that backtracks would exceed the timeout of the test suite."""
    with contextlib.suppress(UnclearInstruction):
        parse_instruction(text)
    with contextlib.suppress(UnclearValue):
        read_pair("brake", text, PairFindings())
