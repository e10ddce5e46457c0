"""Exceptions of a driver's code, and what is to blame for the end of an episode."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.closedloop.doubles import Reader, RemoteReader, TextFollower
from support.closedloop.models import decision_request
from support.closedloop.runs import run_into, tasks, worker_config

from closedloop_plugin.core.state import Control, Decision, EpisodeFault, InterpretedControl
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.maps.opendrive_file import opendrive_root
from closedloop_plugin.runner.early_stop import RunEndedEarly
from closedloop_plugin.runner.faults import DriverFailed, decide, fault_of, interpret, is_certain, limited
from closedloop_plugin.worlds.base import InvalidScene, WorldError


def raised(call: object, *args: object) -> BaseException:
    with pytest.raises(BaseException) as found:
        call(*args)  # type: ignore[operator]
    return found.value


def throw(exc: BaseException) -> None:
    raise exc


@pytest.mark.parametrize(
    ("exc", "fault", "certain"),
    [
        (WorldError("no frame"), EpisodeFault.WORLD, False),
        (ConnectionResetError("gone"), EpisodeFault.WORLD, False),
        (MemoryError(), EpisodeFault.WORLD, False),
        (ZeroDivisionError("somewhere"), EpisodeFault.WORLD, False),
        (InvalidScene("no scene in 2000 tries"), EpisodeFault.PROGRAM, True),
        (DriverFailed("start() raised"), EpisodeFault.DRIVER, True),
    ],
)
def test_the_fault_of_an_exception(exc: BaseException, fault: EpisodeFault, certain: bool) -> None:
    found = raised(throw, exc)
    assert (fault_of(found), is_certain(found)) == (fault, certain)


def test_an_exception_on_the_way_through_the_maps_is_a_fault_of_the_map() -> None:
    found = raised(opendrive_root, b"no map", "town.xodr")
    assert (fault_of(found), is_certain(found)) == (EpisodeFault.MAP, True)


class Speaker(TextFollower):
    """Returns `answer`, or raises it."""

    def __init__(self, answer: Decision | BaseException) -> None:
        super().__init__()
        self.answer = answer

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return [self.answer] * len(requests)


class OddReader(Reader):
    def __init__(self, answer: InterpretedControl | BaseException) -> None:
        self.answer = answer

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return [self.answer] * len(items)


def test_lone_surrogates_become_question_marks_and_other_texts_stay() -> None:
    def decided(answer: Decision | Exception) -> Decision:
        return decide(Speaker(answer), [decision_request()])[0]

    assert decided(Decision({"a\ud800": "go \udfff\x00"})) == Decision({"a?": "go ?\x00"})
    assert decided(Decision(error="\ud800")) == Decision(error="?")
    assert decided(ValueError("\ud800 broken")).error == "ValueError: ? broken"
    plain = Decision({"action": "直行 \x00"}, latency_s=0.5)
    assert decided(plain) is plain
    steered = Decision(control=Control(0.1))
    assert decided(steered) is steered


def test_readings_too() -> None:
    def read(answer: InterpretedControl | Exception) -> InterpretedControl:
        return interpret(OddReader(answer), [(decision_request(), Decision({"action": "go"}))])[0]

    assert read(InterpretedControl(None, "\ud800", "no \udfff")) == InterpretedControl(None, "?", "no ?")
    assert read(ValueError("\ud800")).reason == "the interpreter failed: ValueError: ?"
    plain = InterpretedControl(Control(), "直行")
    assert read(plain) is plain


@pytest.mark.integration
def test_an_agents_exception_with_such_a_text_is_the_agents_and_not_the_worlds(tmp_path: Path) -> None:
    config = worker_config(name="bench2advlm", agent=None, interprets=True)
    with pytest.raises(RunEndedEarly, match=r"10 failures in a row, the last: ValueError: \? broken"):
        run_into(tmp_path, tasks()[:1], config, Speaker(ValueError("\ud800 broken")), interpreter=RemoteReader())


def test_a_driver_that_calls_exit_ends_no_process() -> None:
    found = decide(Speaker(SystemExit(3)), [decision_request()])
    assert [decision.error for decision in found] == ["SystemExit: 3"]
    read = interpret(OddReader(SystemExit(3)), [(decision_request(), Decision({"action": "0 0"}))])
    assert [one.reason for one in read] == ["the interpreter failed: SystemExit: 3"]


def test_a_driver_that_does_not_answer_is_at_fault_before_its_world_counts_as_hung() -> None:
    class Silent(TextFollower):
        def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
            while True:
                threading.Event().wait(60)

    with pytest.raises(DriverFailed, match=r"the agent talker: no answer for 0\.009 s"), limited(0.01, "talker"):
        decide(Silent(), [decision_request()])
    with limited(1000.0, "talker"):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
