"""Batches: who is answered with whom, how long a batch waits, and what one failure does to the others."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from closedloop_plugin.serve.api_error import ApiError
from closedloop_plugin.serve.batching import RequestBatcher
from closedloop_plugin.serve.service import ServiceReply, ServiceRequest
from lmms_eval_ad2.errors import Ad2Error

AGES = 3600.0  # a window that no test outlives: what is answered did not wait for it


class Echo:
    """Answers with what it is given; `bad` payloads make the whole call fail."""

    name = "echo"

    def __init__(self, bad: Any = None, error: type[Exception] = RuntimeError) -> None:
        self.calls: list[list[Any]] = []
        self.bad, self.error = bad, error

    def answer(self, payloads: Sequence[Any]) -> list[ServiceReply]:
        self.calls.append(list(payloads))
        if self.bad in payloads:
            raise self.error("poison")
        return [ServiceReply(str(p)) for p in payloads]


@pytest.fixture
def working():
    """Starts a desk's worker; it has ended when the test has."""
    started: list[tuple[RequestBatcher, threading.Thread]] = []

    def start(desk: RequestBatcher) -> RequestBatcher:
        thread = threading.Thread(target=desk.work, daemon=True)
        thread.start()
        started.append((desk, thread))
        return desk

    yield start
    for desk, thread in started:
        desk.close()
        thread.join(30)
        assert not thread.is_alive()


def put(desk: RequestBatcher, service: Echo, *payloads: Any, group: str = "g") -> list:
    return [desk.put(service, ServiceRequest(group, p)) for p in payloads]


def texts(futures: list) -> list[str]:
    return [f.result(30).text for f in futures]


def test_those_that_wait_together_are_answered_together_in_order(working) -> None:
    desk, echo = RequestBatcher(4, AGES), Echo()
    futures = put(desk, echo, *range(8))
    working(desk)
    assert texts(futures) == [str(i) for i in range(8)]
    assert echo.calls == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert (desk.batches, desk.asked) == (2, 8)


def test_a_batch_has_one_group_and_the_oldest_comes_first(working) -> None:
    desk, echo = RequestBatcher(8, 0.0), Echo()
    futures = put(desk, echo, 1) + put(desk, echo, 2, group="h") + put(desk, echo, 3) + put(desk, echo, 4, group="h")
    working(desk)
    assert texts(futures) == ["1", "2", "3", "4"]
    assert echo.calls == [[1, 3], [2, 4]]


def test_a_lone_client_never_waits_for_the_window(working) -> None:
    desk, echo = working(RequestBatcher(8, AGES)), Echo()
    for i in range(3):
        assert texts(put(desk, echo, i)) == [str(i)]
    assert echo.calls == [[0], [1], [2]]


def test_two_that_drove_together_stay_together(working) -> None:
    desk, echo = RequestBatcher(8, AGES), Echo()
    first = put(desk, echo, "a1", "b1")
    working(desk)
    assert texts(first) == ["a1", "b1"]
    second = put(desk, echo, "a2")  # waits for the other car, which comes a moment later
    second += put(desk, echo, "b2")
    assert texts(second) == ["a2", "b2"]
    assert echo.calls == [["a1", "b1"], ["a2", "b2"]]


def test_the_window_closes_for_one_that_does_not_come_back(working) -> None:
    desk, echo = RequestBatcher(8, 0.05), Echo()
    first = put(desk, echo, "a1", "b1")
    working(desk)
    texts(first)
    assert texts(put(desk, echo, "a2")) == ["a2"]
    assert echo.calls[-1] == ["a2"]


def test_what_the_model_cannot_take_fails_alone(working) -> None:
    desk, echo = RequestBatcher(8, 0.0), Echo(bad=2)
    futures = put(desk, echo, 1, 2, 3)
    working(desk)
    one, two, three = (f.result(30) for f in futures)
    assert (one.text, three.text) == ("1", "3")
    assert two.failed and two.error is not None and two.error.startswith("RuntimeError: poison (in test_batching")
    assert echo.calls == [[1, 2, 3], [1], [2], [3]]
    assert texts(put(desk, echo, 4)) == ["4"]


def test_what_the_user_must_mend_is_not_tried_for_each(working) -> None:
    desk, echo = RequestBatcher(8, 0.0), Echo(bad=2, error=Ad2Error)
    futures = put(desk, echo, 1, 2, 3)
    working(desk)
    assert {f.result(30).error for f in futures} == {"poison"}
    assert len(echo.calls) == 1


def test_a_wrong_number_of_answers_is_a_failure_and_no_mix_up(working) -> None:
    desk, echo = RequestBatcher(8, 0.0), Echo()
    echo.answer = lambda payloads: [ServiceReply("x")] * 2  # type: ignore[method-assign]
    futures = put(desk, echo, 1, 2, 3)
    working(desk)
    assert all("2 answers to 1 requests" in (f.result(30).error or "") for f in futures)


def test_who_went_away_is_left_out(working) -> None:
    desk, echo = RequestBatcher(8, 0.0), Echo()
    gone, here = put(desk, echo, "gone", "here")
    assert gone.cancel()
    working(desk)
    assert here.result(30).text == "here"
    assert echo.calls == [["here"]]


def test_closing_refuses_those_that_wait_and_those_that_come() -> None:
    desk, echo = RequestBatcher(), Echo()
    (waiting,) = put(desk, echo, 1)
    desk.close()
    with pytest.raises(ApiError) as refused:
        waiting.result(30)
    assert refused.value.status == 503
    with pytest.raises(ApiError):
        put(desk, echo, 2)
    desk.work()  # ends at once
    assert echo.calls == []


def test_an_interrupt_in_the_middle_leaves_nobody_without_an_answer() -> None:
    desk, echo = RequestBatcher(8, 0.0), Echo()

    def interrupted(payloads: Sequence[Any]) -> list[ServiceReply]:
        raise KeyboardInterrupt

    echo.answer = interrupted  # type: ignore[method-assign]
    futures = put(desk, echo, 1, 2)
    with pytest.raises(KeyboardInterrupt):
        desk.work()
    for future in futures:
        with pytest.raises(ApiError, match="shutting down"):
            future.result(30)
