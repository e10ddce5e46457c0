"""Each family of rules on questions with wrong answers written by hand."""

from __future__ import annotations

import re

import pytest
from support.mcq.ruled import CAR, LIGHT, VAN, frame, pool

from lmms_eval_ad2.mcq.base import KINDS, AcceptedQuestion, RejectedQuestion
from lmms_eval_ad2.mcq.makers.rules_maker import RulesMaker
from lmms_eval_ad2.mcq.rules.actions import named, wrong_keys
from lmms_eval_ad2.mcq.rules.base import DOMAIN, LOGIC, OVERSIGHT, READING, SENSOR, RuleCase
from lmms_eval_ad2.mcq.rules.directions import across, along
from lmms_eval_ad2.mcq.rules.facts import facts_of
from lmms_eval_ad2.mcq.rules.naive import shape
from lmms_eval_ad2.mcq.rules.surroundings import read_list, write_list

BACK = "What are objects to the back of the ego car?"
SIGNAL = "What is the traffic signal that the ego vehicle should pay attention to?"


def test_a_list_of_objects_is_read_and_written_back() -> None:
    text = "There are many barriers, one bus, and two cars behind the ego car."
    read = read_list(text)
    assert read == ([("many", "barrier"), ("one", "bus"), ("two", "car")], "behind the ego car")
    assert write_list(*read) == text
    assert read_list("There is some rain on the road.") is None


def test_counts_classes_and_neighbouring_directions_of_a_list() -> None:
    other = ("What are objects to the front of the ego car?", "There are three trucks in front of the ego car.")
    found = pool((BACK, "There is one pedestrian and two cars behind the ego car."), other)
    assert found["There are two pedestrians and two cars behind the ego car."] == OVERSIGHT
    assert found["There is one pedestrian and three cars behind the ego car."] == OVERSIGHT
    assert found["There are two pedestrians and one car behind the ego car."] == OVERSIGHT
    assert found["There is one pedestrian and two buses behind the ego car."] == DOMAIN
    assert found["There is one traffic cone and two cars behind the ego car."] == SENSOR
    assert found["There are three trucks behind the ego car."] == READING
    assert found["There are no objects behind the ego car."] == LOGIC


def test_a_part_of_the_list_is_never_offered() -> None:
    shorter = ("What are objects to the front of the ego car?", "There are two cars in front of the ego car.")
    found = pool((BACK, "There is one pedestrian and two cars behind the ego car."), shorter)
    assert "There are two cars behind the ego car." not in found
    longer = ("What are objects to the front of the ego car?", "There are six cars in front of the ego car.")
    found = pool((BACK, "There is one pedestrian and two cars behind the ego car."), longer)
    assert "There are six cars behind the ego car." not in found, "a careless version of the right list"


def test_states_of_groups() -> None:
    question = "What is the status of the {} that are to the front of the ego car?"
    found = pool((question.format("cars"), "Two of the cars are moving, and one is parked."))
    assert found["Two of the cars are parked, and one is moving."] == SENSOR
    assert found["All of the cars are moving."] == LOGIC
    pair = pool((question.format("cars"), "One of the cars is moving, and one is parked."))
    assert not any("parked" in text and "moving" in text for text in pair), "a pair exchanged says the same"
    assert "parked" not in " ".join(pool((question.format("pedestrians"), "Two pedestrians are moving.")))


def test_a_motion_state_is_replaced_by_incompatible_ones() -> None:
    found = pool((f"What is the moving status of object {CAR}?", "Going ahead."))
    assert found["Turn left."] == SENSOR
    assert found["Back up."] == OVERSIGHT
    assert all(text == text.strip() and text.endswith(".") and text[0].isupper() for text in found)
    later = pool((f"What is the future state of {CAR}?", f"The future state of {CAR} is to turn left."))
    assert f"The future state of {CAR} is to turn right." in later


def test_descriptions_of_other_objects_of_the_scene() -> None:
    question = "What is the visual description of {}?"
    found = pool((question.format(CAR), "White sedan."), (question.format(VAN), "Black van."))
    assert found["Black van."] == READING
    assert found["Black sedan."] == SENSOR
    assert found["White truck."] == DOMAIN
    # A gray or silver sedan may be called white.
    assert not any(color in " ".join(found).lower() for color in ("silver", "gray"))


def test_lights_signs_and_their_meaning() -> None:
    assert pool((SIGNAL, "None."))["Red light."] in (READING, SENSOR)
    assert pool((f"What is the visual description of {LIGHT}?", "Red light."))["Green light."] == SENSOR
    assert pool((f"What does {LIGHT} mean?", "Please wait."))["Please proceed."] == SENSOR


def test_yes_no_answers_and_their_reasons() -> None:
    question = "Are there parked trucks to the front left of the ego car?"
    yes, no = pool((question, "Yes.")), pool((question, "No."))
    assert yes["No, only to the front right."] == SENSOR
    assert yes["No, those are buses."] == DOMAIN
    assert yes["No, only to the back left."] == READING
    assert no["Yes, two."] == OVERSIGHT
    assert all(text.startswith("No") for text in yes)
    assert all(text.startswith("Yes") for text in no)


def test_objects_that_are_annotated_as_relevant_are_not_offered() -> None:
    question = f"hat object would consider {LIGHT} to be most relevant to its decision?"
    plain = (f"W{question}", "The ego vehicle.")
    excepted = (f"Except for the ego vehicle, w{question}", f"{CAR}.")
    known = (f"Is {VAN} an object that the ego vehicle should consider in the current scene?", "No.")
    found = pool(plain, excepted, known)
    assert f"{CAR}." not in found, "the same question without the ego vehicle is answered by it"
    assert found[f"{VAN}."] == SENSOR
    assert found[f"{LIGHT}."] == LOGIC
    assert pool(excepted, plain, known)["The ego vehicle."] == READING


def test_rankings_are_other_orders_of_the_same_objects() -> None:
    question = "What is the priority of the objects that the ego vehicle should consider?(in descending order)"
    found = pool((question, f"{LIGHT}, {VAN}, {CAR}."))
    assert found[f"{CAR}, {VAN}, {LIGHT}."] == READING
    assert found[f"{VAN}, {LIGHT}, {CAR}."] == OVERSIGHT
    assert len(found) <= 5, "three objects have five other orders"


def test_safe_actions_of_the_frame_are_not_offered() -> None:
    action = (
        f"Based on {LIGHT} in this scene, what is the most possible action of the ego vehicle?",
        "Remain stationary.",
    )
    safe = ("In this scenario, what are safe actions to take for the ego vehicle?", "Turn left, back up.")
    open_question = frame(action, safe)[0]
    case = RuleCase(open_question, facts_of(open_question.scene), re.match("", ""))
    assert wrong_keys(case, "stationary") == ["accelerate", "keep", "turn_right"]
    assert "Accelerate and go ahead." in pool(action, safe)
    assert not any("back up" in text.lower() or "turn left" in text.lower() for text in pool(action, safe))


def test_action_reason_and_probability() -> None:
    text = f"What actions could the ego vehicle take based on {CAR}? Why take this action and what's the probability?"
    found = pool((text, "The action is to remain stationary because there is no safety issue, high probability."))
    low = "The action is to remain stationary because there is no safety issue, low probability."
    assert found[low] == OVERSIGHT
    saving = "The action is to accelerate and go ahead because it has to save time, high probability."
    assert found[saving] == LOGIC


def test_actions_that_lead_to_a_collision() -> None:
    question = "What actions taken by the ego vehicle can lead to a collision with {}?"
    brakes = (f"What is the probability of colliding with {VAN} after the ego vehicle steps on the brakes?", "Low.")
    behind = pool((question.format(VAN), "Back up."), brakes)
    assert "Brake gently to a stop." in behind, "the frame calls this unlikely to end in a collision"
    assert behind["No such action will lead to a collision."] == LOGIC
    ahead = pool((question.format(CAR), "Accelerating and going straight."))
    assert not any(key in text.lower() for text in ahead for key in ("keep going", "going straight"))
    assert "Back up." in ahead
    right = pool((question.format(CAR), f"Driving towards the front right can lead to a collision with {CAR}."))
    assert not any("right" in text for text in right)
    safe = ("In this scenario, what are safe actions to take for the ego vehicle?", "Turn left, slow down.")
    fast = ("In this scenario, what are safe actions to take for the ego vehicle?", "Accelerate, slow down.")
    assert not any(
        "ccelerat" in text for text in pool((question.format(CAR), "Accelerating and going straight."), fast)
    )
    left = pool((question.format(CAR), "Sharp left turn."), safe)
    assert "Decelerate gradually without braking." in left
    assert "Turn left." not in left, "annotated for this object, whatever is called safe for the frame"


def test_safe_and_dangerous_lists_contain_an_action_of_the_other_list() -> None:
    safe = ("In this scenario, what are safe actions to take for the ego vehicle?", "Slow down, turn left.")
    dangerous = ("In this scenario, what are dangerous actions to take for the ego vehicle?", "Back up, turn right.")
    for text in pool(safe, dangerous):
        assert set(named(text)) - {"slow", "turn_left"}, text
    for text in pool(dangerous, safe):
        assert set(named(text)) - {"back", "turn_right"}, text


def test_boxes_are_exchanged_shifted_and_mirrored() -> None:
    question = "Identify all the traffic elements in the front view, categorize them, determine their status"
    head = "There is one traffic element in the front view. The information of this traffic element is "
    found = pool((question, head + "[(traffic light, red, 100.0, 20.0, 150.0, 80.0)]."))
    assert found[head + "[(traffic light, red, 20.0, 100.0, 80.0, 150.0)]."] == OVERSIGHT
    assert found[head + "[(traffic light, red, 1450.0, 20.0, 1500.0, 80.0)]."] == SENSOR
    assert found[head + "[(traffic light, red, 125.0, 50.0, 50.0, 60.0)]."] == READING
    assert found[head + "[(traffic light, green, 100.0, 20.0, 150.0, 80.0)]."] == SENSOR


def test_ego_behaviour_excludes_adjacent_classes() -> None:
    right = "The ego vehicle is going straight. The ego vehicle is driving slowly."
    found = pool(("Predict the behavior of the ego vehicle.", right))
    assert "The ego vehicle is going straight. The ego vehicle is driving fast." in found
    assert not any("slightly" in text for text in found)
    assert "The ego vehicle is going straight. The ego vehicle is not moving." not in found


def test_objects_to_notice_first() -> None:
    question = (
        "What object should the ego vehicle notice first when the ego vehicle is getting to the next possible location?"
    )
    right = (
        f"Firstly, notice {CAR}. It is going ahead, so the ego vehicle should remain stationary. "
        f"Secondly, notice {VAN}. It is stationary, so the ego vehicle should remain stationary."
    )
    found = pool((question, right))
    assert found[right.replace("is going ahead", "is turning left")] == SENSOR
    assert not any("remain going" in text or "remain backing" in text for text in found)


@pytest.mark.parametrize(
    ("question", "answer", "wrong"),
    [
        ("How many moving cars are there?", "Two.", "Three."),
        ("How many moving cars are there?", "0", "1"),
        ("What is the thing that is to the back of the car?", "Traffic cone.", "Barrier."),
        ("What is the status of the bicycle to the front of me?", "With rider.", "Without rider."),
        ("What is the status of the truck to the back of me?", "Parked.", "Moving."),
        ("Are there any trailers to the front of me?", "Yes.", "No."),
        ("Is the status of the truck to the front the same as the bus?", "No.", "Yes, both move."),
    ],
)
def test_distractors_for_nuscenes_qa(question: str, answer: str, wrong: str) -> None:
    assert wrong in pool((question, answer), source="nuscenes_qa")


@pytest.mark.parametrize(
    ("question", "answer", "wrong"),
    [
        ("What colour is the light?", "The traffic light is green.", "The traffic light is red."),
        (
            "Where is it?",
            "The cyclist is on the left side of the lane.",
            "The cyclist is on the right side of the lane.",
        ),
        ("Why?", "I am slowing down because there is a dog.", "I am speeding up because there is a dog."),
        ("Why?", "I should stop, so that others can pass.", "I should not stop, so that others can pass."),
        ("Is it safe?", "No, it is not safe to go because of a bus.", "Yes, it is safe to go because of a bus."),
    ],
)
def test_distractors_for_free_text(question: str, answer: str, wrong: str) -> None:
    assert wrong in pool((question, answer), source="lingoqa")


def test_distractors_for_free_text_include_no_statement_that_may_be_true() -> None:
    outcome = RulesMaker().one(frame(("What is there?", "There is a red car on the left."), source="lingoqa")[0])
    assert isinstance(outcome, RejectedQuestion) and outcome.reason == "too_few_distractors"


def test_a_question_without_a_rule_is_rejected_with_a_reason() -> None:
    outcome = RulesMaker().one(frame(("Which song is this?", "Yesterday"))[0])
    assert isinstance(outcome, RejectedQuestion) and outcome.reason == "no_rule"
    assert "Which song" in outcome.detail


def test_directions_are_mirrored() -> None:
    assert across("to the front left of it") == "to the front right of it"
    assert along("in front of the car, at the back of the bus") == "behind the car, at the front of the bus"
    assert across("straight ahead") == along("on the left") == ""


def test_naive_options_answer_another_kind_of_question() -> None:
    pairs = (
        (BACK, "There is one bus behind the ego car."),
        (f"What is the visual description of {CAR}?", "White sedan."),
    )
    outcome = RulesMaker("naive").one(frame(*pairs)[0])
    assert isinstance(outcome, AcceptedQuestion)
    assert {d.category for d in outcome.distractors} == {"naive"}
    assert all(shape(d.text) != "list" or "penguin" in d.text for d in outcome.distractors)
    assert shape("There are many cars in front of the ego car.") == "list"
    assert (shape("White SUV."), shape("Yes."), shape("Two."), shape("None.")) == ("looks", "verdict", "count", "none")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_only_its_category(kind: str) -> None:
    outcome = RulesMaker(kind).one(frame(("Are there moving cars to the front left of the ego car?", "Yes."))[0])
    assert isinstance(outcome, AcceptedQuestion)
    found = {d.category for d in outcome.distractors}
    assert len(found) == 3 if kind == "all" else found == {kind}
