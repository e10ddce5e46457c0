"""RefusalBuffer: a refused question is rejected only if the endpoint still answers others."""

from __future__ import annotations

from support.mcq.building import a_question

from lmms_eval_ad2.mcq.base import AcceptedQuestion, Outcome, RejectedQuestion
from lmms_eval_ad2.mcq.makers.llm_maker import RefusalBuffer

REFUSED = RejectedQuestion(a_question(1), "http_400")
ENDPOINT_DOWN = RejectedQuestion(a_question(2), "endpoint_down", passing=True)
ACCEPTED = AcceptedQuestion(a_question(3), ())
AMBIGUOUS = RejectedQuestion(a_question(4), "ambiguous")


def forwarded_rejections(outcomes: list[Outcome], passing: bool) -> list[tuple[str, bool]]:
    done: list[Outcome] = []
    refusals = RefusalBuffer(done.append)
    for outcome in outcomes:
        refusals.add(outcome)
    refusals.flush(passing)
    return [(o.question.id, o.passing) for o in done if isinstance(o, RejectedQuestion)]


def test_a_refusal_is_final_once_another_question_was_answered() -> None:
    assert forwarded_rejections([REFUSED, ACCEPTED], passing=True) == [("q001", False)]
    assert forwarded_rejections([REFUSED, AMBIGUOUS], passing=True) == [("q001", False), ("q004", False)]


def test_a_refusal_without_later_replies_is_temporary_if_the_endpoint_is_down() -> None:
    assert forwarded_rejections([ACCEPTED, REFUSED, ENDPOINT_DOWN], passing=True) == [("q002", True), ("q001", True)]
    assert forwarded_rejections([ACCEPTED, REFUSED], passing=False) == [("q001", False)]
