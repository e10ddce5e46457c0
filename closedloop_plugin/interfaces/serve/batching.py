"""What is served, and dynamic batching: waiting requests are answered together, by one thread, because model wrappers
are not thread-safe.

A batch is taken once as many requests wait as clients can have sent by then (those of the last batch and those that
arrived meanwhile), and after `window_s` at the latest. A single client never waits; several cars that send their next
request shortly after each reply stay in one batch.
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
from typing import Any, Protocol

from closedloop_plugin.interfaces.serve.requests import ApiError, ChatCompletionRequest
from lmms_eval_ad2.core.errors import Ad2Error


@dataclass(frozen=True)
class ServiceRequest:
    """A validated request. Only requests of one `group` may be answered in one call."""

    group: Hashable
    payload: Any


@dataclass(frozen=True)
class ServiceReply:
    """Reply text, or `error` if there is none. `failed`: counted as a failure even if there is a text."""

    text: str = ""
    finish: str = "stop"  # OpenAI's finish_reason: stop, length, content_filter
    error: str | None = None
    failed: bool = False


class ChatService(Protocol):
    """What is served under one model name: validates requests and answers them in batches."""

    name: str  # as listed in /v1/models

    def read(self, chat: ChatCompletionRequest) -> ServiceRequest:
        """Validate a request. ApiError if it is invalid. Called from any thread."""
        ...

    def answer(self, payloads: Sequence[Any]) -> list[ServiceReply]:
        """One ServiceReply per payload, in order. Called only from the thread of RequestBatcher.work."""
        ...


@dataclass(frozen=True)
class _Job:
    answer: Callable[[Sequence[Any]], list[ServiceReply]]
    group: Hashable
    payload: Any
    future: Future[ServiceReply] = field(default_factory=Future)


class RequestBatcher:
    """Queue of requests. `put` may be called from any thread, `work` in one. Cancelled requests are left out."""

    def __init__(self, batch: int = 8, window_s: float = 0.02) -> None:
        self.batch, self.window_s = batch, window_s
        self.batches = self.requests = 0  # calls of a model, and requests in them
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._next_batch: tuple[Hashable, int] = (None, 1)  # group of the last batch, expected size of the next one

    def put(self, service: ChatService, request: ServiceRequest) -> Future[ServiceReply]:
        """Queue a request. Cancelling the returned future withdraws it. ApiError 503 after `close`."""
        job = _Job(service.answer, (service.name, request.group), request.payload)
        with self._changed:
            if self._closed:
                raise _shutting_down()
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def work(self) -> None:
        """Answer requests until `close`."""
        while batch := self._take():
            self._run(batch)

    def close(self) -> None:
        """Accept no more requests, refuse the waiting ones and end `work`."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = list(self._waiting), deque()
            self._changed.notify()
        for job in waiting:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(_shutting_down())

    def _take(self) -> list[_Job]:
        """Wait for the next batch, oldest request first; empty once closed."""
        with self._changed:
            deadline = None
            while not self._closed:
                self._waiting = deque(j for j in self._waiting if not j.future.cancelled())
                if self._waiting:
                    deadline = deadline or time.monotonic() + self.window_s
                    left = deadline - time.monotonic()
                    group, (last_group, size) = self._waiting[0].group, self._next_batch
                    batch = [job for job in self._waiting if job.group == group][: self.batch]
                    if len(batch) >= min(self.batch, size if group == last_group else 1) or left <= 0:
                        chosen = {id(job) for job in batch}
                        self._waiting = deque(j for j in self._waiting if id(j) not in chosen)
                        return batch
                    self._changed.wait(left)
                else:
                    deadline = None
                    self._changed.wait()
            return []

    def _run(self, batch: list[_Job]) -> None:
        jobs = [job for job in batch if job.future.set_running_or_notify_cancel()]
        try:
            if jobs:
                self._answer(jobs)
        finally:  # after Ctrl-C no client is left waiting
            for job in jobs:
                if not job.future.done():
                    job.future.set_exception(_shutting_down())
        with self._changed:
            group = batch[0].group
            self._next_batch = group, len(jobs) + sum(job.group == group for job in self._waiting)

    def _answer(self, jobs: list[_Job]) -> None:
        """One call for all jobs. If it fails, each is retried alone: one bad request must not fail the others."""
        self.batches, self.requests = self.batches + 1, self.requests + len(jobs)
        try:
            replies = jobs[0].answer([job.payload for job in jobs])
            if len(replies) != len(jobs):
                raise ValueError(f"{len(replies)} answers to {len(jobs)} requests")
        except Exception as exc:
            if len(jobs) > 1 and not isinstance(exc, Ad2Error):
                for job in jobs:
                    self._answer([job])
                return
            replies = [ServiceReply(error=_described(exc), failed=True)] * len(jobs)
        for job, reply in zip(jobs, replies, strict=True):
            job.future.set_result(reply)


def _shutting_down() -> ApiError:
    return ApiError(503, "this server is shutting down", code="shutting_down")


def _described(exc: Exception) -> str:
    """The exception in one line; with file and line if it is not an Ad2Error, whose message is written for users."""
    text = " ".join(str(exc).split())[:300]
    if isinstance(exc, Ad2Error):
        return text
    last = traceback.extract_tb(exc.__traceback__)[-1]
    return f"{type(exc).__name__}: {text} (in {Path(last.filename).name}, line {last.lineno})"
