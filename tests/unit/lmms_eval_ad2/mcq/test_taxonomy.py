"""Every question form of the sources has a sub-task of the paper's taxonomy, or a reason code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.core.records import FORMS, AnswerOption, BilingualText, Record
from lmms_eval_ad2.mcq.sources import open_source
from lmms_eval_ad2.mcq.taxonomy import SUBTASKS, TASK_OF, answer_text, classify, masked

# DriveLM's question forms by their beginnings (a tag stands for an object), in the layer that has them.
DRIVELM = {
    "perception": {
        "surrounding objects": [
            "Are there barriers to the back left of the ego car?", "Are there moving cars to the front of the ego car?",
            "What are objects to the back of the ego car?", "Please describe the current scene.",
        ],
        "traffic elements": [
            "Is there any traffic element in the front view?", "Identify all the traffic elements in ...",
        ],
        "important objects": [
            "What are the important objects in the current scene? Those objects ...",
            "What is the relative positioning of the important objects in the current scene?",
            "Which lanes are each important object on in the scene?",
        ],
        "visual description": ["What is the visual description of <c1,CAM_BACK,1088.3,497.5>?"],
        "motion state": [
            "What is the moving status of object <c1,CAM_FRONT,1.0,2.0>?",
            "What is the observed status of object <c1,CAM_FRONT,1.0,2.0>?",
            "What is the status of the cars that are to the front right of the ego car?",
        ],
    },
    "prediction": {
        "motion prediction": [
            "What is the future state of <c2,CAM_BACK,8.0,9.0>?",
            "Will <c1,CAM_BACK,1.0,2.0> be in the moving direction of <c2,CAM_FRONT,3.0,4.0>?",
            "Would <c1,CAM_BACK,1.0,2.0> be in the moving direction of the ego vehicle?",
        ],
        "possible attention": [
            "Except for the ego vehicle, what object would consider <c1,CAM_BACK,1.0,2.0> to be most relevant ...?",
            "What object would consider <c1,CAM_BACK,1.0,2.0> to be most relevant to its decision?",
            "In this scenario, what object is most likely to consider <c1,CAM_BACK,1.0,2.0>?",
            "Would <c1,CAM_BACK,1.0,2.0> take <c2,CAM_BACK,3.0,4.0> into account?",
        ],
        "object interaction": [
            "Based on the observations of <c1,CAM_BACK,1.0,2.0>, what are possible actions to be taken by "
            "<c2,CAM_BACK,3.0,4.0>? What is the reason?",
            "Will <c1,CAM_BACK,1.0,2.0> change its motion state based on <c2,CAM_BACK,3.0,4.0>?",
        ],
        "logical sequence": ["What object should the ego vehicle notice first when the ego vehicle is getting to ...?"],
        "signal meaning": [
            "Are <c1,CAM_FRONT,1.0,2.0> and <c2,CAM_FRONT,3.0,4.0> traffic signs?",
            "Is <c1,CAM_FRONT,1.0,2.0> a traffic sign or a road barrier?", "What does <c1,CAM_FRONT,1.0,2.0> mean?",
            "What kind of traffic sign is <c1,CAM_FRONT,1.0,2.0>?",
        ],
        "visual occlusion": ["Which object is most likely to be occluded by <c1,CAM_FRONT,1.0,2.0>? Would ...?"],
    },
    "planning": {
        "safe/unsafe action": [
            "In this scenario, what are safe actions to take for the ego vehicle?",
            "In this scenario, what are dangerous actions to take for the ego vehicle?",
        ],
        "goal action": ["What is the target action of the ego vehicle?"],
        "possible collision": [
            "What actions taken by the ego vehicle can lead to a collision with <c1,CAM_FRONT,1.0,2.0>?",
            "What is the probability of colliding with <c1,CAM_FRONT,1.0,2.0> after the ego vehicle ...?",
        ],
        "free-form comment": ["What's your comment on this scene?", "What about the puddles here?"],
        "importance ranking": ["What is the priority of the objects that the ego vehicle should consider?(in ...)"],
        "planning and reasoning": [
            "What actions could the ego vehicle take based on <c1,CAM_FRONT,1.0,2.0>? Why ...?",
            "Based on <c1,CAM_FRONT,1.0,2.0> in this scene, what is the most possible action of the ego vehicle?",
        ],
        "ego attention": [
            "Is <c1,CAM_FRONT,1.0,2.0> an object that the ego vehicle should consider in the current scene?",
            "Is it necessary for the ego vehicle to take <c1,CAM_FRONT,1.0,2.0> into account?",
            "What is the traffic signal that the ego vehicle should pay attention to?",
        ],
    },
    "behavior": {"goal action": ["Predict the behavior of the ego vehicle."]},
}  # fmt: skip

# Our own questions of LingoQA's kinds: action, scenery, reasons.
FREE = {
    "surrounding objects": ["How many parked vans can you see?", "Is there a bus behind you?", "What is on your left?"],
    "traffic elements": ["Is there a traffic light, and what colour is it?", "In which lane do you drive?"],
    "visual description": ["What colour is the lorry?", "What is the weather?", "Is the road surface wet?"],
    "motion state": ["Is the van in front moving?", "What is your speed?"],
    "important objects": ["Which are the important objects here?"],
    "motion prediction": ["What will the cyclist do next?", "Is the dog about to step onto the road?"],
    "possible attention": ["Has the boy noticed you?"],
    "object interaction": ["Why is the bus slowing down?", "How does the van react to the lorry?"],
    "logical sequence": ["What happens first, and what after that?"],
    "signal meaning": ["What does the blue sign mean?"],
    "visual occlusion": ["What may be hidden by the van?"],
    "safe/unsafe action": ["Is it safe to overtake?", "Should you slow down here? If so, why?", "Do you have to stop?"],
    "goal action": ["What are you doing?", "Are you turning right?", "What is your next manoeuvre?"],
    "possible collision": ["Could the opening door lead to a collision?"],
    "free-form comment": ["Any comment?"],
    "importance ranking": ["What is the most important thing to mind?"],
    "planning and reasoning": ["What do you do, and what is your justification?", "Why are you braking?"],
    "ego attention": ["What do you need to pay attention to?", "Which hazards are there?", "To whom must you yield?"],
}


def record(
    question: str, benchmark: str = "lingoqa", task: str = "val", answer: str = "It is so.", **changes: Any
) -> Record:
    data: dict[str, Any] = {"subtask": task, "form": "vqa", "images": ("a.jpg",), **changes}
    return Record("r", benchmark, task, question=BilingualText(question), answer=BilingualText(answer), **data)


def test_the_taxonomy_has_the_papers_eighteen_sub_tasks() -> None:
    assert {task: len(names) for task, names in SUBTASKS.items()} == {"perception": 5, "prediction": 6, "planning": 7}
    assert len(TASK_OF) == 18
    assert set(FREE) == set(TASK_OF)


@pytest.mark.parametrize(
    ("layer", "name", "question"),
    [(layer, name, q) for layer, names in DRIVELM.items() for name, qs in names.items() for q in qs],
)
def test_drivelm_question_forms_are_classified(layer: str, name: str, question: str) -> None:
    found = classify(record(question, "drivelm", layer))
    assert found == (TASK_OF[name], name)
    assert found[0] == layer or layer == "behavior"
    if "puddles" not in question:  # not a form: its layer decides, which the challenge's conversation format lacks
        assert classify(record(question, "drivelm", "all")) == found


def test_another_road_users_action_is_prediction_in_any_layer() -> None:
    question = "Based on the observation of <c1,CAM_BACK,1.0,2.0>, what actions may <c2,CAM_BACK,3.0,4.0> take?"
    assert classify(record(question, "drivelm", "planning")) == ("prediction", "object interaction")


def test_free_questions_are_classified_by_their_drivelm_layer() -> None:
    assert classify(record("Would braking hard end in a crash?", "drivelm", "planning")) == (
        "planning",
        "possible collision",
    )
    assert classify(record("Does it glitter?", "drivelm", "perception")) == "no_subtask"
    # A word of another task does not change the layer.
    assert classify(record("Is the crash barrier moving?", "drivelm", "perception")) == ("perception", "motion state")


def test_all_questions_of_the_real_sample_are_classified(data_dir: Path) -> None:
    found: Counter[Any] = Counter()
    for file in ("train_sample.json", "test_eval.json"):
        source = open_source(f"drivelm:any={data_dir / 'drivelm' / file}", images=data_dir / "drivelm" / "images")
        found.update((r.task, classify(r)) for r in source.records())
    assert sum(found.values()) == 790 + 66
    assert all(isinstance(subtask, tuple) for _, subtask in found)
    assert {subtask[1] for _, subtask in found} == set(TASK_OF)
    assert {k: n for k, n in found.items() if k[0] != k[1][0]} == {
        ("behavior", ("planning", "goal action")): 18, ("planning", ("prediction", "object interaction")): 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("template", "question", "name"),
    [
        ("exist", "Are any other things of the same status as the bus visible?", "surrounding objects"),
        ("count", "How many trucks are there?", "surrounding objects"),
        ("object", "What is the thing behind the car?", "surrounding objects"),
        ("status", "What is the status of the car?", "motion state"),
        ("comparison", "Do the car and the bus have the same status?", "motion state"),
        ("comparison", "Are there as many cars as buses?", "surrounding objects"),
    ],
)
def test_nuscenes_qa_templates_are_classified(template: str, question: str, name: str) -> None:
    assert classify(record(question, "nuscenes_qa", "perception", subtask=template)) == ("perception", name)


@pytest.mark.parametrize(("name", "question"), [(name, q) for name, qs in FREE.items() for q in qs])
def test_free_questions_are_classified_by_their_words(name: str, question: str) -> None:
    assert classify(record(question)) == (TASK_OF[name], name)
    assert classify(record(question.upper())) == (TASK_OF[name], name)


def test_a_taxonomy_name_in_a_record_is_kept() -> None:
    assert classify(record("Hm?", "records", "planning", subtask="Goal_Action")) == ("planning", "goal action")
    assert classify(record("Is it safe to turn?", "records", "planning", subtask="planning"))[1] == "safe/unsafe action"
    # A sub-task name of another task is ignored; the words decide, within the task.
    assert classify(record("Hm?", "records", "perception", subtask="goal action")) == "no_subtask"
    assert classify(record("Is it safe to turn?", "records", "perception", subtask="perception")) == "no_subtask"


def test_reasons_for_unclassified_questions() -> None:
    assert classify(record("What says the parrot?")) == "no_subtask"
    assert classify(record("How many cars?", answer=" ")) == "no_answer"
    assert classify(record("How many cars?", meta={"unanswered": True})) == "no_answer"
    assert classify(record("How many cars?", answer="car " * 1000)) == "long_answer"
    assert classify(record("  ")) == "no_question"


@pytest.mark.parametrize(
    ("form", "answer", "printed"),
    [
        ("yesno", "yes", "Yes."), ("yesno", "no", "No."), ("yesno", "Yes.", "Yes."), ("count", "2", "Two"),
        ("count", "0", "Zero"), ("count", "11", "11"), ("vqa", "construction vehicle", "Construction vehicle"),
        ("vqa", "going\n ahead.", "Going ahead."), ("vqa", "<c1,CAM_BACK,1.0,2.0>.", "<c1,CAM_BACK,1.0,2.0>."),
        ("vqa", "", ""), ("yesno", "", ""), ("count", "²", "²"),
    ],
)  # fmt: skip
def test_answers_are_formatted_as_options(form: Any, answer: str, printed: str) -> None:
    assert answer_text(record("q?", answer=answer, form=form)) == printed


def test_the_right_option_of_a_multiple_choice_source_is_the_answer() -> None:
    options = tuple(AnswerOption(x, BilingualText(f"option {x}")) for x in "AB")
    assert answer_text(record("q?", answer="something", form="mc", options=options, letter="B")) == "Option B"


@given(st.text(), st.text(), st.sampled_from(FORMS), st.sampled_from(["drivelm", "nuscenes_qa", "lingoqa", "x"]))
def test_any_text_is_classified_or_has_a_reason(question: str, answer: str, form: Any, benchmark: str) -> None:
    found = classify(record(question, benchmark, answer=answer, form=form))
    assert isinstance(found, str) or TASK_OF[found[1]] == found[0]


def test_a_hostile_question_takes_bounded_time() -> None:
    assert len(masked("<" * 10**6 + "you " * 10**6)) <= 600
    assert classify(record("why " + "you do " * 10**5)) == ("planning", "planning and reasoning")
