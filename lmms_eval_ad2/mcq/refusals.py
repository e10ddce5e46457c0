"""Questions whose request the endpoint turned down (HTTP 4xx): their own fault, or has the endpoint changed?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lmms_eval_ad2.mcq.base import Outcome, Rejected


class Refusals:
    """Outcomes on their way to `done`. A question whose request was turned down waits until another one is finished: a
    server that turns down everything from some moment on (its model unloaded) has not judged the questions."""

    def __init__(self, done: Callable[[Outcome], None]) -> None:
        self._done = done
        self._held: list[Rejected] = []

    def hand_over(self, outcome: Outcome) -> None:
        if isinstance(outcome, Rejected) and not outcome.passing and outcome.reason.startswith("http_"):
            self._held.append(outcome)
            return
        if not (isinstance(outcome, Rejected) and outcome.passing):
            self.end(passing=False)
        self._done(outcome)

    def end(self, passing: bool) -> None:
        """Hand over those that wait."""
        while self._held:
            self._done(replace(self._held.pop(0), passing=passing))
