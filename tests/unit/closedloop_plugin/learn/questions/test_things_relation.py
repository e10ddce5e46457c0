"""Relations between two things that have a name of their own."""

from __future__ import annotations

from typing import Any

from support.collected import actor, asker

from closedloop_plugin.learn.questions.things import relation

PERSON: dict[str, Any] = {"kind": "pedestrian", "length": 0.5, "width": 0.5}
ANIMAL: dict[str, Any] = {"kind": "animal", "length": 0.5, "width": 0.5}


def answers(*objects: Any, seed: int = 0) -> dict[str, str]:
    return {q.record.question.en: q.record.answer.en for q in relation(asker(*objects, seed=seed))}


def both(*objects: Any) -> dict[str, str]:
    """With either order of the two things."""
    return {question: answer for seed in range(30) for question, answer in answers(*objects, seed=seed).items()}


def test_left_and_right_and_nearer() -> None:
    person = actor("p", forward=8.0, box=[20, 40, 26, 60], **PERSON)
    animal = actor("a", forward=25.0, box=[120, 40, 126, 50], **ANIMAL)
    assert both(person, animal) == {
        "Is the person on the left or the right of the animal?": "left",
        "Is the animal on the left or the right of the person?": "right",
        "Is the person nearer than the animal?": "yes",
        "Is the animal nearer than the person?": "no",
    }


def test_small_differences_are_not_asked() -> None:
    person = actor("p", forward=20.0, box=[70, 40, 80, 60], **PERSON)
    assert both(person, actor("a", forward=23.0, box=[81, 40, 85, 50], **ANIMAL)) == {}


def test_the_answer_does_not_depend_on_the_order_of_the_objects() -> None:
    person = actor("p", forward=8.0, box=[20, 40, 26, 60], **PERSON)
    animal = actor("a", forward=25.0, box=[120, 40, 126, 50], **ANIMAL)
    assert answers(person, animal) == answers(animal, person) != {}


def test_two_of_a_kind_have_no_names() -> None:
    people = [actor(str(k), forward=8.0 + 2 * k, box=[20 + 60 * k, 40, 26 + 60 * k, 60], **PERSON) for k in (0, 1)]
    animal = actor("a", forward=25.0, box=[120, 40, 126, 50], **ANIMAL)
    assert answers(*people, animal) == {}


def test_the_clearly_nearest_of_several_has_a_name() -> None:
    people = [actor(str(k), forward=8.0 + 9 * k, box=[20 + 60 * k, 40, 26 + 60 * k, 60], **PERSON) for k in (0, 1)]
    animal = actor("a", forward=25.0, box=[120, 40, 126, 50], **ANIMAL)
    assert both(*people, animal) == {
        "Is the nearest person on the left or the right of the animal?": "left",
        "Is the animal on the left or the right of the nearest person?": "right",
        "Is the nearest person nearer than the animal?": "yes",
        "Is the animal nearer than the nearest person?": "no",
    }
    assert answers(*people) == {}  # the farther one has no name


def test_what_the_words_alone_tell_is_not_asked() -> None:
    """The nearest vehicle is nearer than any other vehicle."""
    car = actor("car", forward=8.0, box=[20, 40, 50, 60])
    bus = actor("bus", kind="bus", forward=40.0, box=[100, 40, 120, 60])
    asked = set(both(car, actor("car2", forward=30.0, box=[60, 40, 70, 50]), bus))
    assert "Is the nearest vehicle on the left or the right of the bus?" in asked
    assert not [question for question in asked if "nearer" in question]
