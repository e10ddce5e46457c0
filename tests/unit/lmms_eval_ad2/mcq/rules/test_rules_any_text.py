"""Any text as question and answer: the rules raise nothing, take linear time, and never offer the answer."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mcq.ruled import CAR, LIGHT, VAN, frame
from support.tiers import examples

from lmms_eval_ad2.mcq.base import AcceptedQuestion, Distractor, RejectedQuestion
from lmms_eval_ad2.mcq.makers.rules_maker import _TEMPLATES, LONGEST, RulesMaker
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, SENSOR
from lmms_eval_ad2.mcq.rules.closed import tables
from lmms_eval_ad2.mcq.rules.selection import choose, draw, shares
from lmms_eval_ad2.mcq.rules.yesno import families
from lmms_eval_ad2.mcq.wording import normal

STARTS = [
    "What are objects to the back of the ego car?",
    "What is the status of the cars that are to the front of the ego car?",
    "Please describe the current scene.", f"What is the visual description of {CAR}?", f"What does {LIGHT} mean?",
    "What are the important objects in the current scene?", "Identify all the traffic elements in the front view",
    "What is the relative positioning of the important objects?", "In this scenario, what are safe actions to take?",
    f"What object would consider {VAN} to be most relevant?", f"Which object is most likely to be occluded by {VAN}?",
    "What object should the ego vehicle notice first?", "What is the priority of the objects that matter?",
    f"What actions taken by the ego vehicle can lead to a collision with {VAN}?", "Which lanes are they on?",
    f"What actions could the ego vehicle take based on {CAR}?", "Predict the behavior of the ego vehicle.",
    f"Is {CAR} a traffic sign or a road barrier?", "How many cars are there?", "Why?", "What is the thing?",
]  # fmt: skip
WORDS = st.sampled_from(
    "there is are one two many cars moving parked and , . ; to the left of front back ego car vehicle behind it none no"
    f" yes red light white sedan turn keep going at same speed because high"
    f" (traffic light, red, 1, 2, 3, 4) {CAR} {VAN}"
    f" {LIGHT} {{x}} \\1 % <c9> 7 so not".split(" ")
)
TEXT = st.lists(WORDS, max_size=14).map(" ".join) | st.text(max_size=40)


@settings(max_examples=examples(250), deadline=None)
@given(st.sampled_from(STARTS) | TEXT, TEXT, TEXT, st.sampled_from(["all", "naive", LOGIC]), st.sampled_from("dnl"))
def test_any_text_gives_distractors_or_a_rejection(
    question: str, answer: str, other: str, kind: str, source: str
) -> None:
    name = {"d": "drivelm", "n": "nuscenes_qa", "l": "lingoqa"}[source]
    asked = frame((question, answer), (STARTS[0], other), (STARTS[8], other), source=name)[0]
    outcome = RulesMaker(kind).one(asked)
    assert RulesMaker(kind).one(asked) == outcome
    if isinstance(outcome, AcceptedQuestion):
        texts = [d.text.casefold() for d in outcome.distractors]
        assert len(set(texts)) == 3
        assert answer.strip().casefold() not in texts
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


def test_the_right_option_may_have_any_rank_by_length() -> None:
    rows = [Distractor("x" * n, c, "") for n in (2, 4, 6, 14, 16, 18) for c in (SENSOR, DOMAIN, OVERSIGHT)]
    ranks = set()
    for seed in range(60):
        distractors = choose(rows, "y" * 10, random.Random(seed))
        assert len({d.category for d in distractors}) == 3
        ranks.add(sum(len(d.text) < 10 for d in distractors))
    assert ranks == {0, 1, 2, 3}


def test_options_with_the_same_meaning_are_never_selected_together() -> None:
    texts = ("Back up, turn left", "Turn left, back up", "Go on, turn right", "Stop, turn right", "U, turn right")
    rows = [Distractor(text, c, "") for text, c in zip(texts, (SENSOR, DOMAIN, OVERSIGHT, LOGIC, SENSOR), strict=True)]
    both_selected = {True: 0, False: 0}
    for in_order in both_selected:
        for seed in range(40):
            selected = choose(rows, "Keep going straight, on and on", random.Random(seed), in_order=in_order)
            both_selected[in_order] += set(texts[:2]) <= {d.text for d in selected}
            assert len(selected) == 3
    assert both_selected[True] and not both_selected[False]


def test_usual_answers_are_sampled_by_how_often_they_are_right() -> None:
    asked = "What is the observed status of object <c1,CAM_FRONT,1.0,2.0>?"
    weights = shares(asked)
    assert weights[normal("Moving.")] > 0.5 and shares("Which song is this?") == {}
    texts = ["Moving.", "Parked.", "Flying."]
    sampled = Counter(text for seed in range(200) for text in draw(texts, weights, 1, random.Random(seed)))
    assert sampled["Moving."] > 100 and 0 < sampled["Parked."] < 40 and not sampled["Flying."]
    rows = [Distractor(t, c, "") for t, c in zip([*texts, "Swimming."], (SENSOR, LOGIC, LOGIC, OVERSIGHT), strict=True)]
    selected = [choose(rows, "Stationary.", random.Random(seed), question=asked) for seed in range(40)]
    assert sum("Moving." in {d.text for d in three} for three in selected) > 30


def test_too_few_different_texts_give_no_options() -> None:
    rows = [Distractor("same", c, "") for c in (SENSOR, DOMAIN, OVERSIGHT, LOGIC)] + [Distractor("other", LOGIC, "")]
    assert choose(rows, "y", random.Random(0)) == ()


def test_tables_are_complete() -> None:
    for name, table in tables().items():
        for key, excluded in table.excluded.items():
            assert key in table.values and key not in excluded, name
            assert set(excluded) <= set(table.values), (name, key)
        assert {k for keys, _ in table.errors.values() for k in keys} <= set(table.values), name
        assert len(table.errors) == 5, name
    for name, (_, rows) in families().items():
        for verdict, other in (("yes", "No"), ("no", "Yes")):
            texts = [text for entries in rows[verdict].values() for text, _ in entries]
            assert len(rows[verdict]) == 5 and len(texts) == len(set(texts)), name
            assert all(text.startswith(other) and text.endswith(".") for text in texts), name
    assert len({pattern for pattern, _ in _TEMPLATES}) == len(_TEMPLATES)
