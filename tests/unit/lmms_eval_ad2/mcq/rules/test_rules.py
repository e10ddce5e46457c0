"""The kinds of questions and their operations, with options written by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from support.mcq.ruled import CAR, LIGHT, VAN, drawn, frame

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.mcq.base import AcceptedQuestion, RejectedQuestion
from lmms_eval_ad2.mcq.rules.frame_facts import directions_instead, looks_of, read_items, say_items
from lmms_eval_ad2.mcq.rules.kinds import exclusive, kinds
from lmms_eval_ad2.mcq.rules.maker import OPERATIONS, RulesMaker, category_of, shape

BACK = "What are objects to the back of the ego car?"
FRONT_LIST = ("What are objects to the front of the ego car?", "There are three trucks in front of the ego car.")
LOOKS = (f"What is the visual description of {VAN}?", "Black van.")
SENSOR, OVERSIGHT, READING = "misinterpreted_sensor_inputs", "computational_oversights", "question_ambiguity"


def reason(*pairs: tuple[str, str], source: str = "drivelm") -> str:
    outcome = RulesMaker().one(frame(*pairs, source=source)[0])
    assert isinstance(outcome, RejectedQuestion)
    return outcome.reason


def test_a_list_of_objects_is_read_and_written_back() -> None:
    items = (("many", "barrier"), ("one", "bus"), ("two", "car"))
    assert read_items("There are many barriers, one bus, and two cars behind the ego car.") == items
    assert say_items(items) == "many barriers, one bus, and two cars"
    assert read_items("There is some rain on the road.") == ()


def test_two_fields_of_a_list_make_a_grid_of_four_options() -> None:
    outcome = RulesMaker().one(frame((BACK, "There are two trucks behind the ego car."), FRONT_LIST)[0])
    assert isinstance(outcome, AcceptedQuestion)
    texts = [outcome.question.answer, *(d.text for d in outcome.distractors)]
    values = [text.removeprefix("There is ").removeprefix("There are ").split()[:2] for text in texts]
    counts = Counter(count for count, _ in values)
    classes = Counter(name.removesuffix("s") for _, name in values)
    assert sorted(counts.values()) == sorted(classes.values()) == [2, 2]
    assert Counter(d.operation.count("+") for d in outcome.distractors) == {0: 2, 1: 1}


def test_grammar_follows_the_changed_count() -> None:
    found = drawn((BACK, "There is one bus and two cars behind the ego car."))
    assert "There are two buses and two cars behind the ego car." in found
    assert "There is one bus and one car behind the ego car." in found
    assert not any(text.startswith("There is two") or "one cars" in text for text in found)


def test_changed_words_keep_article_and_capital() -> None:
    question = "What are the important objects in the current scene?"
    found = drawn((question, "There is a white SUV to the back of the ego vehicle, and an orange bus to its left."))
    assert any("a white truck" in text for text in found) and any("a white bus" in text for text in found)
    assert not any("Truck" in text or "a orange" in text or "an white" in text for text in found)
    listed = (BACK, "There are two cars behind the ego car.")
    riders = drawn(("Are there bicycles with riders to the back of the ego car?", "No."), listed)
    assert "Yes, one bicycle with a rider." in riders and "Yes, two bicycles with riders." in riders


def test_status_of_a_group() -> None:
    question = "What is the status of the cars that are to the front of the ego car?"
    found = drawn((question, "Two of the cars are moving, and one is parked."))
    assert found[""] == "Two of the cars are moving, and one is parked."
    assert "Two cars are moving." not in found, "true whenever the answer is true"
    assert found["Two cars are parked."] == "changed_value"
    assert (
        reason((question.replace("cars", "car").replace("are", "is"), "One car is moving."))
        == "predictable:status_of_one"
    )


def test_looks_are_those_of_other_objects_or_exclude_the_right_ones() -> None:
    found = drawn((f"What is the visual description of {CAR}?", "White sedan."), LOOKS)
    assert found[""] == "White sedan."
    assert found["Black van."] == "other_object"
    assert "Gray sedan." not in found, "a gray sedan may be called white"
    assert set(drawn((f"What is the visual description of {LIGHT}?", "Red light."))) - {""} <= {
        "Green light.", "Yellow light.", "No entry sign.", "Stop sign.",
    }  # fmt: skip


def test_options_of_yes_no_questions_have_both_verdicts_and_reasons_from_annotations() -> None:
    found = drawn((f"Is {CAR} a traffic sign or a road barrier?", "No."), LOOKS, (f"What does {LIGHT} mean?", "Wait."))
    assert found[""] == "No, it is a white sedan."
    assert found["No, it is a black van."] == "other_object"
    assert found["Yes, it is a red light."] == "changed_value+other_object"
    assert all(text.startswith(("Yes, it is a", "No, it is a")) for text in found if text)


def test_without_an_annotated_reason_a_yes_no_question_is_rejected() -> None:
    bare = frame(("Is <c7,CAM_BACK,1.0,2.0> a traffic sign or a road barrier?", "No."))[0]
    outcome = RulesMaker().one(bare)
    assert isinstance(outcome, RejectedQuestion) and outcome.reason == "too_few_distractors"
    assert reason(("Are there cars to the back of the ego car?", "Yes.")) == "too_few_distractors"


def test_existence_is_answered_by_what_is_annotated_there() -> None:
    listed = (BACK, "There are two cars and one bus behind the ego car.")
    found = drawn(("Are there cars to the back of the ego car?", "Yes."), listed)
    assert found[""] == "Yes, two cars."
    assert found["Yes, one car."] == "changed_count"
    assert found["No, but one bus."] == "changed_value+removed_object"
    no = drawn(("Are there trucks to the back of the ego car?", "No."), listed)
    assert no[""] == "No, but two cars and one bus."
    assert no["Yes, two trucks."] == "changed_value+changed_count"


def test_existence_in_a_state_is_answered_by_the_status() -> None:
    status = ("What is the status of the cars that are to the back of the ego car?", "Two cars are moving.")
    moving = drawn(("Are there moving cars to the back of the ego car?", "Yes."), status)
    assert moving[""] == "Yes, two moving cars."
    assert "No, but one parked car." in moving
    parked = drawn(("Are there parked cars to the back of the ego car?", "No."), status)
    assert parked[""] == "No, but two moving cars."
    assert "Yes, two parked cars." in parked


def test_half_of_the_options_and_more_have_the_usual_verdict_whichever_is_right() -> None:
    """P(usual is right | k options have it) = k / 4: with the share 3/4 always three, whether it is right or not."""
    for tag, answer in ((CAR, "No."), (LIGHT, "Yes.")):
        for seed in range(12):
            asked = frame((f"Is {tag} a traffic sign or a road barrier?", answer), LOOKS)[0]
            outcome = RulesMaker(seed=seed).one(asked)
            assert isinstance(outcome, AcceptedQuestion)
            texts = [outcome.question.answer, *(d.text for d in outcome.distractors)]
            assert sum(text.startswith("No") for text in texts) == 3


def test_status_of_an_object_names_the_object() -> None:
    found = drawn((f"What is the moving status of object {CAR}?", "Going ahead."), LOOKS)
    assert found[""] == "The white sedan is going ahead."
    assert found["The black van is going ahead."] == "other_object"
    assert found["The white sedan is turning left."] == "changed_value"


def test_rankings_are_other_orders_of_the_same_objects() -> None:
    question = "What is the priority of the objects that the ego vehicle should consider?(in descending order)"
    found = drawn((question, f"{LIGHT}, {VAN}, {CAR}."))
    assert found[f"{CAR}, {VAN}, {LIGHT}."] == "swapped_order"
    assert len(found) == 6, "three objects have five other orders; the right one is under ''"
    assert reason((question, f"{LIGHT}, {VAN}.")) == "too_few_distractors"


def test_safe_actions_of_the_frame_are_not_offered() -> None:
    action = (
        f"Based on {LIGHT} in this scene, what is the most possible action of the ego vehicle?",
        "Remain stationary.",
    )
    safe = ("In this scenario, what are safe actions to take for the ego vehicle?", "Turn left.")
    assert set(drawn(action, safe)) - {""} == {
        "Accelerate and go ahead.", "Keep going at the same speed.", "Back up.", "Turn right.",
    }  # fmt: skip
    assert reason(safe) == "predictable:safe_actions"


def test_an_action_and_its_reason() -> None:
    text = f"What actions could the ego vehicle take based on {CAR}? Why take this action and what's the probability?"
    found = drawn(
        (text, "The action is to remain stationary, the reason is to follow the traffic rules, high probability.")
    )
    assert found[""] == "Remain stationary to follow the traffic rules, with high probability."
    assert not any(option.startswith("Remain stationary") for option in found), "another reason may be true as well"
    assert "Brake gently to a stop to follow the traffic rules, with high probability." not in found


def test_boxes_are_shifted_and_mirrored_and_signals_change() -> None:
    question = "Identify all the traffic elements in the front view, categorize them, determine their status"
    head = "There is one traffic element in the front view. The information of this traffic element is "
    found = drawn((question, head + "[(traffic light, red, 100.0, 20.0, 150.0, 80.0)]."))
    assert found[head + "[(traffic light, red, 250.0, 20.0, 300.0, 80.0)]."] == "changed_box"
    assert found[head + "[(traffic light, green, 100.0, 20.0, 150.0, 80.0)]."] == "changed_light"
    assert any("1450.0, 20.0, 1500.0, 80.0" in text for text in found), "mirrored at 1600 px width"


def test_ego_behaviour_changes_in_speed() -> None:
    right = "The ego vehicle is going straight. The ego vehicle is driving slowly."
    found = drawn(("Predict the behavior of the ego vehicle.", right))
    assert found["The ego vehicle is going straight. The ego vehicle is driving fast."] == "changed_speed"
    assert all(text.startswith("The ego vehicle is going straight.") for text in found if text)


def test_objects_to_notice_first() -> None:
    question = "What object should the ego vehicle notice first when the ego vehicle is getting to the next location?"
    right = (
        f"Firstly, notice {CAR}. It is going ahead, so the ego vehicle should remain stationary. "
        f"Secondly, notice {VAN}. It is stationary, so the ego vehicle should remain stationary."
    )
    found = drawn((question, right))
    assert found[right.replace("is going ahead", "is turning left")] == "changed_motion"
    assert not any("remain going" in text or "remain turning" in text for text in found)


def test_relative_positions_and_lanes() -> None:
    found = drawn(
        ("What is the relative positioning of the important objects?", f"{CAR} is on the front left of {VAN}.")
    )
    assert set(found) - {""} == {f"{CAR} is on the {place} of {VAN}." for place in directions_instead("front left")}
    assert directions_instead("front left") == ("front right", "back left", "back right")
    lanes = drawn(("Which lanes are they on?", f"{CAR} is in the left lane."))
    assert lanes[f"{CAR} is in the ego lane."] == "changed_lane"


def test_options_of_nuscenes_qa() -> None:
    found = drawn(("How many moving cars are there?", "Two."), source="nuscenes_qa")
    assert {"Zero", "One", "Three", "Four", "Five"} >= {text.rstrip(".") for text in found if text} - {"Two"}
    assert "Barrier" in drawn(
        ("What is the thing that is to the back of the car?", "Traffic cone"), source="nuscenes_qa"
    )
    assert reason(("Are there any trailers?", "Yes."), source="nuscenes_qa") == "predictable:nuscenes_yes_no"
    assert reason(("What status is the bus?", "Parked."), source="nuscenes_qa") == "predictable:nuscenes_status"


def test_a_question_without_a_rule_is_rejected_with_a_reason() -> None:
    outcome = RulesMaker().one(frame(("Which song is this?", "Yesterday"))[0])
    assert isinstance(outcome, RejectedQuestion) and outcome.reason == "no_rule"
    assert "Which song" in outcome.detail


def test_kinds_that_are_predictable_are_left_out_by_name() -> None:
    outcome = RulesMaker().one(frame((f"Which object is most likely to be occluded by {VAN}?", "None, no, none."))[0])
    assert isinstance(outcome, RejectedQuestion) and outcome.reason == "predictable:occlusion"
    assert "nearly all" in outcome.detail
    assert all(len(kind.left_out) > 20 for kind in kinds() if kind.left_out)


def test_a_category_stands_only_where_the_operation_implies_it() -> None:
    assert category_of("changed_count") == OVERSIGHT and category_of("other_object") == READING
    assert category_of("changed_colour+changed_vehicle") == SENSOR
    assert category_of("changed_count+changed_class") == "uncategorised", "two categories"
    assert category_of("changed_value") == category_of("changed_value+other_object") == "uncategorised"
    assert all(what for _, what in OPERATIONS.values())


def test_looks_that_exclude_each_other() -> None:
    assert exclusive("white sedan", "black sedan") and exclusive("white sedan", "white truck")
    assert not exclusive("white sedan", "gray sedan") and not exclusive("white car", "white SUV")
    assert exclusive("red light", "green light") and not exclusive("red light", "red light")
    assert looks_of("White sedan car.") == "white sedan" and looks_of("No entry") == "no entry sign"
    assert looks_of("A very long description of a car") == looks_of(None) == ""


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


@pytest.mark.parametrize("kind", ["hard", "logical_inconsistencies"])
def test_single_categories_need_a_model(kind: str) -> None:
    with pytest.raises(Ad2Error, match="expected all or naive"):
        RulesMaker(kind)
