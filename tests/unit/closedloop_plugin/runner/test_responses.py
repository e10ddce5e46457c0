"""Responses to worlds: each alone by a concurrent system, together by any other one; when a batch is due."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from multiprocessing.connection import wait

import numpy as np
import pytest
from support.closedloop.doubles import RemoteReader, TextFollower

from closedloop_plugin.core.state import Decision, Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.runner.responses import BatchTimer, OpenRequest, ResponseService
from lmms_eval_ad2.core.errors import Ad2Error

WAIT_S = 60.0


def request(world: int, *, interpret: bool = False) -> OpenRequest:
    seen = Observation(0, 0.0, 5.0, RouteCommand.STRAIGHT, (10.0, 0.0), lambda name: np.zeros((2, 2, 3), np.uint8))
    return OpenRequest(world, DecisionRequest(f"e{world}", seen), None, interpret)


class HeldAgent(TextFollower):
    """Answers each episode when the test releases it."""

    concurrent = True

    def __init__(self) -> None:
        super().__init__()
        self.released = {f"e{world}": threading.Event() for world in range(4)}
        self.error: Exception | None = None

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        for asked in requests:
            assert self.released[asked.episode].wait(WAIT_S)
        if self.error:
            raise self.error
        return super().decide(requests)


def collected(service: ResponseService, number: int) -> list[int]:
    """The worlds of the next `number` complete requests."""
    worlds: list[int] = []
    while len(worlds) < number:
        assert wait([service.reader], WAIT_S), "no response"
        worlds += [item.world for item in service.collect()]
    return worlds


def test_a_slow_reply_holds_no_other_world() -> None:
    agent = HeldAgent()
    service = ResponseService(agent, None)
    for world in range(4):
        service.add(request(world))
    for world in (2, 0, 3):
        agent.released[f"e{world}"].set()
        assert collected(service, 1) == [world]
    service.add(request(0))  # asks again, and is answered, while world 1 still waits
    assert collected(service, 1) == [0]
    agent.released["e1"].set()
    assert collected(service, 1) == [1]
    assert agent.batches == [1] * 5
    service.close()


def test_a_concurrent_slow_system_answers_in_the_same_thread() -> None:
    agent, reader = HeldAgent(), RemoteReader()
    reader.concurrent = True  # type: ignore[attr-defined]
    service = ResponseService(agent, reader)
    service.add(request(1, interpret=True))
    agent.released["e1"].set()
    assert wait([service.reader], WAIT_S)
    (item,) = service.collect()
    assert item.response.interpreted is not None and item.response.interpreted.control is not None
    service.close()


def test_a_slow_system_in_this_process_reads_the_words_of_a_concurrent_agent() -> None:
    agent, reader = HeldAgent(), RemoteReader()
    service = ResponseService(agent, reader)
    service.add(request(1, interpret=True))
    agent.released["e1"].set()
    assert wait([service.reader], WAIT_S)
    items = service.collect()
    while not items:
        items = service.collect()
    assert items[0].response.interpreted is not None
    service.close()


def test_an_error_of_the_user_in_a_thread_is_raised_where_responses_are_collected() -> None:
    agent = HeldAgent()
    agent.error = Ad2Error("no endpoint answers")
    service = ResponseService(agent, None)
    service.add(request(0))
    agent.released["e0"].set()
    assert wait([service.reader], WAIT_S)
    with pytest.raises(Ad2Error, match="no endpoint answers"):
        service.collect()
    service.close()


def test_requests_to_a_model_in_this_process_are_answered_together_in_the_callers_thread() -> None:
    threads: set[int] = set()

    class Here(TextFollower):
        def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
            threads.add(threading.get_ident())
            return super().decide(requests)

    agent = Here()
    service = ResponseService(agent, None)
    for world in range(3):
        service.add(request(world))
    assert service.wait_s() == 0.0
    assert [item.world for item in service.collect()] == [0, 1, 2]
    assert agent.batches == [3] and threads == {threading.get_ident()}
    service.close()


def test_the_request_of_a_lost_world_is_dropped() -> None:
    agent = TextFollower()
    service = ResponseService(agent, None)
    service.add(request(0))
    service.forget(0)
    assert service.wait_s() is None and service.collect() == [] and agent.batches == []
    service.close()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def steady(timer: BatchTimer, clock: Clock, gaps: dict[int, float], call_s: float) -> float:
    """Two rounds in which world w asks gaps[w] s after its response; the time of the last response."""
    for world in gaps:
        timer.asked(world)
    timer.answered(list(gaps), call_s)
    start = clock.now
    for world, gap in sorted(gaps.items(), key=lambda item: item[1]):
        clock.now = start + gap
        timer.asked(world)
    timer.answered(list(gaps), call_s)
    return clock.now


def test_a_batch_waits_for_worlds_that_are_expected_soon() -> None:
    clock = Clock()
    timer = BatchTimer(clock)
    assert_start = steady(timer, clock, {0: 0.01, 1: 0.02, 2: 0.03}, 0.2)
    clock.now = assert_start + 0.01
    timer.asked(0)
    assert timer.wait_s() == pytest.approx(1.5 * 0.03 + 0.002 - 0.01)  # until world 2 is late
    clock.now = assert_start + 0.03
    timer.asked(2)
    assert timer.wait_s() == pytest.approx(1.5 * 0.02 + 0.002 - 0.03)  # until world 1 is late
    clock.now = assert_start + 0.04
    assert timer.wait_s() == 0.0


def test_a_batch_does_not_wait_for_worlds_that_are_slower_than_the_model() -> None:
    clock = Clock()
    timer = BatchTimer(clock)
    start = steady(timer, clock, {0: 0.01, 1: 5.0}, 0.2)
    clock.now = start + 0.01
    timer.asked(0)
    assert timer.wait_s() == 0.0


def test_a_batch_does_not_wait_for_an_episode_that_has_ended() -> None:
    clock = Clock()
    timer = BatchTimer(clock)
    start = steady(timer, clock, {0: 0.01, 1: 0.05}, 0.2)
    timer.forget(1)
    clock.now = start + 0.01
    timer.asked(0)
    assert timer.wait_s() == 0.0
