"""A Pool whose episodes are chosen while it runs: a world that has nothing to do waits, and does not end."""

from __future__ import annotations

import time
from dataclasses import dataclass

from closedloop_plugin.runner.episode import Result
from closedloop_plugin.runner.pool import Pool, _Hand
from closedloop_plugin.runner.task import Task


@dataclass
class Feed(Pool):
    """`on_result` may `offer` further tasks, or `finish`: nothing more will come."""

    more: bool = True

    def offer(self, task: Task) -> None:
        self._waiting.append(task)

    def finish(self) -> None:
        self.more = False

    def _feed(self, hand: _Hand) -> None:
        if self._waiting or not self.more:
            super()._feed(hand)

    def _on_done(self, hand: _Hand, result: Result) -> None:
        super()._on_done(hand, result)
        self._wake()

    def _lost(self, hand: _Hand, reason: str) -> None:
        if hand in self._hands:
            super()._lost(hand, reason)
            self._wake()

    def _wake(self) -> None:
        """Those that wait take what has come; or end, where nothing more will."""
        for hand in [h for h in self._hands if h.ready and h.task is None]:
            self._feed(hand)

    def _watch(self) -> None:
        for hand in self._hands:
            if hand.ready and hand.task is None:
                hand.heard = time.monotonic()  # waiting is no silence
        super()._watch()
