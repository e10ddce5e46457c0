"""Points and boxes."""

from __future__ import annotations

from typing import Any

from support.collected import actor, asker

from closedloop_plugin.learn.questions.things import detection, location


def boxes(*objects: Any) -> dict[tuple[str, str], str]:
    return {(q.record.subtask, q.record.question.en): q.record.answer.en for q in detection(asker(*objects))}


def test_the_point_is_the_centre_of_the_box() -> None:
    (question,) = location(asker(actor(kind="animal", box=[10, 20, 15, 30])))
    record = question.record
    assert (record.form, record.answer.en, record.image_size) == ("point", "<12.5,25>", (160, 90))
    assert (record.question.en, record.question.zh) == ("Where is the animal?", "动物在哪里？")


def test_an_actor_has_one_question_with_one_of_its_words() -> None:
    words = set()
    for seed in range(20):
        (question,) = location(asker(actor(kind="truck"), seed=seed))
        words.add(question.record.question.en)
    assert words == {"Where is the truck?", "Where is the vehicle?"}


def test_the_box_of_a_single_thing() -> None:
    found = boxes(actor(kind="animal", box=[10, 20, 15, 30]))
    assert found == {("detection", "Where is the animal?"): "[10, 20, 15, 30]"}
    assert boxes(actor(kind="animal", box=[10, 20, 12, 30])) == {}  # 2 pixels wide


def test_the_nearest_of_several_if_it_is_clearly_nearer() -> None:
    near, far = actor("1", forward=10.0, box=[60, 40, 90, 60]), actor("2", forward=20.0, box=[20, 40, 30, 46])
    assert boxes(near, far) == {("reference_detection", "Where is the nearest vehicle?"): "[60, 40, 90, 60]"}
    assert boxes(near, {**far, "forward": 12.9}) == {}  # gaps of 8 and 10.9 m
    assert boxes({**near, "visible": 0.2}, far) == {}  # the nearest is hidden


def test_the_rider_of_a_bicycle_may_look_like_the_nearest_person() -> None:
    people = [actor(str(k), kind="pedestrian", forward=10.0 * k, box=[40 * k, 40, 40 * k + 9, 60]) for k in (1, 2)]
    rider = actor("b", kind="bicycle", forward=5.0, box=[120, 40, 140, 70])
    question = ("reference_detection", "Where is the nearest person?")
    assert question in boxes(*people)
    assert question not in boxes(*people, rider)
