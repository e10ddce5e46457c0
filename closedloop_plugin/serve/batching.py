"""Requests that wait together are answered in one batch, by one thread: models are not made for two.

How long a batch waits for company: until as many are there as answered clients can send again (those of the last batch
and those that came meanwhile), at most `window_s`. A lone client never waits; cars that drive side by side, each with
its next question a moment after its answer, stay together.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from closedloop_plugin.serve.api_error import ApiError
from closedloop_plugin.serve.service import ChatService, ServiceReply, ServiceRequest
from lmms_eval_ad2.errors import Ad2Error


@dataclass(frozen=True)
class _Job:
    answer: Callable[[Sequence[Any]], list[ServiceReply]]
    group: Hashable
    payload: Any
    future: Future[ServiceReply] = field(default_factory=Future)


class RequestBatcher:
    """`put` from any thread, `work` in one. A request that nobody waits for any more is left out of its batch."""

    def __init__(self, batch: int = 8, window_s: float = 0.02) -> None:
        self.batch, self.window_s = batch, window_s
        self.batches = self.asked = 0  # calls of a model, and requests in them
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._crowd: tuple[Hashable, int] = (None, 1)  # a group, and how many of it are to be expected

    def put(self, service: ChatService, order: ServiceRequest) -> Future[ServiceReply]:
        """The answer to come; cancelling it takes the request back."""
        job = _Job(service.answer, (service.name, order.group), order.payload)
        with self._changed:
            if self._closed:
                raise _going()
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def work(self) -> None:
        """Answer until `close`."""
        while batch := self._take():
            self._run(batch)

    def close(self) -> None:
        """No more requests: those that wait are refused, `work` ends."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = list(self._waiting), deque()
            self._changed.notify()
        for job in waiting:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(_going())

    def _take(self) -> list[_Job]:
        """The next batch, oldest request first; empty once closed."""
        with self._changed:
            until = None
            while not self._closed:
                self._waiting = deque(j for j in self._waiting if not j.future.cancelled())
                if self._waiting:
                    until = until or time.monotonic() + self.window_s
                    batch, left = self._mates(), until - time.monotonic()
                    if len(batch) >= self._expected(batch[0].group) or left <= 0:
                        chosen = {id(job) for job in batch}
                        self._waiting = deque(j for j in self._waiting if id(j) not in chosen)
                        return batch
                    self._changed.wait(left)
                else:
                    until = None
                    self._changed.wait()
            return []

    def _mates(self) -> list[_Job]:
        """As many as fit, all of the oldest one's group."""
        group = self._waiting[0].group
        return [job for job in self._waiting if job.group == group][: self.batch]

    def _expected(self, group: Hashable) -> int:
        known, number = self._crowd
        return min(self.batch, number if group == known else 1)

    def _run(self, batch: list[_Job]) -> None:
        jobs = [job for job in batch if job.future.set_running_or_notify_cancel()]
        try:
            if jobs:
                self._answer(jobs)
        finally:  # Ctrl-C in the middle: nobody is left without a word
            for job in jobs:
                if not job.future.done():
                    job.future.set_exception(_going())
        with self._changed:
            group = batch[0].group
            self._crowd = group, len(jobs) + sum(job.group == group for job in self._waiting)

    def _answer(self, jobs: list[_Job]) -> None:
        """One call for all. Where that fails each is asked alone: what one of them holds is no other's fault."""
        self.batches, self.asked = self.batches + 1, self.asked + len(jobs)
        try:
            answers = jobs[0].answer([job.payload for job in jobs])
            if len(answers) != len(jobs):
                raise ValueError(f"{len(answers)} answers to {len(jobs)} requests")
        except Exception as exc:
            if len(jobs) > 1 and not isinstance(exc, Ad2Error):
                for job in jobs:
                    self._answer([job])
                return
            answers = [ServiceReply(error=_told(exc), failed=True)] * len(jobs)
        for job, done in zip(jobs, answers, strict=True):
            job.future.set_result(done)


def _going() -> ApiError:
    return ApiError(503, "this server is shutting down", code="shutting_down")


def _told(exc: Exception) -> str:
    """One line, with the place for what is no message to the user."""
    text = " ".join(str(exc).split())[:300]
    if isinstance(exc, Ad2Error):
        return text
    last = traceback.extract_tb(exc.__traceback__)[-1]
    return f"{type(exc).__name__}: {text} (in {Path(last.filename).name}, line {last.lineno})"
