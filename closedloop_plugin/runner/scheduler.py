"""EpisodeScheduler: assigns episodes to workers; decides which servers are given up and what replaces a lost worker.

Failures are counted per worker if each has its own server, so that a broken server does not fail episodes that another
one can run; workers without servers are alike and are counted together.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from closedloop_plugin.runner.task import EpisodeTask


@dataclass
class EpisodeScheduler:
    """`starts`: consecutive failures after which a server is given up; `first_starts`: for one that never started."""

    workers: int
    own: bool  # each worker has its own server
    starts: int
    first_starts: int
    waiting: deque[EpisodeTask] = field(default_factory=deque)
    _failed_starts: Counter[int] = field(default_factory=Counter)  # by worker: consecutive failed starts
    _failed_episodes: Counter[int] = field(default_factory=Counter)  # likewise, episodes with a failed world
    _started: set[int] = field(default_factory=set)  # workers whose world started at least once
    _failed: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # task -> workers

    def world_ready(self, worker: int) -> None:
        self._failed_starts[self._index(worker)] = 0
        self._started.add(self._index(worker))

    def episode_finished(self, worker: int) -> None:
        self._failed_episodes[self._index(worker)] = 0

    def world_lost(self, worker: int, task: EpisodeTask | None, was_ready: bool) -> None:
        """The worker's world failed in this episode, or without one."""
        if not was_ready:
            self._failed_starts[self._index(worker)] += 1
        elif task:
            self._failed_episodes[self._index(worker)] += 1
            self._failed[task.key].add(worker)

    def is_given_up(self, worker: int) -> bool:
        """Whether its world does not start, or its episodes keep failing while another server works."""
        worker = self._index(worker)
        if not self._starts(worker):
            return True
        others = (n for n in range(self.workers) if n != worker)
        return self.own and not self._drives(worker) and any(self._starts(n) and self._drives(n) for n in others)

    def failures(self, worker: int) -> int:
        """Consecutive failures."""
        worker = self._index(worker)
        return self._failed_starts[worker] or self._failed_episodes[worker]

    def replacement(self, worker: int, busy: Collection[int]) -> int | None:
        """The worker to start instead of a lost one: on another free server, else the same; None: all are given up."""
        free = [n for n in range(self.workers) if n not in busy and n != worker]
        order = (*free, worker) if self.own else (worker, *free)
        return next((n for n in order if not self.is_given_up(n)), None)

    def next_task(self, worker: int, running: Collection[int]) -> EpisodeTask | None:
        """The next episode for a worker; one that failed on its server is left to another of the `running` workers."""
        for task in self.waiting:
            failed = self._failed.get(task.key, set()) if self.own else set()
            if worker not in failed or failed >= set(running):
                self.waiting.remove(task)
                return task
        return None

    def _index(self, worker: int) -> int:
        return worker if self.own else 0

    def _starts(self, worker: int) -> bool:
        limit = self.starts if worker in self._started or not self.own else self.first_starts
        return self._failed_starts[worker] < limit

    def _drives(self, worker: int) -> bool:
        return self._failed_episodes[worker] < self.starts
