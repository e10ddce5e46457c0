"""ResponseService: responses to the worlds' requests by the fast and the slow system of this process.

A system that is `concurrent` (a model behind an endpoint) answers each request in a thread of its own: a slow or
repeated reply delays its own world only. Any other one is called in the caller's thread, where it was made, with all
requests that wait, at the times of a BatchTimer; meanwhile the worlds' further requests queue in their pipes.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from closedloop_plugin.core.state import Decision, InterpretedControl
from closedloop_plugin.driver.agent import Agent, DecisionRequest, is_concurrent
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.faults import decide, interpret, needs_interpreter

_LEAST_S, _MOST_S = 0.005, 1.0  # bounds of the time that requests wait for others
_LATE, _GRACE_S = 1.5, 0.002  # a world is late after _LATE times its usual time between a response and a request


class BatchTimer:
    """Chooses the moment of a call from the times at which worlds usually ask.

    The call waits for the worlds that are expected within half of the last call's duration, counted from the first
    request and from the end of the last call. A world is expected as long after its response as its last request came,
    so that worlds that are slower than the model are not waited for. Times are in s of `clock`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: dict[int, float] = {}  # world -> time of its open request
        self._answered: dict[int, float] = {}  # world -> time of its last response, until it asks again
        self._gaps: dict[int, float] = {}  # world -> s between its last response and its last request
        self._call_s = self._free_since = 0.0

    def asked(self, world: int) -> None:
        """`world` waits for a response."""
        self._asked[world] = now = self._clock()
        if world in self._answered:
            self._gaps[world] = now - self._answered.pop(world)

    def answered(self, worlds: Collection[int], seconds: float) -> None:
        """A call of `seconds` has answered `worlds`."""
        self._call_s, self._free_since = seconds, self._clock()
        for world in worlds:
            self._asked.pop(world, None)
            self._answered[world] = self._free_since

    def forget(self, world: int) -> None:
        """The episode of `world` has ended; it may ask again, but is not waited for."""
        for times in (self._asked, self._answered, self._gaps):
            times.pop(world, None)

    def wait_s(self) -> float:
        """Seconds until the open requests are due; 0 if they are. There must be one."""
        now = self._clock()
        window = min(max(self._call_s / 2, _LEAST_S), _MOST_S)
        limit = max(min(self._asked.values()), self._free_since) + window
        expected = (self._expected(world, limit) for world in self._answered)
        return max((at - now for at in expected if now < at <= limit), default=0.0)

    def _expected(self, world: int, limit: float) -> float:
        """The latest time at which the next request of an answered world is not late."""
        gap = self._gaps.get(world)
        return limit if gap is None else self._answered[world] + _LATE * gap + _GRACE_S


T = TypeVar("T")


class RequestThreads(Generic[T]):
    """Calls `work(item)` in a daemon thread for each submitted item; threads are used again.

    `reader` becomes readable when an item is finished. Threads are daemons because a request may wait for minutes for a
    reply that is no longer needed.
    """

    def __init__(self, work: Callable[[T], None]) -> None:
        self._work = work
        self._todo: SimpleQueue[T | None] = SimpleQueue()
        self._finished: SimpleQueue[T] = SimpleQueue()
        self._open = self._threads = 0
        self._lock = threading.Lock()
        self.reader, self._writer = Pipe(duplex=False)

    def submit(self, item: T) -> None:
        self._open += 1
        if self._open > self._threads:
            self._threads += 1
            threading.Thread(target=self._run, name=f"ad2-responses-{self._threads}", daemon=True).start()
        self._todo.put(item)

    def finished(self) -> list[T]:
        """The items that are finished since the last call."""
        items: list[T] = []
        while self.reader.poll():
            self.reader.recv_bytes()
        with contextlib.suppress(Empty):
            while True:
                items.append(self._finished.get_nowait())
        self._open -= len(items)
        return items

    def close(self) -> None:
        """End idle threads; the others end after their item, which is dropped."""
        for _ in range(self._threads):
            self._todo.put(None)
        with self._lock:
            self._writer.close()
            self.reader.close()

    def _run(self) -> None:
        while (item := self._todo.get()) is not None:
            self._work(item)
            self._finished.put(item)
            with self._lock, contextlib.suppress(OSError):  # closed: nobody waits for the item
                self._writer.send_bytes(b"1")


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
