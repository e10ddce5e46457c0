"""Batches: which requests share one, how long it waits, and how one failure affects the others."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from closedloop_plugin.interfaces.serve.batching import RequestBatcher, ServiceReply, ServiceRequest
from closedloop_plugin.interfaces.serve.requests import ApiError
from lmms_eval_ad2.core.errors import Ad2Error

LONG_WINDOW_S = 3600.0  # longer than any test: an answered request did not wait for it


class Echo:
    """Returns each payload as the reply text; a `bad` payload makes the whole call fail."""

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
def start_worker():
    """A function that starts a batcher's worker thread; it is stopped after the test."""
    started: list[tuple[RequestBatcher, threading.Thread]] = []

    def start(batcher: RequestBatcher) -> RequestBatcher:
        thread = threading.Thread(target=batcher.work, daemon=True)
        thread.start()
        started.append((batcher, thread))
        return batcher

    yield start
    for batcher, thread in started:
        batcher.close()
        thread.join(30)
        assert not thread.is_alive()


def put(batcher: RequestBatcher, service: Echo, *payloads: Any, group: str = "g") -> list:
    return [batcher.put(service, ServiceRequest(group, p)) for p in payloads]


def texts(futures: list) -> list[str]:
    return [f.result(30).text for f in futures]


def test_waiting_requests_are_answered_in_batches_in_order(start_worker) -> None:
    batcher, echo = RequestBatcher(4, LONG_WINDOW_S), Echo()
    futures = put(batcher, echo, *range(8))
    start_worker(batcher)
    assert texts(futures) == [str(i) for i in range(8)]
    assert echo.calls == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert (batcher.batches, batcher.requests) == (2, 8)


def test_a_batch_has_one_group_and_the_oldest_comes_first(start_worker) -> None:
    batcher, echo = RequestBatcher(8, 0.0), Echo()
    futures = (
        put(batcher, echo, 1)
        + put(batcher, echo, 2, group="h")
        + put(batcher, echo, 3)
        + put(batcher, echo, 4, group="h")
    )
    start_worker(batcher)
    assert texts(futures) == ["1", "2", "3", "4"]
    assert echo.calls == [[1, 3], [2, 4]]


def test_a_lone_client_never_waits_for_the_window(start_worker) -> None:
    batcher, echo = start_worker(RequestBatcher(8, LONG_WINDOW_S)), Echo()
    for i in range(3):
        assert texts(put(batcher, echo, i)) == [str(i)]
    assert echo.calls == [[0], [1], [2]]


def test_two_clients_of_one_batch_share_the_next_batch(start_worker) -> None:
    batcher, echo = RequestBatcher(8, LONG_WINDOW_S), Echo()
    first = put(batcher, echo, "a1", "b1")
    start_worker(batcher)
    assert texts(first) == ["a1", "b1"]
    second = put(batcher, echo, "a2")  # waits for the other client, whose request follows
    second += put(batcher, echo, "b2")
    assert texts(second) == ["a2", "b2"]
    assert echo.calls == [["a1", "b1"], ["a2", "b2"]]


def test_the_window_ends_if_a_client_sends_no_further_request(start_worker) -> None:
    batcher, echo = RequestBatcher(8, 0.05), Echo()
    first = put(batcher, echo, "a1", "b1")
    start_worker(batcher)
    texts(first)
    assert texts(put(batcher, echo, "a2")) == ["a2"]
    assert echo.calls[-1] == ["a2"]


def test_a_request_that_fails_does_not_fail_its_batch(start_worker) -> None:
    batcher, echo = RequestBatcher(8, 0.0), Echo(bad=2)
    futures = put(batcher, echo, 1, 2, 3)
    start_worker(batcher)
    one, two, three = (f.result(30) for f in futures)
    assert (one.text, three.text) == ("1", "3")
    assert two.failed and two.error is not None and two.error.startswith("RuntimeError: poison (in test_batching")
    assert echo.calls == [[1, 2, 3], [1], [2], [3]]
    assert texts(put(batcher, echo, 4)) == ["4"]


def test_a_user_error_is_not_retried_for_each_request(start_worker) -> None:
    batcher, echo = RequestBatcher(8, 0.0), Echo(bad=2, error=Ad2Error)
    futures = put(batcher, echo, 1, 2, 3)
    start_worker(batcher)
    assert {f.result(30).error for f in futures} == {"poison"}
    assert len(echo.calls) == 1


def test_a_wrong_number_of_answers_fails_the_requests(start_worker) -> None:
    batcher, echo = RequestBatcher(8, 0.0), Echo()
    echo.answer = lambda payloads: [ServiceReply("x")] * 2  # type: ignore[method-assign]
    futures = put(batcher, echo, 1, 2, 3)
    start_worker(batcher)
    assert all("2 answers to 1 requests" in (f.result(30).error or "") for f in futures)


def test_a_cancelled_request_is_left_out(start_worker) -> None:
    batcher, echo = RequestBatcher(8, 0.0), Echo()
    cancelled, remaining = put(batcher, echo, "gone", "here")
    assert cancelled.cancel()
    start_worker(batcher)
    assert remaining.result(30).text == "here"
    assert echo.calls == [["here"]]


def test_closing_refuses_waiting_and_new_requests() -> None:
    batcher, echo = RequestBatcher(), Echo()
    (waiting,) = put(batcher, echo, 1)
    batcher.close()
    with pytest.raises(ApiError) as refused:
        waiting.result(30)
    assert refused.value.status == 503
    with pytest.raises(ApiError):
        put(batcher, echo, 2)
    batcher.work()  # ends at once
    assert echo.calls == []


def test_an_interrupt_leaves_no_request_without_an_answer() -> None:
    batcher, echo = RequestBatcher(8, 0.0), Echo()

    def interrupted(payloads: Sequence[Any]) -> list[ServiceReply]:
        raise KeyboardInterrupt

    echo.answer = interrupted  # type: ignore[method-assign]
    futures = put(batcher, echo, 1, 2)
    with pytest.raises(KeyboardInterrupt):
        batcher.work()
    for future in futures:
        with pytest.raises(ApiError, match="shutting down"):
            future.result(30)
