"""Any text as question and answer: the rules raise nothing, take linear time, and never offer the answer."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mcq.ruled import CAR, LIGHT, VAN, frame
from support.tiers import examples

from lmms_eval_ad2.mcq.base import AcceptedQuestion, RejectedQuestion
from lmms_eval_ad2.mcq.rules.frame_facts import ACTIONS
from lmms_eval_ad2.mcq.rules.kinds import kinds
from lmms_eval_ad2.mcq.rules.maker import LONGEST, OPERATIONS, RulesMaker
from lmms_eval_ad2.mcq.rules.options import draw, number_with_usual

STARTS = [
    "What are objects to the back of the ego car?",
    "What is the status of the cars that are to the front of the ego car?",
    "Please describe the current scene.", f"What is the visual description of {CAR}?", f"What does {LIGHT} mean?",
    "What are the important objects in the current scene?", "Identify all the traffic elements in the front view",
    "What is the relative positioning of the important objects?", "In this scenario, what are safe actions to take?",
    f"Are {CAR} and {LIGHT} traffic signs?", f"Would {VAN} be in the moving direction of the ego vehicle?",
    "What object should the ego vehicle notice first?", "What is the priority of the objects that matter?",
    f"What actions taken by the ego vehicle can lead to a collision with {VAN}?", "Which lanes are they on?",
    f"What actions could the ego vehicle take based on {CAR}?", "Predict the behavior of the ego vehicle.",
    f"Is {CAR} a traffic sign or a road barrier?", "How many cars are there?", "Why?", "What is the thing?",
    "Are there moving cars to the back of the ego car?",
    f"Based on {CAR} in this scene, what is the most possible action?",
]  # fmt: skip
WORDS = st.sampled_from(
    "there is are one two many cars moving parked and , . ; to the left of front back ego car vehicle behind it none no"
    f" yes red light white sedan turn keep going at same speed because high"
    f" (traffic light, red, 1, 2, 3, 4) {CAR} {VAN}"
    f" {LIGHT} {{x}} \\1 % <c9> 7 so not".split(" ")
)
TEXT = st.lists(WORDS, max_size=14).map(" ".join) | st.text(max_size=40)


@settings(max_examples=examples(250), deadline=None)
@given(st.sampled_from(STARTS) | TEXT, TEXT, TEXT, st.sampled_from(["all", "naive"]), st.sampled_from("dnl"))
def test_any_text_gives_distractors_or_a_rejection(
    question: str, answer: str, other: str, kind: str, source: str
) -> None:
    name = {"d": "drivelm", "n": "nuscenes_qa", "l": "lingoqa"}[source]
    asked = frame((question, answer), (STARTS[0], other), (STARTS[8], other), (STARTS[3], other), source=name)[0]
    outcome = RulesMaker(kind).one(asked)
    assert RulesMaker(kind).one(asked) == outcome
    if isinstance(outcome, AcceptedQuestion):
        texts = [d.text.casefold() for d in outcome.distractors]
        assert len(set(texts)) == 3
        assert outcome.question.answer.strip().casefold() not in texts
        assert all(text.strip() for text in texts)


@pytest.mark.parametrize(
    "filler", ["< ", "there is one ", "turn left, ", "(a, b, ", "is parked, and ", "0", "because ", "no "]
)
@pytest.mark.parametrize("start", STARTS[:9:2])
def test_long_text_takes_bounded_time(start: str, filler: str) -> None:
    """A pattern with quadratic or worse run time would exceed the time limit of the test."""
    outcome = RulesMaker().one(frame((start, filler * 2_000))[0])
    RulesMaker().one(frame((start, (filler * 4_000)[:LONGEST]))[0])
    assert len(filler) < 3 or (isinstance(outcome, RejectedQuestion) and outcome.reason == "too_long")


def test_values_are_drawn_by_their_odds_without_replacement() -> None:
    rng = random.Random(0)
    seen = Counter(draw([("a", 0.5), ("b", 0.25), ("c", 0.25)], 1, rng)[0] for _ in range(6_000))
    # Odds 1 : 1/3 : 1/3.
    assert seen["a"] / 6_000 == pytest.approx(0.6, abs=0.03)
    assert sorted(draw([("a", 0.5), ("b", 0.25)], 3, rng)) == ["a", "b"]
    assert draw([], 3, rng) == []


@pytest.mark.parametrize("share", [0.25, 0.375, 0.62, 0.75])
def test_the_number_of_usual_options_does_not_tell_whether_the_usual_answer_is_right(share: float) -> None:
    """P(usual is right | k) = k / 4, for shares of the usual value from 1/4 to 3/4."""
    kind = next(kind for kind in kinds() if kind.name == "existence")
    values = dict(kind.values)
    for name, part in (("yes", share), ("no", 1 - share)):
        values[name] = type(values[name])(values[name].found, values[name].text, part)
    usual = max(share, 1 - share)
    rng, right, total = random.Random(1), Counter[int](), Counter[int]()
    changed = type(kind)(kind.name, kind.question, values=values, fact=kind.fact)
    for _ in range(12_000):
        usual_is_right = rng.random() < usual
        k = number_with_usual(changed, usual_is_right, rng)
        right[k] += usual_is_right
        total[k] += 1
    for k, n in total.items():
        if n > 600:
            assert right[k] / n == pytest.approx(k / 4, abs=0.06), (share, k)


def test_the_table_is_complete() -> None:
    names = [kind.name for kind in kinds()]
    assert len(set(names)) == len(names)
    for kind in kinds():
        ways = (bool(kind.operations), kind.order, kind.count, bool(kind.values), bool(kind.left_out))
        assert sum(ways) == 1, kind.name
        assert set(kind.operations) <= OPERATIONS.keys()
        assert 0.9 <= sum(value.share for value in kind.values.values()) <= 1.1 or not kind.values, kind.name
        assert all(("{fact}" in value.text) == bool(kind.fact) for value in kind.values.values()), kind.name
        if kind.name == "action":
            assert {name.split()[0] for name in kind.values} <= ACTIONS.keys()
    assert all(set(action["not"]) <= ACTIONS.keys() for action in ACTIONS.values())
