"""Checks of distractors: tables of refused and accepted cases, written by hand, and properties for any text."""

from __future__ import annotations

import re
import string
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mcq.choices import question
from support.tiers import examples

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases import find_release
from lmms_eval_ad2.mcq.base import OpenQuestion
from lmms_eval_ad2.mcq.faults import FAULTS, fault
from lmms_eval_ad2.mcq.wording import normal, read

FRONT = "What are objects to the front of the ego car?"
TWO_THINGS = "There are one truck and one barrier in front of the ego car."
STATUS = "What is the status of the car that is to the front left of the ego car?"
LANES = "<c1,CAM_BACK,1088.3,497.5> is in the left lane, and <c2,CAM_BACK,864.2,468.3> is in the ego lane."
SWAPPED = "<c1,CAM_BACK,1088.3,497.5> is in the ego lane, and <c2,CAM_BACK,864.2,468.3> is in the left lane."
TURNED = "<c2, CAM_BACK, 864.2, 468.3> is in the ego lane, and <c1,CAM_BACK,1088.3,497.5> is in the left lane."
RANK = "What is the priority of the objects that the ego vehicle should consider? (from high to low)"
RANKED = "<c1,CAM_BACK,1.0,2.0>, <c2,CAM_BACK,3.0,4.0>, <c3,CAM_BACK,5.0,6.0>."
DRIVING = "The ego vehicle is going straight. The ego vehicle is driving fast."
ACTION = "The action is to remain stationary, the reason is to follow the traffic rules, high probability."
LIGHTS = "There are two elements: [(traffic light, green, 1, 2, 3, 4), (traffic light, red, 5, 6, 7, 8)]."

REFUSED = [
    # question, answer, distractor, code
    (STATUS, "One car is moving.", "one car is moving", "equals_answer"),
    (STATUS, "One car is moving.", "1 car is moving!", "equals_answer"),
    ("What action?", ACTION, "The action is to remain stationary. The reason for taking this action is to follow the "
     "traffic rules, which has a high probability.", "equals_answer"),
    ("What action?", ACTION, "The action is to remain stationary, because to follow the traffic rules. The probability "
     "of taking this action is high.", "equals_answer"),
    (STATUS, "The ego vehicle.", "ego car", "equals_answer"),
    ("How many cars are there?", "Two", "2.", "equals_answer"),
    ("How many cars are there?", "22", "Twenty-two", "equals_answer"),
    ("What is the moving status?", "Going ahead.", "Going straight.", "equals_answer"),
    ("What is the moving status?", "Stationary.", "Not moving", "equals_answer"),
    ("What will it do?", "Turn left.", "Turning left", "equals_answer"),
    ("Who considers it?", "None.", "No object.", "equals_answer"),
    (FRONT, TWO_THINGS, "There is a truck in front of the ego car.", "implied_by_answer"),
    (FRONT, TWO_THINGS, "One barrier.", "implied_by_answer"),
    (FRONT, TWO_THINGS, "One barrier and one truck in front of the ego vehicle.", "implied_by_answer"),
    (FRONT, "There is one white sedan to the back of the ego car.", "One white car behind the ego car",
     "implied_by_answer"),
    (STATUS, "One car is moving.", "A vehicle is moving.", "implied_by_answer"),
    (STATUS, "One car is parked.", "One car is stationary.", "implied_by_answer"),
    ("Which lanes are they on?", LANES, TURNED, "implied_by_answer"),
    ("What are dangerous actions?", "Back up, turn right.", "Turn right, back up.", "implied_by_answer"),
    ("What are dangerous actions?", "Back up, turn right.", "Turn right.", "implied_by_answer"),
    ("Are they signs?", "Only one of the boxes is a traffic sign.", "One of the boxes is a traffic sign.",
     "implied_by_answer"),
    ("What action?", ACTION, "The action is to remain stationary.", "implied_by_answer"),
    (RANK, RANKED, "<c1,CAM_BACK,1.0,2.0>.", "implied_by_answer"),
    (STATUS, "One car is moving.", "One white car is moving.", "contains_answer"),
    ("What is the moving status?", "Going ahead.", "Going ahead because the light is green.", "contains_answer"),
    (FRONT, TWO_THINGS, "One truck, one barrier and one bus are in front of the ego car.", "contains_answer"),
    ("What is ahead?", "One car and two buses.", "Two red buses, one car and a tree", "contains_answer"),
    ("How many cars are there?", "Two.", "Two or three.", "contains_answer"),
    ("How many cars are there?", "Two.", "Two cars and three trucks", "contains_answer"),
    ("Which vehicle follows?", "A bus", "A red bus", "contains_answer"),
    ("Is the light green?", "Yes.", "Yes, it has just changed.", "same_verdict"),
    ("Are there cars to the back?", "No.", "There are no cars visible.", "no_verdict"),
    ("Are there cars to the back?", "Yes, two cars.", "The left vehicle is beside cyclist 1.", "no_verdict"),
    ("Are there cars to the back?", "Yes, two cars.", "Yes.", "implied_by_answer"),
    ("Are there cars to the back?", "Yes, two cars.", "Yes, 2 cars", "equals_answer"),
    ("Are there cars to the back?", "Yes, two cars.", "Yes, two white cars.", "contains_answer"),
    ("Is it moving?", "No, it is parked.", "No, it is not parked.", "denies"),
    (STATUS, "One car is moving.", "One car is not moving.", "denies"),
    (STATUS, "One car is not moving.", "One car is moving.", "denies"),
    (STATUS, "One car is moving.", "Two cars are parked. They wait for the light.", "several_claims"),
]  # fmt: skip

PASSED = [
    (STATUS, "One car is moving.", "Two cars are moving."),
    (STATUS, "One car is moving.", "One car is parked."),
    (STATUS, "Two cars are moving.", "One of the two cars is moving."),
    (STATUS, "One of the two cars is moving.", "Two cars are moving."),
    ("Is there a sign?", "Yes, there are traffic elements in the front view.", "Yes, behind."),
    ("Are there cars to the back?", "Yes, two cars.", "Yes, three cars."),
    ("Are there cars to the back?", "Yes, two cars.", "No, but two trucks."),
    ("Is it moving?", "No, it is parked.", "Yes, it is turning left."),
    (STATUS, "One car is moving at 2.5 m/s.", "Two cars are parked at St. Paul's."),
    (STATUS, "One car is stopped.", "One car is parked."),
    (STATUS, "One vehicle is moving.", "One truck is moving."),
    (FRONT, TWO_THINGS, "There are two trucks and one barrier in front of the ego car."),
    (FRONT, TWO_THINGS, "There are one truck and one barrier to the back of the ego car."),
    (FRONT, TWO_THINGS, "There is one bus in front of the ego car."),
    (FRONT, TWO_THINGS, "There is no truck in front of the ego car."),
    ("Please describe the scene.", "There are two cars behind the ego car and two barriers in front of it.",
     "There are two barriers behind the ego car and two cars in front of it."),
    ("Where is it?", "To the front left of the ego car.", "To the front of the ego car."),
    ("Where is it?", "To the front left of the ego car.", "To the front right of the ego car."),
    ("Where is it?", "<c2,CAM_BACK,966.7,580.0> is on the left of <c1,CAM_FRONT,231.5,472.1>.",
     "<c1,CAM_FRONT,231.5,472.1> is on the left of <c2,CAM_BACK,966.7,580.0>."),
    ("Which lanes are they on?", LANES, SWAPPED),
    (RANK, RANKED, "<c2,CAM_BACK,3.0,4.0>, <c1,CAM_BACK,1.0,2.0>, <c3,CAM_BACK,5.0,6.0>."),
    (RANK, RANKED, "<c1,CAM_BACK,1.0,2.0>, <c3,CAM_BACK,5.0,6.0>."),
    ("What comes next?", "The car, then the truck.", "The truck, then the car, then the bus."),
    ("What comes next?", "First the car, then the truck.", "First the truck, then the car."),
    ("Predict the behavior.", DRIVING, "The ego vehicle is going straight. The ego vehicle is driving very fast."),
    ("Predict the behavior.", DRIVING, "The ego vehicle is going straight. The ego vehicle is driving slowly."),
    ("Predict the behavior.", "The ego vehicle is slightly steering to the left.",
     "The ego vehicle is steering to the left."),
    ("What action?", ACTION, ACTION.replace("high", "low")),
    ("What action?", ACTION, ACTION.replace("follow the traffic rules", "avoid a collision")),
    ("What action?", "Turn left if the road is clear.", "Turn left."),
    ("Which elements?", LIGHTS, LIGHTS.replace("green", "red", 1).replace("red, 5", "green, 5")),
    ("What is the probability?", "Low.", "Very low."),
    ("What should it do?", "Brake.", "Brake before the truck."),
    (STATUS, "The cars are moving.", "None of the cars are moving."),
    ("What does it mean?", "No entry.", "No parking."),
    ("What does it mean?", "No entry.", "Entry for buses."),
    ("How many cars are there?", "2.", "Three."),
    ("Which vehicle follows?", "A bus", "Two vehicles: a bus and a van"),
    ("Which vehicle follows?", "A bus", "A van behind a bus"),
    ("Is the light green?", "Yes.", "No."),
    ("Is the light green?", "Yes.", "No, it is red."),
    ("Are they signs?", "Neither is a traffic sign.", "Both are traffic signs."),
    ("Is it hidden? Would it matter? What then?", "None, no, none.", "No, none, none."),
    ("车在做什么？", "左转", "右转"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "answer", "text", "code"), REFUSED)
def test_faulty_distractors_are_refused(asked: str, answer: str, text: str, code: str) -> None:
    assert fault(text, question(asked, answer)) == code


@pytest.mark.parametrize(("asked", "answer", "text"), PASSED)
def test_valid_distractors_are_accepted(asked: str, answer: str, text: str) -> None:
    assert fault(text, question(asked, answer)) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((text, "not_text") for text in ("", "  ", "...", "A. Brake", "(b) Brake", "B) Brake", "1. Brake", "- Brake",
                                          "Option C: Brake", "Brake\nnow", "Bra\u200bke", "Brake \x00", "\ud800 brake",
                                          "<image> brake", "Brake <|im_end|>", "```brake```")),
        *((text, "none_of_above") for text in ("All of the above.", "None of the above", "None of these.",
                                               "Both A and B", "Neither B nor C", "Options A, B and C",
                                               "Any of the other options", "Either A or D.")),
        *((text, "meta_text") for text in ("This is the distractor", "An incorrect option about brakes",
                                           "As an AI, I see a car", "The right answer is to brake")),
        ("Brake. " * 80, "too_long"),
        ("x" * 100_000, "too_long"),
    ],
)  # fmt: skip
def test_text_of_an_invalid_form_is_refused(text: str, code: str) -> None:
    assert fault(text, question("What should the ego vehicle do?", "Turn left.")) == code


@pytest.mark.parametrize("text", ["A car brakes", "A-pillar", "I. e. braking", "Option to brake", "3", "No. 3 brakes",
                                  "The cars above the bridge", "Both cars", "Either car"])  # fmt: skip
def test_text_that_resembles_an_option_marker_is_accepted(text: str) -> None:
    assert fault(text, question("What should the ego vehicle do?", "Turn left.")) is None


def test_a_long_answer_allows_longer_options() -> None:
    answer = "There is a car at (1, 2), and it is red. " * 20
    assert fault("There is a bus at (3, 4), and it is blue. " * 20, question("?", answer)) is None


def test_tags_must_occur_in_the_scene() -> None:
    known = "<c2,CAM_BACK,1.0,2.0>"
    asked = question("Which object?", "<c1,CAM_FRONT,5.0,6.0>", scene=[("What is " + known + "?", "A car.")])
    assert fault("<c2, CAM_BACK, 1, 2>", asked) is None
    assert fault("<c2,CAM_FRONT,1.0,2.0>", asked) == "tag_unknown"
    assert fault("<c9,CAM_BACK,7.0,8.0>", asked) == "tag_unknown"
    assert fault("<c9,CAM_BACK,7.0,8.0>", question("Which object?", "None.")) is None  # no scene to compare with


def test_all_references_of_the_source_are_compared() -> None:
    asked = question("Why stop?", "The light is red.", references=["The light is red.", "A pedestrian crosses."])
    assert fault("A pedestrian crosses", asked) == "equals_answer"
    assert fault("A cyclist crosses", asked) is None


def test_repeated_distractors_are_refused() -> None:
    asked = question("What are dangerous actions?", "Accelerate.")
    assert fault("Back up and turn left", asked, ["Turn left, back up."]) == "duplicate"
    assert fault("Back up and turn left", asked, ["Turn right, back up."]) is None
    ranked = question("Rank them by importance.", "The bus.")
    assert fault("The car, the truck", ranked, ["The truck, the car"]) is None
    assert fault("the car, the truck.", ranked, ["The bike", "The car, the truck"]) == "duplicate"


def test_normal_form() -> None:
    assert normal("<c1, CAM_BACK ,1088.3, 497.5> isn't behind The ego vehicle; twenty-two trucks") == (
        "<c1,cam_back,1088.3,497.5> be not to back of ego 22 truck"
    )
    assert normal("") == normal(" ... ") == ""
    assert read("Two cars, one bus and a truck").items == (("2", "car"), ("1", "bus"), ("truck",))


WORDS = st.lists(
    st.sampled_from((
        "one", "two", "car", "cars", "truck", "moving", "left", "right", "not", "no", "yes", "and", ",", ".", "red",
        "<c1,CAM_FRONT,1,2>", "the", "(",
    )),
    min_size=1, max_size=12,
).map(" ".join)  # fmt: skip
ANY = st.one_of(st.text(max_size=80), WORDS)


@settings(max_examples=examples(300), deadline=None)
@given(text=ANY, answer=ANY, asked=ANY, others=st.lists(ANY, max_size=3))
def test_any_text_gets_a_known_code(text: str, answer: str, asked: str, others: list[str]) -> None:
    assert fault(text, question(asked, answer), others) in {None, *FAULTS}


@settings(max_examples=examples(200), deadline=None)
@given(answer=ANY, asked=ANY)
def test_the_answer_is_never_a_distractor(answer: str, asked: str) -> None:
    asked_question = question(asked, answer)
    assert fault(answer, asked_question) == "equals_answer"
    assert fault(answer.swapcase() + ".", asked_question) is not None or not answer.isascii()


@settings(max_examples=examples(200), deadline=None)
@given(left=WORDS, right=WORDS)
def test_duplicates_are_symmetric(left: str, right: str) -> None:
    asked = question("What?", "Zebra crossing.")
    if fault(left, asked) is None and fault(right, asked) is None:
        assert fault(left, asked, [right]) == fault(right, asked, [left])
        assert fault(left, asked, [left]) == "duplicate"


@settings(max_examples=examples(100), deadline=None)
@given(st.text(string.ascii_letters + " ,.-'", max_size=80))
def test_normal_form_ignores_case_and_outer_spaces(text: str) -> None:
    assert normal(text) == normal(f" {text.upper()} ")


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", ["there is ", "keep going ", "( ", "<", "twenty ", "A. ", "n't", "front left of ego "]
)
def test_hostile_text_takes_bounded_time(piece: str) -> None:
    """A quadratic pattern would take minutes for these texts."""
    asked = question("What?", piece * 5_000)
    for _ in range(3):
        fault(piece * 4_000, asked, [piece * 3_000])


@pytest.mark.timeout(10)
@pytest.mark.parametrize("more", ["", ", z"])
def test_comparing_many_parts_takes_bounded_time(more: str) -> None:
    """Comparing every pair of parts took ten seconds for these texts."""
    answer = ", ".join(f"w{i} x" for i in range(800))
    code = fault(answer + more, question("What is there?", answer))
    assert code == ("contains_answer" if more else "equals_answer")
    assert fault(", ".join(f"x w{i}" for i in range(800)), question("What is there?", answer)) is None


def test_answers_of_the_real_sample(data_dir: Path) -> None:
    """DriveLM's answers: refused for their own question, also paraphrased; most of another frame's are accepted."""
    release = find_release("drivelm")
    opened = release.open(data_dir / "drivelm" / "train_sample.json", split=None, images=None, options={})
    records = [item for item in opened.records() if isinstance(item, Record) and item.answer.en]
    by_words: dict[str, dict[str, OpenQuestion]] = {}
    for record in records:
        asked = OpenQuestion(record.id, record, "drivelm", record.task, record.subtask, record.answer.en, Path())
        assert fault(record.answer.en, asked) == "equals_answer"
        by_words.setdefault(re.sub(r"<[^>]*>", "", record.question.en)[:60], {})[record.answer.en] = asked
    codes = Counter(
        fault(text, asked)
        for group in by_words.values()
        for answer, asked in group.items()
        for text in group
        if text != answer
    )
    assert sum(codes.values()) > 500 and codes[None] > 0.75 * sum(codes.values())
    assert codes["equals_answer"] > 30 and codes["not_text"] == codes["meta_text"] == codes["none_of_above"] == 0
