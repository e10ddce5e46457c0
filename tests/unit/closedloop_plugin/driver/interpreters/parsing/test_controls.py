"""Replies of the slow system: JSON objects in many forms, and replies that are refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Control
from closedloop_plugin.driver.interpreters.parsing.controls import REASONS, UnreadableReply, read_cng, read_dcs

RULES = profile("bench2advlm")
PLAIN = '{"throttle": 0.4, "steer": -0.1, "brake": 0}'
A = (0.4, -0.1, 0.0)

READABLE = [
    (PLAIN, A),
    ('{"brake":0,"steer":-0.1,"throttle":0.4}', A),
    ("```json\n" + PLAIN + "\n```", A),
    ("```\n" + PLAIN + "\n```\nThis keeps the car in its lane.", A),
    ("Sure! Here are the controls:\n" + PLAIN, A),
    ("The driver slows down (see {words}). " + PLAIN, A),
    (PLAIN + " I hope this helps {smile}.", A),
    ('{"Throttle": 0.4, "STEER": -0.1, "Brake": 0.0}', A),
    ('{"throttle": 0.4, "steering": -0.1, "brake": 0}', A),
    ('{"throttle": "0.4", "steer": "-0.1", "brake": "0"}', A),
    ("{'throttle': 0.4, 'steer': -0.1, 'brake': 0}", A),
    ("{'throttle': '0.4', 'steer': '-0.1', 'brake': '0'}", A),
    ("{throttle: 0.4, steer: -0.1, brake: 0}", A),
    ("{throttle=0.4, steer=-0.1, brake=0}", A),
    ('{"throttle": 0.4, "steer": -0.1, "brake": 0,}', A),
    ('{"throttle": .4, "steer": -.1, "brake": 0.}', A),
    ('{"throttle": +0.4, "steer": -0.1, "brake": +0}', A),
    ('{"throttle": 4e-1, "steer": -1E-1, "brake": 0}', A),
    ('{\n  "throttle": 0.4,\n  "steer": -0.1,\n  "brake": 0\n}', A),
    ('{"reason": "red light", "throttle": 0.4, "steer": -0.1, "brake": 0, "confidence": 0.9}', A),
    ('{"control": {"throttle": 0.4, "steer": -0.1, "brake": 0}}', A),
    ('{"controls": [{"throttle": 0.4, "steer": -0.1, "brake": 0}]}', A),
    ("[" + PLAIN + "]", A),
    ('{"throttle": 0, "steer": 0, "brake": 1} Wait, the light is green: ' + PLAIN, A),
    ('Example: {"throttle": 0.0, "steer": 0.0, "brake": 1.0}\nAnswer: ' + PLAIN, A),
    (PLAIN + "\n" + PLAIN, A),
    ('{"note": "none"} ' + PLAIN + ' {"note": "done"}', A),
    ("<think>{\"throttle\": 1, \"steer\": 1, \"brake\": 1}</think>" + PLAIN, A),
    ("{{ " + PLAIN + " }}", A),
    ("{ broken " + PLAIN, A),
    (PLAIN + "</s>", A),
    ('{"throttle": 0.4, "throttle": 0.4, "steer": -0.1, "brake": 0}', A),
    ('{"throttle": 2, "steer": -7, "brake": -1}', (1.0, -1.0, 0.0)),  # clamped, as published
    ('{"throttle": 40, "steer": 0, "brake": 0}', (1.0, 0.0, 0.0)),
    ('{"throttle": 0.3, "steer": 0, "brake": 0.6}', (0.3, 0.0, 0.6)),  # CNG: Profile.post decides
    ('{"throttle": 0, "steer": -0.0, "brake": 0}', (0.0, 0.0, 0.0)),
    ('{"throttle": 1e-400, "steer": 0, "brake": 0}', (0.0, 0.0, 0.0)),
]  # fmt: skip

UNREADABLE = [
    ("", "empty"), ("   \n", "empty"), ("<think>so the car must", "unfinished_thought"), ("I would brake.", "no_json"),
    ("throttle: 0.4, steer: 0, brake: 0", "no_json"), ("{}", "no_json"), ("{throttle}", "no_json"),
    ("[0.4, 0, 0]", "no_json"),
    ("I'm sorry, but I can't help with that.", "refusal"), ('{"speed": 3}', "no_json"),
    ('{"throttle": 0.4, "steer": 0}', "missing_key brake"), ('{"throttle": 0.4}', "missing_key steer"),
    ('{"brake": 1}', "missing_key throttle"), (PLAIN + ' or maybe {"throttle": 1}', "missing_key steer"),
    ('{"throttle": NaN, "steer": 0, "brake": 0}', "not_finite throttle"),
    ('{"throttle": Infinity, "steer": 0, "brake": 0}', "not_finite throttle"),
    ('{"throttle": 0, "steer": -Infinity, "brake": 0}', "not_finite steer"),
    ('{"throttle": "nan", "steer": 0, "brake": 0}', "not_finite throttle"),
    ('{"throttle": 1e999, "steer": 0, "brake": 0}', "not_finite throttle"),
    ("{'throttle': inf, 'steer': 0, 'brake': 0}", "not_finite throttle"),
    ('{"throttle": true, "steer": 0, "brake": 0}', "not_a_number throttle"),
    ("{'throttle': True, 'steer': 0, 'brake': 0}", "not_a_number throttle"),
    ('{"throttle": null, "steer": 0, "brake": 0}', "not_a_number throttle"),
    ('{"throttle": [0.4], "steer": 0, "brake": 0}', "not_a_number throttle"),
    ('{"throttle": {"value": 0.4}, "steer": 0, "brake": 0}', "not_a_number throttle"),
    ('{"throttle": "half", "steer": 0, "brake": 0}', "not_a_number throttle"),
    ('{"throttle": "40%", "steer": 0, "brake": 0}', "not_a_number throttle"),
    ('{"throttle": "", "steer": 0, "brake": 0}', "not_a_number throttle"),
    ('{"throttle": "0,4", "steer": 0, "brake": 0}', "not_a_number throttle"),
    ('{"throttle": 0.4, "steer": "left", "brake": 0}', "not_a_number steer"),
    ('{"throttle": 0.4 m/s, "steer": 0, "brake": 0}', "no_json"),
    ('{"throttle": 0.4 "steer": 0 "brake": 0}', "no_json"),
    ('{"throttle": 0.4, "throttle": 0.9, "steer": 0, "brake": 0}', "doubled_key throttle"),
    ('{"throttle": 0.4, "steer": 0, "steering": 0.5, "brake": 0}', "doubled_key steer"),
    ("{'throttle': 0.4, 'throttle': 0.9, 'steer': 0, 'brake': 0}", "doubled_key throttle"),
    (PLAIN + ' No: {"throttle": NaN, "steer": 0, "brake": 0}', "not_finite throttle"),  # the last object counts
    (PLAIN + ' {"throttle": 0, "steer": 0, "brake": 1}', "several"),
    ("```json\n" + PLAIN + '\n``` Example: {"throttle": 0, "steer": 0, "brake": 1}', "several"),
    (PLAIN + ' or {"throttle": 0, "steer": 0, "brake": 1}', "several"),
    (PLAIN + ' Alternatively, the answer is {"throttle": 0, "steer": 0, "brake": 1}', "several"),
    ('[{"throttle": 0, "steer": 0, "brake": 1}]\n' + PLAIN, "several"),
    ('{"controls": [' + PLAIN + ', {"throttle": 0, "steer": 0, "brake": 1}]}', "several"),
    (PLAIN + "。例如:" + '{"throttle": 0, "steer": 0, "brake": 1}', "several"),
    ('{"throttle": "٠.٤", "steer": "0", "brake": "0"}', "not_a_number throttle"),  # Arabic digits
    ('{"throttle": "０.４", "steer": "0", "brake": "0"}', "not_a_number throttle"),  # full-width digits
    ("[LMMS_EVAL_REQUEST_FAILED after 5 retries] " + PLAIN, "request_failed"),
    ('{"throttle": <number>, "steer": <number>, "brake": <number>}', "not_a_number throttle"),
    ('{"throttle": 0.4, "steer": 0, "brake": 0', "no_json"),
    ('{"throttle": __import__("os").system("true"), "steer": 0, "brake": 0}', "no_json"),
    ("{" * 20_000, "no_json"), ('{"a":' * 20_000, "no_json"), ("{'a':" * 9000, "no_json"),
    ('{"throttle": ' + "9" * 400 + ', "steer": 0, "brake": 0}', "not_finite throttle"),
    ('{"throttle": ' + "9" * 5000 + ', "steer": 0, "brake": 0}', "no_json"),  # too many digits for Python
]  # fmt: skip


@pytest.mark.parametrize(("reply", "values"), READABLE, ids=range(len(READABLE)))
def test_readable_replies(reply: str, values: tuple[float, float, float]) -> None:
    throttle, steer, brake = values
    assert read_cng(reply) == Control(steer, throttle, brake)


@pytest.mark.parametrize(("reply", "reason"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_unreadable_replies_have_a_reason(reply: str, reason: str) -> None:
    with pytest.raises(UnreadableReply) as caught:
        read_cng(reply)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("throttle", "steer", "brake", "expected"),
    [
        (0.3, 0.2, 0, Control(0.2, 0.3, 0.0)),
        ("0.90", "-1.0", "0.0", Control(-1.0, 0.9, 0.0)),
        (0, 0, 0.6, Control(0.0, 0.0, 0.6)),
        (0.30000000001, 0, 0, Control(0.0, 0.3, 0.0)),
        (0.9, 0, 0.3, Control(0.0, 0.9, 0.0)),  # published: throttle > brake -> no brake
        (0.3, 0, 0.9, Control(0.0, 0.0, 0.9)),  # the reverse
        (0.6, 0, 0.6, Control(0.0, 0.0, 0.6)),
        (0.4, 0, 0, "not_in_set throttle"),
        (1, 0, 0, "not_in_set throttle"),  # never clamped into the set
        (0.3, 0.1, 0, "not_in_set steer"),
        (0.3, -0.25, 0, "not_in_set steer"),
        (0, 0, 1, "not_in_set brake"),
        (-0.3, 0, 0, "not_in_set throttle"),
        ("high", 0, 0, "not_a_number throttle"),
    ],
)
def test_a_choice_is_a_member_of_its_set(throttle, steer, brake, expected) -> None:
    reply = json.dumps({"throttle": throttle, "steer": steer, "brake": brake})
    if isinstance(expected, str):
        with pytest.raises(UnreadableReply, match=expected):
            read_dcs(reply, RULES)
    else:
        assert read_dcs(reply, RULES) == expected


@pytest.mark.parametrize(
    ("throttle", "steer", "brake", "expected", "changes"),
    [
        (0.5, 0, 0, Control(0.0, 0.6, 0.0), 1),
        (0.6, 0, 0, Control(0.0, 0.6, 0.0), 0),
        (7, -3, 0, Control(-1.0, 0.9, 0.0), 2),
        (0, 0.1, 0.75, Control(0.0, 0.0, 0.6), 2),  # equally near: the one nearer to 0, as in the public code
        (0, -0.75, 0, Control(-0.5, 0.0, 0.0), 1),
        (0, 0.36, 0, Control(0.5, 0.0, 0.0), 1),
        (0.31, 0, 0.5, Control(0.0, 0.3, 0.6), 2),  # both above 0 after snapping: kept, as published
        (0.6, 0, 0.9, Control(0.0, 0.6, 0.9), 0),
        (0.6, 0, 0.6, Control(0.0, 0.6, 0.6), 0),
        (0.9, 0, 0.6, Control(0.0, 0.9, 0.0), 0),  # throttle above brake: no brake
        ("0.5", 0, 0, Control(0.0, 0.6, 0.0), 1),
    ],
)
def test_official_snaps_a_choice_to_the_nearest_member(throttle, steer, brake, expected: Control, changes: int) -> None:
    adapted: list[str] = []
    reply = json.dumps({"throttle": throttle, "steer": steer, "brake": brake})
    assert read_dcs(reply, RULES, adapted) == expected
    assert adapted == ["snapped"] * changes


def test_official_takes_a_missing_key_of_cng_as_0_but_not_of_dcs() -> None:
    adapted: list[str] = []
    assert read_cng('{"throttle": 0.4}', adapted) == Control(0.0, 0.4, 0.0)
    assert adapted == ["missing_as_zero"] * 2
    with pytest.raises(UnreadableReply, match="missing_key brake"):
        read_dcs('{"throttle": 0.3, "steer": 0}', RULES, [])
    with pytest.raises(UnreadableReply, match="no_json"):
        read_cng("{}", [])


@pytest.mark.parametrize(
    ("throttle", "brake", "official", "strict"),
    [
        (1.5, 1.2, Control(0.0, 1.0, 0.0), Control(0.0, 1.0, 1.0)),
        (1.5, 1.0, Control(0.0, 1.0, 0.0), Control(0.0, 1.0, 1.0)),
        (1.2, 1.5, Control(0.0, 1.0, 1.0), Control(0.0, 1.0, 1.0)),
        (0.6, 0.4, Control(0.0, 0.6, 0.4), Control(0.0, 0.6, 0.4)),  # within the range, Profile.post compares
    ],
)
def test_official_compares_the_pedals_of_cng_before_it_clips_them(
    throttle: float, brake: float, official: Control, strict: Control
) -> None:
    reply = json.dumps({"throttle": throttle, "steer": 0, "brake": brake})
    assert read_cng(reply, []) == official
    assert read_cng(reply) == strict


JSONISH = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["throttle", "steer", "brake", "steering", "x"]), inner, max_size=5),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.one_of(st.text(), st.text("{}[]'\":,.0123456789throtlesbak -", max_size=80), JSONISH.map(json.dumps)),
    st.text(max_size=20),
)
@example(PLAIN, "[AD2_MEDIA_FAILED]")
def test_any_reply_gives_a_finite_control_in_range_or_a_known_reason(body: str, around: str) -> None:
    readers = (read_cng, lambda reply: read_cng(reply, []))
    choosers = (lambda reply: read_dcs(reply, RULES), lambda reply: read_dcs(reply, RULES, []))
    for read in (*readers, *choosers):
        try:
            control = read(around + body + around)
        except UnreadableReply as exc:
            assert str(exc).split()[0] in REASONS
        else:
            assert all(map(math.isfinite, (control.steer, control.throttle, control.brake)))
            assert control == control.checked()


@given(st.tuples(st.floats(0, 1), st.floats(-1, 1), st.floats(0, 1)))
def test_a_written_control_is_read_back(values: tuple[float, float, float]) -> None:
    throttle, steer, brake = values
    assert read_cng(json.dumps({"throttle": throttle, "steer": steer, "brake": brake})) == Control(
        steer, throttle, brake
    )
