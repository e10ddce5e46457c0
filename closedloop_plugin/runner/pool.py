"""WorldPool: runs episodes in world processes, and sends them the responses to their decision requests.

A world process that dies, fails or sends nothing for `world_timeout_s` is killed and replaced. Its episode is retried
up to `retries` times, on another server if there are several, and then recorded as failed with its fault and reason; at
once if it is certain to fail again (faults.py), or if two tries have failed with the same exception. The loss of a
whole machine is not a failure of its episode and is counted apart. For servers that are given up see scheduler.py, for
where the processes run world_processes.py.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from closedloop_plugin.core.state import Decision, EndReason, EpisodeFault
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.runner.decisions import UnreadReply
from closedloop_plugin.runner.episode_record import EpisodeResult, blank_record
from closedloop_plugin.runner.faults import DriverFailed, UnhealthyRun, end, start
from closedloop_plugin.runner.responses import OpenRequest, ResponseService
from closedloop_plugin.runner.scheduler import EpisodeScheduler
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.runner.world_processes import LocalEngine, ProcessDeath, WorldEngine, WorldProcess
from lmms_eval_ad2.core.errors import Ad2Error

MACHINE_LOSSES = 20  # of one episode: more, and it is the episode that brings down its machines
WAIT_NOTE_S = 10.0  # without a place for a process, after which this is reported


@dataclass(frozen=True)
class PoolLimits:
    workers: int = 1
    retries: int = 2  # of an episode whose world failed
    world_timeout_s: float = 180.0  # without a message (a reset, or one step), after which a world counts as hung
    start_timeout_s: float = 300.0  # until a world is ready: imports from a cold disk on a busy machine take long
    starts: int = 5  # consecutive failures, after which a server is given up, and with the last server the run
    first_starts: int = 2  # the same for a server that never started
    shutdown_s: float = 5.0  # grace period of world processes at the end


@dataclass
class _WorkerHandle:
    """State of a world process in the parent."""

    number: int
    process: WorldProcess
    task: EpisodeTask | None = None
    last_message: float = 0.0  # monotonic time
    request: OpenRequest | None = None
    ready: bool = False
    started: bool = False  # the episode has begun; if the parent has the agent, its start was called
    created: float = field(default_factory=time.monotonic)

    @property
    def pipe(self) -> Connection:
        return self.process.pipe


@dataclass(kw_only=True)
class WorldPool:
    """One run of the tasks. `agent`, `interpreter`: those of this process; None: each world process has its own."""

    worker_config: WorkerConfig
    limits: PoolLimits
    agent: Agent | None
    interpreter: Interpreter | None
    on_result: Callable[[EpisodeResult], None]
    engine: WorldEngine = field(default_factory=LocalEngine)
    on_restart: Callable[[str], None] = lambda reason: None
    on_wait: Callable[[str], None] = lambda reason: None  # worlds wait for a place in the cluster
    on_reply: Callable[[UnreadReply | None], None] = lambda unread: None  # of a model; None: it was read
    on_start: Callable[[str], None] = lambda key: None  # of an episode, also when it is tried again
    on_beat: Callable[[str, float, int], None] = lambda key, time_s, decisions: None  # about once a second
    on_end: Callable[[str], None] = lambda key: None  # of an episode that was started, also when its world was lost
    on_decisions: Callable[[str, bytes], None] = lambda key, block: None  # see worker.py; by episode
    logs: Path | None = None
    more: bool = False  # on_result may `offer` further tasks until it calls `finish`; idle worlds wait for them
    restarts: int = 0
    _workers: list[_WorkerHandle] = field(default_factory=list)
    _reasons: dict[str, None] = field(default_factory=dict)  # for which servers were given up
    _tries: Counter[str] = field(default_factory=Counter)
    _exceptions: dict[str, str] = field(default_factory=dict)  # of the last failed try of an episode
    _machine_losses: Counter[str] = field(default_factory=Counter)
    _wait_note: str = ""
    _backend: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        self._scheduler = EpisodeScheduler(
            workers=self.limits.workers,
            own=bool(self.worker_config.world.each),
            starts=self.limits.starts,
            first_starts=self.limits.first_starts,
        )
        self._responses = ResponseService(self.agent, self.interpreter)

    def run(self, tasks: Sequence[EpisodeTask]) -> None:
        """Run all tasks. Ad2Error (an error of the user) and Ctrl-C end the run; saved results are kept."""
        self._scheduler.waiting.extend(tasks)
        try:
            for number in range(min(self.limits.workers, len(tasks))):
                self._workers.append(self._start(number))
            while self._workers:
                self._receive()
                self._answer()
                self._check_timeouts()
                self._assign_idle()
        finally:
            self._shut_down(self._workers)
            self._responses.close()

    def offer(self, task: EpisodeTask) -> None:
        """Add a task; only while `more`."""
        self._scheduler.waiting.append(task)

    def finish(self) -> None:
        """Declare that no more tasks will be offered."""
        self.more = False

    # Processes

    def _start(self, number: int) -> _WorkerHandle:
        world, silence_s = self.worker_config.world.of(number), self.limits.world_timeout_s
        config = replace(self.worker_config, world=world, silence_s=silence_s)
        process = self.engine.start(config, self._log(number))
        return _WorkerHandle(number, process, last_message=time.monotonic())

    def _log(self, number: int) -> Path | None:
        """File for the simulator's output, since the terminal shows the progress bar."""
        if self.logs is None:
            return None
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"worker{number}.log"

    def _kill(self, worker: _WorkerHandle) -> None:
        """Kill a world process and end its episode for the agent."""
        self._responses.forget(worker.number)
        if worker.task:
            self._end_episode(worker, worker.task)
        worker.process.kill()

    def _shut_down(self, workers: Sequence[_WorkerHandle]) -> None:
        """End world processes after a common grace period, in which they leave a CARLA server in asynchronous mode."""
        for worker in workers:
            worker.process.close()
        until = time.monotonic() + self.limits.shutdown_s
        for worker in workers:
            worker.process.wait(max(0.0, until - time.monotonic()))
            self._kill(worker)

    def _replace_dead(self, worker: _WorkerHandle) -> None:
        """Replace a world whose pipe has ended."""
        death: ProcessDeath = worker.process.death()
        self._replace_lost(worker, death.reason, death.machine_lost)

    def _replace_lost(
        self,
        worker: _WorkerHandle,
        reason: str,
        machine_lost: bool = False,
        fault: EpisodeFault = EpisodeFault.WORLD,
        certain: bool = False,
    ) -> None:
        """Replace a world that failed, if there is work left, and retry its episode unless it is `certain` to fail."""
        scheduler = self._scheduler
        if not machine_lost and fault is not EpisodeFault.DRIVER:
            scheduler.world_lost(worker.number, worker.task, worker.ready)
        self._kill(worker)
        self._workers.remove(worker)
        self.restarts += 1
        server = self.worker_config.world.server(worker.number)
        if scheduler.is_given_up(worker.number):
            problem = "the world fails again and again" if worker.ready else "the world does not start"
            reason = f"{problem} ({scheduler.failures(worker.number)} tries): {reason}{self._log_hint(worker)}"
            reason = f"{server} is given up: {reason}" if server else reason
            self._reasons[reason] = None
        elif server not in reason:
            reason = f"{server}: {reason}"
        number = scheduler.replacement(worker.number, {w.number for w in self._workers})
        if number is None and not self._workers:
            raise UnhealthyRun("; ".join(self._reasons))
        self.on_restart(reason)
        if worker.task:
            self._retry(worker.task, reason, machine_lost, fault, certain)
        if number is not None and len(scheduler.waiting) > sum(not w.task for w in self._placed()):
            self._workers.append(self._start(number))

    def _retry(self, task: EpisodeTask, reason: str, machine_lost: bool, fault: EpisodeFault, certain: bool) -> None:
        counter, most = (self._machine_losses, MACHINE_LOSSES) if machine_lost else (self._tries, self.limits.retries)
        counter[task.key] += 1
        if counter[task.key] <= most and not certain:
            self._scheduler.waiting.appendleft(task)
            return
        conditions, (backend, version) = self.worker_config.conditions, self._backend
        record = blank_record(
            task=task,
            conditions=conditions,
            end=EndReason.AGENT_FAILED if fault is EpisodeFault.DRIVER else EndReason.WORLD_FAILED,
            reason=reason,
            backend=backend,
            version=version,
            fault=fault,
        )
        self.on_result(EpisodeResult(replace(record, counts={"retries": counter[task.key] - 1})))

    def _log_hint(self, worker: _WorkerHandle) -> str:
        return f"; see {self._log(worker.number)}" if self.logs else ""

    # Messages

    def _receive(self) -> None:
        """Handle all messages that have arrived; waits for the first until open requests are due."""
        longest, due = min(1.0, self.limits.world_timeout_s / 4), self._responses.wait_s()
        pipes = {worker.pipe: worker for worker in self._workers}
        for pipe in wait([*pipes, self._responses.reader], timeout=longest if due is None else min(longest, due)):
            if pipe is self._responses.reader:
                continue
            worker = pipes[pipe]  # type: ignore[index]
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):  # OSError: it died while it sent a message
                self._replace_dead(worker)
                continue
            worker.last_message = time.monotonic()
            try:
                getattr(self, f"_on_{message[0]}")(worker, *message[1:])
            except Ad2Error:
                self._keep_arrived(besides=worker)
                raise

    def _keep_arrived(self, besides: _WorkerHandle | None = None) -> None:
        """Before an error ends the run: keep the results that other worlds have sent already."""
        for worker in [w for w in self._workers if w is not besides]:
            # Of a dead world, a broken message, or a result that cannot be kept either: the first error is reported.
            with contextlib.suppress(EOFError, OSError, Ad2Error):
                while worker.task and worker.pipe.poll():
                    kind, *parts = worker.pipe.recv()
                    if kind == "decisions":
                        self._on_decisions(worker, *parts)
                    elif kind == "done":
                        self._finish_episode(worker, *parts)

    def _on_ready(self, worker: _WorkerHandle, backend: str, version: str) -> None:
        worker.ready, self._backend = True, (backend, version)
        self._scheduler.world_ready(worker.number)
        self._assign(worker)

    def _on_beat(self, worker: _WorkerHandle, time_s: float, decisions: int) -> None:
        if worker.task is not None:
            self.on_beat(worker.task.key, time_s, decisions)

    def _on_start(self, worker: _WorkerHandle, key: str, seed: int) -> None:
        self.on_start(key)
        if self.agent:
            try:
                start(self.agent, key, seed)
            except DriverFailed as exc:
                self._replace_lost(worker, str(exc), fault=EpisodeFault.DRIVER, certain=True)
                return
        worker.started = True

    def _end_episode(self, worker: _WorkerHandle, task: EpisodeTask) -> None:
        """An episode is over, or its world is lost."""
        if worker.started:
            self.on_end(task.key)
            if self.agent:
                end(self.agent, task.key)
        worker.started = False

    def _on_ask(
        self, worker: _WorkerHandle, request: DecisionRequest, decision: Decision | None, interpret: bool
    ) -> None:
        worker.request = OpenRequest(worker.number, request, decision, interpret)
        self._responses.add(worker.request)

    def _on_reply(self, worker: _WorkerHandle, unread: UnreadReply | None) -> None:
        self.on_reply(unread)

    def _on_decisions(self, worker: _WorkerHandle, block: bytes) -> None:
        assert worker.task is not None
        self.on_decisions(worker.task.key, block)

    def _on_done(self, worker: _WorkerHandle, result: EpisodeResult) -> None:
        self._finish_episode(worker, result)
        self._assign(worker)

    def _finish_episode(self, worker: _WorkerHandle, result: EpisodeResult) -> None:
        task, worker.task = worker.task, None
        assert task is not None
        self._end_episode(worker, task)
        self._responses.forget(worker.number)
        self._scheduler.episode_finished(worker.number)
        if tries := self._tries[task.key]:
            record = result.record
            result = replace(result, record=replace(record, counts={**record.counts, "retries": tries}))
        self.on_result(result)

    def _on_failed(self, worker: _WorkerHandle, reason: str, fault: EpisodeFault, certain: bool) -> None:
        key = worker.task.key if worker.task else ""
        again = self._exceptions.get(key) == reason  # the same exception: a third try would not help
        self._exceptions[key] = reason
        hopeless = certain and again and not self.worker_config.world.each  # another server may be able to
        if not worker.ready and (hopeless or fault is EpisodeFault.DRIVER):
            raise UnhealthyRun(f"a fault of the {fault}: {reason}{self._log_hint(worker)}")
        certain |= bool(worker.task) and again
        self._replace_lost(worker, reason, fault=fault, certain=certain)

    def _on_user(self, worker: _WorkerHandle, message: str) -> None:
        raise Ad2Error(message)

    def _placed(self) -> list[_WorkerHandle]:
        """The workers that have a place in the cluster: the node of another one may never come back."""
        return [worker for worker in self._workers if not worker.process.waits_for]

    def _assign(self, worker: _WorkerHandle) -> None:
        """Send the next episode to a worker; end it if no episode is left or to come, else leave it idle."""
        task = self._scheduler.next_task(worker.number, {w.number for w in self._placed()})
        if task is None:
            if not (self._scheduler.waiting or self.more):
                self._shut_down([worker])
                self._workers.remove(worker)
            return
        worker.task = task
        try:
            worker.pipe.send(("run", worker.task))
        except OSError:
            self._replace_dead(worker)

    def _assign_idle(self) -> None:
        """Assign offered tasks to idle workers; without work left, kill those that have not started yet."""
        for worker in [w for w in self._workers if w.ready and w.task is None]:
            self._assign(worker)
        if not (self._scheduler.waiting or self.more or any(w.task for w in self._workers)):
            while self._workers:
                worker = self._workers.pop()
                server = self.worker_config.world.server(worker.number)
                if not worker.ready and server:
                    self.on_restart(f"{server}: not ready when the last episode ended")
                self._kill(worker)

    def _answer(self) -> None:
        """Send the responses that are complete."""
        asking = {id(worker.request): worker for worker in self._workers if worker.request}
        try:
            complete = self._responses.collect()
        except Ad2Error:
            self._keep_arrived()
            raise
        for item in complete:
            worker = asking.get(id(item))
            if worker is None:  # its world was lost
                continue
            worker.request, worker.last_message = None, time.monotonic()
            try:
                worker.pipe.send(item.response)
            except OSError:
                self._replace_dead(worker)

    # Timeouts

    def _check_timeouts(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            allowed = self.limits.world_timeout_s if worker.ready else self.limits.start_timeout_s
            if worker.process.waits_for or (worker.ready and worker.task is None):
                worker.last_message = now  # a process without a place, or an idle one, sends nothing
            if worker.request is None and now - worker.last_message > allowed and not worker.pipe.poll():
                self._replace_lost(worker, f"hung: no sign of life for {allowed:g} s")
        self._report_waiting(now)

    def _report_waiting(self, now: float) -> None:
        """Report worlds that wait long for a place in the cluster, once for each number of them."""
        waiting = [w for w in self._workers if w.process.waits_for and now - w.created > WAIT_NOTE_S]
        note = f"{len(waiting)} of {len(self._workers)} wait for {waiting[0].process.waits_for}" if waiting else ""
        if note != self._wait_note and note:
            self.on_wait(note)
        self._wait_note = note
