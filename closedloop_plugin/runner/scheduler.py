"""Which worker takes which episode, whose server is given up, and who is hired in the place of one that was lost.

Workers whose worlds are all alike count as one. Where each has a server of its own each counts by itself: a broken
server must not spoil the episodes that another one would have driven.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from closedloop_plugin.runner.task import EpisodeTask


@dataclass
class EpisodeScheduler:
    """`starts`: failures in a row after which a server is given up; `first_starts`: of one that never was there."""

    workers: int
    own: bool  # each worker has a server of its own
    starts: int
    first_starts: int
    waiting: deque[EpisodeTask] = field(default_factory=deque)
    _stillborn: Counter[int] = field(default_factory=Counter)  # by worker: starts in a row that failed
    _broken: Counter[int] = field(default_factory=Counter)  # and episodes in a row in which its world failed
    _known: set[int] = field(default_factory=set)  # workers that came up once
    _failed: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))  # task -> workers

    def came_up(self, worker: int) -> None:
        self._stillborn[self._one(worker)] = 0
        self._known.add(self._one(worker))

    def drove(self, worker: int) -> None:
        """An episode came to its end there."""
        self._broken[self._one(worker)] = 0

    def lost(self, worker: int, task: EpisodeTask | None, came_up: bool) -> None:
        """Its world failed: in this episode, or before it took one."""
        if not came_up:
            self._stillborn[self._one(worker)] += 1
        elif task:
            self._broken[self._one(worker)] += 1
            self._failed[task.key].add(worker)

    def given_up(self, worker: int) -> bool:
        """It does not start, or what it starts fails again and again while another server is well."""
        worker = self._one(worker)
        if not self._starts(worker):
            return True
        others = (n for n in range(self.workers) if n != worker)
        return self.own and not self._drives(worker) and any(self._starts(n) and self._drives(n) for n in others)

    def tries(self, worker: int) -> int:
        """Failures in a row."""
        worker = self._one(worker)
        return self._stillborn[worker] or self._broken[worker]

    def successor(self, worker: int, busy: Collection[int]) -> int | None:
        """Who is hired in its place: another server where one is free, else the same again; None: nobody is left."""
        free = [n for n in range(self.workers) if n not in busy and n != worker]
        order = (*free, worker) if self.own else (worker, *free)
        return next((n for n in order if not self.given_up(n)), None)

    def next_for(self, worker: int, here: Collection[int]) -> EpisodeTask | None:
        """The next episode for a worker; one that failed on its server is left to another of those that are `here`."""
        for task in self.waiting:
            failed = self._failed.get(task.key, set()) if self.own else set()
            if worker not in failed or failed >= set(here):
                self.waiting.remove(task)
                return task
        return None

    def _one(self, worker: int) -> int:
        return worker if self.own else 0

    def _starts(self, worker: int) -> bool:
        return self._stillborn[worker] < (self.starts if worker in self._known or not self.own else self.first_starts)

    def _drives(self, worker: int) -> bool:
        return self._broken[worker] < self.starts
