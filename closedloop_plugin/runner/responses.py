"""ResponseService: responses to the worlds' requests by the fast and the slow system of this process.

A system that is `concurrent` (a model behind an endpoint) answers each request in a thread of its own: a slow or
repeated reply delays its own world only. Any other one is called in the caller's thread, where it was made, with all
requests that wait, at the times of a BatchTimer; meanwhile the worlds' further requests queue in their pipes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from closedloop_plugin.core.state import Decision, InterpretedControl
from closedloop_plugin.driver.agent import Agent, DecisionRequest, is_concurrent
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.runner.batch_timer import BatchTimer
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.request_threads import RequestThreads
from closedloop_plugin.runner.system_calls import decide, interpret, needs_interpreter


@dataclass(eq=False)
class OpenRequest:
    """A request of the world process `world`, as far as it is answered. `interpret`: its control is wanted, too."""

    world: int
    request: DecisionRequest
    decision: Decision | None
    interpret: bool
    interpreted: InterpretedControl | None = None
    failure: Exception | None = None  # an error that ends the run

    @property
    def response(self) -> DecisionResponse:
        assert self.decision is not None
        return DecisionResponse(self.decision, self.interpreted)


class ResponseService:
    """`add` requests, and `collect` those that are complete; `reader` is readable when a thread has completed one."""

    def __init__(self, agent: Agent | None, interpreter: Interpreter | None) -> None:
        self.agent, self.interpreter = agent, interpreter
        self._timer = BatchTimer()
        self._waiting: list[OpenRequest] = []  # for a call with all of them
        self._complete: list[OpenRequest] = []
        self._threads: RequestThreads[OpenRequest] = RequestThreads(self._answer_alone)

    @property
    def reader(self) -> Connection:
        return self._threads.reader

    def add(self, item: OpenRequest) -> None:
        system = self._system(item)
        if system is None:
            self._complete.append(item)
        elif is_concurrent(system):
            self._threads.submit(item)
        else:
            self._waiting.append(item)
            self._timer.asked(item.world)

    def forget(self, world: int) -> None:
        """The episode of `world` has ended: its open request, if any, is dropped unless it is being answered."""
        self._waiting = [item for item in self._waiting if item.world != world]
        self._timer.forget(world)

    def wait_s(self) -> float | None:
        """Seconds until `collect` has something to do without a further message; None: unknown."""
        if self._complete:
            return 0.0
        return self._timer.wait_s() if self._waiting else None

    def collect(self) -> list[OpenRequest]:
        """The requests that are complete. Calls the systems that are not concurrent, if their requests are due.

        Raises an error that ends the run: Ad2Error or WorldError of a system.
        """
        for item in self._threads.finished():
            if item.failure is not None:
                raise item.failure
            self.add(item)
        if self._waiting and self._timer.wait_s() == 0.0:
            self._answer_together()
        complete, self._complete = self._complete, []
        return complete

    def close(self) -> None:
        self._threads.close()

    def _system(self, item: OpenRequest) -> Agent | Interpreter | None:
        """The system that answers next; None: the request is complete."""
        if item.decision is None:
            assert self.agent is not None
            return self.agent
        if item.interpret and item.interpreted is None and needs_interpreter(item.decision):
            assert self.interpreter is not None
            return self.interpreter
        return None

    def _answer_together(self) -> None:
        """Call the fast, then the slow system with all requests that wait for them."""
        items, self._waiting = self._waiting, []
        started = time.monotonic()
        for system in (self.agent, self.interpreter):
            asked = [item for item in items if system is not None and self._system(item) is system]
            if asked and not is_concurrent(system):
                self._answer(asked)
        self._timer.answered([item.world for item in items], time.monotonic() - started)
        for item in items:
            self.add(item)

    def _answer_alone(self, item: OpenRequest) -> None:
        """In a thread: the answers of the concurrent systems that follow each other."""
        try:
            while (system := self._system(item)) is not None and is_concurrent(system):
                self._answer([item])
        except Exception as exc:
            item.failure = exc

    def _answer(self, items: Sequence[OpenRequest]) -> None:
        """One step of requests that wait for the same system."""
        if items[0].decision is None:
            assert self.agent is not None
            for item, decision in zip(items, decide(self.agent, [i.request for i in items]), strict=True):
                item.decision = decision
            return
        assert self.interpreter is not None
        pairs = [(item.request, item.decision) for item in items if item.decision is not None]
        for item, interpreted in zip(items, interpret(self.interpreter, pairs), strict=True):
            item.interpreted = interpreted
