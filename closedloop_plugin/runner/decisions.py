"""What stands between answers and pedals: when to ask, when an answer takes effect, and what to do with a bad one."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST, Control, Decision, EndReason, InterpretedControl
from closedloop_plugin.interpreters.base import SILENT
from closedloop_plugin.runner.latency import WAITS, LatencyModel

_REASONS = 20  # different reasons counted by name; a model that invents new ones must not swell the record


@dataclass(frozen=True)
class DecisionRules:
    """The runner's own choices; everything else is the profile's."""

    policy: str = "official"  # of an unread reply: official coasts, strict ends the episode
    decision_hz: float | None = None  # None: the profile's
    latency: LatencyModel = WAITS
    patience: int = 10  # failures in a row, of the agent or the slow system's model, that end the episode


@dataclass(frozen=True)
class DecisionResponse:
    """One question's answer: the fast system's, and the slow system's reading of it where one was needed."""

    decision: Decision
    reading: InterpretedControl | None = None

    @property
    def spent_s(self) -> float:
        return self.decision.latency_s + (self.reading.latency_s if self.reading else 0.0)


@dataclass
class ControlScheduler:
    """The control of every tick of one episode. One question is open at a time; between answers the last one is held.

    A question of tick t with latency L takes effect at the first tick not before t + L, and the next question is
    put at the first decision tick from then on. Until the first answer the car coasts.
    """

    profile: Profile
    rules: DecisionRules
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    end: EndReason | None = None
    reason: str = ""
    _held: Control = COAST
    _coming: list[tuple[int, Control, bool]] = field(default_factory=list)  # (tick, control, read from words?)
    _next: int = 0
    _failures: int = 0

    def due(self, tick: int) -> bool:
        return self.end is None and tick >= self._next

    def take(self, answer: DecisionResponse, tick: int) -> None:
        """The answer to the question of `tick`."""
        delay = self.rules.latency.of(self.counts["decisions"], self.seed, answer.spent_s)
        at = tick + math.ceil(delay * self.profile.hz - 1e-9)
        self.counts["decisions"] += 1
        self._coming.append((at, *self._judge(answer)))
        self._next = self._decision_tick(max(at, tick + 1))

    def control(self, tick: int, speed: float) -> Control:
        """What is applied in the step from `tick`."""
        while self._coming and tick >= self._coming[0][0]:
            _, control, interpreted = self._coming.pop(0)
            self._held = self.profile.post(control, speed) if interpreted else control
        return self._held

    def _decision_tick(self, earliest: int) -> int:
        period = self.profile.hz / min(self.rules.decision_hz or self.profile.decision_hz, self.profile.hz)
        return math.ceil(math.ceil(earliest / period - 1e-9) * period - 1e-9)

    def _judge(self, answer: DecisionResponse) -> tuple[Control, bool]:
        """(control, read from words?); a failure or an unread reply is counted and becomes a coast."""
        decision, reading = answer.decision, answer.reading
        if decision.error is not None:
            return self._failure(decision.error)
        if decision.control is not None:
            try:
                control = decision.control.checked()
            except ValueError as exc:
                self.counts["not_finite"] += 1
                return self._failure(str(exc))
            self._failures = 0
            return control, False
        if reading is None:
            return self._failure("the agent answers in words and there is no interpreter")
        if reading.mode:
            self.counts[f"mode {reading.mode}"] += 1
        if reading.control is None and (reading.reason or "").startswith(SILENT):
            return self._failure(f"slow system: {reading.reason}: {' '.join(reading.raw.split())[:200]}")
        self._failures = 0
        if reading.control is None:
            return self._unparsed(reading.reason or "no reason given")
        try:
            return reading.control.checked(), True
        except ValueError:
            self.counts["not_finite"] += 1
            return self._unparsed("control is not finite")

    def _failure(self, why: str) -> tuple[Control, bool]:
        self.counts["agent_errors"] += 1
        self._failures += 1
        if self._failures >= self.rules.patience:
            self.end, self.reason = EndReason.AGENT_FAILED, f"{self._failures} failures in a row, the last: {why}"
        return COAST, False

    def _unparsed(self, reason: str) -> tuple[Control, bool]:
        self.counts["unparsed"] += 1
        name = f"unparsed: {reason.splitlines()[0][:60]}"
        known = [k for k in self.counts if k.startswith("unparsed: ")]
        self.counts[name if name in known or len(known) < _REASONS else "unparsed: other"] += 1
        if self.rules.policy == "strict":
            self.end, self.reason = EndReason.UNPARSED, reason
        return COAST, True
