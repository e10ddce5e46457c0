"""Many worlds, one model: episodes go to world processes, their questions come back and are answered in batches.

A world process that dies, fails or is silent for `world_timeout_s` is ended and replaced; its episode is tried again
up to `retries` times, where each world has a server of its own on another one, and then recorded as failed, with the
reason. Which server is given up when: roster.py.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from closedloop_plugin.agents.base import Agent, DecisionRequest
from closedloop_plugin.core.state import Decision, EndReason
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.episode import EpisodeResult, blank_record
from closedloop_plugin.runner.scheduler import EpisodeScheduler
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.runner.worker import WorkerConfig, decide, read, wants_reading
from lmms_eval_ad2.errors import Ad2Error

TAIL_BYTES = 8000  # of a log, for a reason


@dataclass(frozen=True)
class PoolLimits:
    workers: int = 1
    retries: int = 2  # of an episode whose world failed
    world_timeout_s: float = 180.0  # silence of a world (a reset, or one step) after which it counts as hung
    start_timeout_s: float = 300.0  # until it is there: imports from a cold disk on a busy machine take long
    starts: int = 5  # failures of a world in a row: then its server is given up, and with the last one the run
    first_starts: int = 2  # the same for a server that never was there
    leave_s: float = 5.0  # for a world to tidy up behind itself at the end


@dataclass
class _WorkerHandle:
    """A world process as the parent sees it."""

    number: int
    process: subprocess.Popen[bytes]
    pipe: Connection
    task: EpisodeTask | None = None
    heard: float = 0.0  # monotonic time of the last message
    question: tuple[DecisionRequest, Decision | None, bool] | None = None
    ready: bool = False
    started: bool = False  # the agent was told of the episode


@dataclass
class WorldPool:
    """One run of the tasks. `agent` and `interpreter` are those that live here; None: each world has its own."""

    plan: WorkerConfig
    limits: PoolLimits
    agent: Agent | None
    interpreter: Interpreter | None
    on_result: Callable[[EpisodeResult], None]
    on_restart: Callable[[str], None] = lambda reason: None
    logs: Path | None = None
    more: bool = False  # on_result may `offer` further tasks, until it calls `finish`: idle worlds wait for them
    restarts: int = 0
    _hands: list[_WorkerHandle] = field(default_factory=list)
    _reasons: dict[str, None] = field(default_factory=dict)  # why servers were given up, each once
    _tries: Counter[str] = field(default_factory=Counter)
    _backend: tuple[str, str] = ("", "")
    _pace_s: float = 0.0  # how long the last batch took: stragglers are waited for in proportion
    _asked: float = 0.0  # since when the oldest question waits

    def __post_init__(self) -> None:
        limits = self.limits
        self._roster = EpisodeScheduler(limits.workers, bool(self.plan.world.each), limits.starts, limits.first_starts)

    def run(self, tasks: Sequence[EpisodeTask]) -> None:
        """All tasks, to the end. Ad2Error (the user's to mend) and Ctrl-C end it; what is saved stays saved."""
        self._roster.waiting.extend(tasks)
        try:
            for number in range(min(self.limits.workers, len(tasks))):
                self._hands.append(self._hire(number))
            while self._hands:
                self._listen()
                self._answer()
                self._watch()
                self._wake()
        finally:
            self._dismiss(self._hands)

    def offer(self, task: EpisodeTask) -> None:
        """One task more; only while `more`."""
        self._roster.waiting.append(task)

    def finish(self) -> None:
        """No task will be offered any more."""
        self.more = False

    # Processes

    def _hire(self, number: int) -> _WorkerHandle:
        """A new world process. Not multiprocessing's: that one imports the caller's main program anew."""
        here, there = socket.socketpair()
        command = [sys.executable, "-m", "closedloop_plugin.runner", str(there.fileno()), str(os.getpid())]
        environment = {
            "OPENBLAS_NUM_THREADS": "1",  # worlds run side by side: a core is enough for each
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYTHONUNBUFFERED": "1",
        }
        log = self._log(number)
        with there, (log or Path(os.devnull)).open("wb") as out:
            process = subprocess.Popen(
                command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment
            )
        hand = _WorkerHandle(number, process, Connection(here.detach()), heard=time.monotonic())
        hand.pipe.send(replace(self.plan, world=self.plan.world.of(number)))
        return hand

    def _log(self, number: int) -> Path | None:
        """What the simulator prints goes here; the terminal is the progress bar's."""
        if self.logs is None:
            return None
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"worker{number}.log"

    def _end(self, hand: _WorkerHandle) -> None:
        """End one process of ours; the agent hears that its episode is over."""
        if hand.task and hand.started and self.agent:
            self.agent.end(hand.task.key)
        hand.pipe.close()
        hand.process.kill()
        hand.process.wait()

    def _dismiss(self, hands: Sequence[_WorkerHandle]) -> None:
        """The end for several: whoever is alive may tidy up (a CARLA server is to run on by itself), all at once."""
        for hand in hands:
            hand.pipe.close()
        until = time.monotonic() + self.limits.leave_s
        for hand in hands:
            with contextlib.suppress(subprocess.TimeoutExpired):
                hand.process.wait(max(0.0, until - time.monotonic()))
            self._end(hand)

    def _lost(self, hand: _WorkerHandle, reason: str) -> None:
        """A world failed: replace it if there is work left, and give its episode another try."""
        roster = self._roster
        roster.lost(hand.number, hand.task, hand.ready)
        self._end(hand)
        self._hands.remove(hand)
        self.restarts += 1
        server = self.plan.world.server(hand.number)
        if roster.given_up(hand.number):
            what = "the world fails again and again" if hand.ready else "the world does not start"
            reason = f"{what} ({roster.tries(hand.number)} tries): {reason}{self._log_hint(hand)}"
            reason = f"{server} is given up: {reason}" if server else reason
            self._reasons[reason] = None
        elif server not in reason:
            reason = f"{server}: {reason}"
        successor = roster.successor(hand.number, {h.number for h in self._hands})
        if successor is None and not self._hands:
            raise Ad2Error("; ".join(self._reasons))
        self.on_restart(reason)
        if hand.task:
            self._again(hand.task, reason)
        if successor is not None and len(roster.waiting) > sum(not h.task for h in self._hands):
            self._hands.append(self._hire(successor))

    def _again(self, task: EpisodeTask, reason: str) -> None:
        self._tries[task.key] += 1
        if self._tries[task.key] <= self.limits.retries:
            self._roster.waiting.appendleft(task)
            return
        record = blank_record(task, self.plan.cast, EndReason.WORLD_FAILED, reason, *self._backend)
        self.on_result(EpisodeResult(replace(record, counts={"retries": self.limits.retries})))

    def _log_hint(self, hand: _WorkerHandle) -> str:
        return f"; see {self._log(hand.number)}" if self.logs else ""

    # Messages

    def _listen(self) -> None:
        """All messages that are there; waits a little for the first."""
        pipes = {hand.pipe: hand for hand in self._hands}
        for pipe in wait(list(pipes), timeout=self._patience()):
            hand = pipes[pipe]  # type: ignore[index]
            try:
                message = hand.pipe.recv()
            except (EOFError, OSError):  # OSError: it died in the middle of a message
                self._lost(hand, self._how_it_died(hand))
                continue
            hand.heard = time.monotonic()
            getattr(self, f"_on_{message[0]}")(hand, *message[1:])

    def _patience(self) -> float:
        """Seconds to wait for a message: until the batch's window closes, else long."""
        if any(h.question for h in self._hands):
            return max(0.0, self._asked + self._window() - time.monotonic())
        return min(1.0, self.limits.world_timeout_s / 4)

    def _window(self) -> float:
        """How long the first question of a batch waits for others: half of what an answer takes, 5 ms to 1 s."""
        return min(max(self._pace_s / 2, 0.005), 1.0)

    def _on_ready(self, hand: _WorkerHandle, backend: str, version: str) -> None:
        hand.ready, self._backend = True, (backend, version)
        self._roster.came_up(hand.number)
        self._feed(hand)

    def _on_beat(self, hand: _WorkerHandle, tick: int) -> None:
        pass  # that it came is all: `heard` is set

    def _on_start(self, hand: _WorkerHandle, key: str, seed: int) -> None:
        if self.agent:
            self.agent.start(key, seed)
            hand.started = True

    def _on_ask(self, hand: _WorkerHandle, ask: DecisionRequest, decision: Decision | None, wants: bool) -> None:
        if not any(h.question for h in self._hands):
            self._asked = time.monotonic()
        hand.question = (ask, decision, wants)

    def _on_done(self, hand: _WorkerHandle, result: EpisodeResult) -> None:
        task, hand.task = hand.task, None
        assert task is not None
        if hand.started and self.agent:
            self.agent.end(task.key)
        hand.started = False
        self._roster.drove(hand.number)
        if tries := self._tries[task.key]:
            record = result.record
            result = replace(result, record=replace(record, counts={**record.counts, "retries": tries}))
        self.on_result(result)
        self._feed(hand)

    def _on_failed(self, hand: _WorkerHandle, reason: str) -> None:
        self._lost(hand, reason)

    def _on_user(self, hand: _WorkerHandle, message: str) -> None:
        raise Ad2Error(message)

    def _feed(self, hand: _WorkerHandle) -> None:
        """The next episode; the end where there is none and none will come; else it waits."""
        task = self._roster.next_for(hand.number, {h.number for h in self._hands})
        if task is None:
            if not (self._roster.waiting or self.more):
                self._dismiss([hand])
                self._hands.remove(hand)
            return
        hand.task = task
        try:
            hand.pipe.send(("run", hand.task))
        except OSError:
            self._lost(hand, self._how_it_died(hand))

    def _wake(self) -> None:
        """Worlds that waited take what was offered meanwhile, or end; nobody waits for one that is not there yet."""
        for hand in [h for h in self._hands if h.ready and h.task is None]:
            self._feed(hand)
        if not (self._roster.waiting or self.more or any(h.task for h in self._hands)):
            while self._hands:
                hand = self._hands.pop()
                server = self.plan.world.server(hand.number)
                if not hand.ready and server:
                    self.on_restart(f"{server}: not ready when the last episode ended")
                self._end(hand)

    # Answers

    def _answer(self) -> None:
        """Answer all questions at once, as soon as every busy world has put one or the window closes."""
        asking = [h for h in self._hands if h.question]
        busy = [h for h in self._hands if h.task]
        if not asking or (len(asking) < len(busy) and time.monotonic() < self._asked + self._window()):
            return
        started = time.monotonic()
        answers = self._answers([h.question for h in asking if h.question])
        self._pace_s = time.monotonic() - started
        for hand, answer in zip(asking, answers, strict=True):
            hand.question, hand.heard = None, time.monotonic()
            try:
                hand.pipe.send(answer)
            except OSError:
                self._lost(hand, self._how_it_died(hand))

    def _answers(self, questions: Sequence[tuple[DecisionRequest, Decision | None, bool]]) -> list[DecisionResponse]:
        new = [i for i, (_, decision, _) in enumerate(questions) if decision is None]
        decisions = [decision for _, decision, _ in questions]
        if new:
            assert self.agent is not None
            for i, made in zip(new, decide(self.agent, [questions[i][0] for i in new]), strict=True):
                decisions[i] = made
        answers = [DecisionResponse(d) for d in decisions if d is not None]
        unread = [i for i, (_, _, wants) in enumerate(questions) if wants and wants_reading(answers[i].decision)]
        if unread:
            assert self.interpreter is not None
            items = [(questions[i][0], answers[i].decision) for i in unread]
            for i, reading in zip(unread, read(self.interpreter, items), strict=True):
                answers[i] = replace(answers[i], reading=reading)
        return answers

    # The watchdog

    def _watch(self) -> None:
        now = time.monotonic()
        for hand in list(self._hands):
            allowed = self.limits.world_timeout_s if hand.ready else self.limits.start_timeout_s
            if hand.ready and hand.task is None:
                hand.heard = now  # waiting is no silence
            if hand.question is None and now - hand.heard > allowed and not hand.pipe.poll():
                self._lost(hand, f"hung: no sign of life for {allowed:g} s")

    def _how_it_died(self, hand: _WorkerHandle) -> str:
        try:
            code = hand.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "the world process closed its pipe"
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the world process died ({how}){_tail(self._log(hand.number))}"


def _tail(file: Path | None) -> str:
    """The last line that it printed, for the reason."""
    if file is None or not file.is_file():
        return ""
    with file.open("rb") as log:  # its end only: a simulator may have warned at every tick
        log.seek(max(0, file.stat().st_size - TAIL_BYTES))
        text = log.read(TAIL_BYTES).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"; it last printed: {lines[-1][:200]}" if lines else ""
