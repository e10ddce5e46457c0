"""Decisions of an episode: the simulated time of each, when it takes effect, and what an unreadable one becomes.

ControlScheduler is the control of every tick.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import (
    COAST,
    Control,
    Decision,
    EndReason,
    EpisodeFault,
    InterpretedControl,
    Observation,
)
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.interpreter import NO_REPLY_REASONS
from lmms_eval_ad2.core.errors import Ad2Error, DataError

_REASONS = 20  # counted by name; the rest is counted as "other", so that records stay small
TEXT = 4000  # characters of a text of an unread reply
SHOWN = 80  # of them, in an error message


@dataclass(frozen=True)
class LatencyModel:
    """`values`: seconds, used cyclically; empty and not measured: the world waits for every response."""

    label: str = "waits"  # in the results
    values: tuple[float, ...] = ()
    measured: bool = False  # wall time of the models; not reproducible

    def of(self, number: int, seed: int, spent_s: float) -> float:
        """Seconds until the response to request `number` (from 0) of an episode takes effect. spent_s: wall time."""
        if self.measured:
            return max(spent_s, 0.0)
        return self.values[(seed + number) % len(self.values)] if self.values else 0.0


WAITS = LatencyModel()


def read_latency(text: str | None) -> LatencyModel:
    """From "waits" (or None), "measured", seconds, or a file with one value in seconds per line (# comments)."""
    if text is None or text == "waits":
        return WAITS
    if text == "measured":
        return LatencyModel("latency measured (not reproducible)", measured=True)
    try:
        seconds = float(text)
    except ValueError:
        return _from_file(Path(text))
    if not (math.isfinite(seconds) and seconds >= 0):
        raise Ad2Error(f"--config latency={text}: seconds must be 0 or more")
    return LatencyModel(f"latency {seconds:g}", (seconds,))


def _from_file(file: Path) -> LatencyModel:
    if not file.is_file():
        raise Ad2Error(f"--config latency={file}: neither 'waits', 'measured', a number of seconds, nor a file")
    values = []
    for row, line in enumerate(file.read_text("utf-8", errors="replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise DataError(file, row, "latency", "seconds, 0 or more", text)
        values.append(value)
    if not values:
        raise DataError(file, None, "latency", "at least one line with seconds")
    return LatencyModel(f"latency file {file.name} ({len(values)} values)", tuple(values))


@dataclass(frozen=True)
class DecisionRules:
    """Settings of the runner; everything else is part of the profile."""

    policy: str = "official"  # for an unparsed reply: official coasts, strict ends the episode
    decision_hz: float | None = None  # None: the profile's
    latency: LatencyModel = WAITS
    patience: int = 10  # consecutive failures of the agent or of the slow system's model that end the episode


@dataclass(frozen=True)
class DecisionResponse:
    """Response to a DecisionRequest: the fast system's decision and, if needed, its control from the slow system.

    `waited_s`: wall time from the request to the response in the world's process; for logs only.
    """

    decision: Decision
    interpreted: InterpretedControl | None = None
    waited_s: float | None = field(default=None, compare=False)

    @property
    def spent_s(self) -> float:
        """Wall time of both systems, s."""
        return self.decision.latency_s + (self.interpreted.latency_s if self.interpreted else 0.0)

    @property
    def replied(self) -> bool:
        """Whether a model's reply was to be read: False for a control of the agent and for a failure."""
        if self.decision.error is not None or self.decision.control is not None or self.interpreted is None:
            return False
        no_reply = (self.interpreted.reason or "").startswith(NO_REPLY_REASONS)
        return self.interpreted.control is not None or not no_reply

    @property
    def unread(self) -> str | None:
        """Why the reply gives no control; None if it does, or without a reply."""
        if not self.replied or self.interpreted is None:
            return None
        if self.interpreted.control is None:
            return self.interpreted.reason or "no reason given"
        try:
            self.interpreted.control.checked()
        except ValueError:
            return "control is not finite"
        return None


@dataclass(frozen=True)
class UnreadReply:
    """A reply that gave no control. `texts`: answers of the fast system; `reply`: the text that could not be read."""

    episode: str
    time_s: float  # of the simulation
    reason: str
    mode: str
    reply: str
    texts: Mapping[str, str]

    def command(self, profile: str, policy: str) -> str:
        """The command that reads such a reply as the run does."""
        if self.mode in ("cng", "dcs"):
            how = f" --interpreter {self.mode}" + (" --config policy=strict" if policy == "strict" else "")
        else:
            how = " --task trajectory" if self.reply and self.reply == self.texts.get("trajectory") else ""
        return f"ad2 drive read{how} --profile {profile} TEXT"

    def __str__(self) -> str:
        line = " ".join(self.reply.split())
        shown = line if len(line) <= SHOWN else line[: SHOWN - 3] + "..."
        return f"{self.episode} at {self.time_s:.1f} s {shown!r} ({' '.join(self.reason.split())[:SHOWN]})"


def unread_reply(request: DecisionRequest, response: DecisionResponse) -> UnreadReply | None:
    """The reply of a response, if it is unread. Long texts are cut."""
    interpreted, why = response.interpreted, response.unread
    if interpreted is None or why is None:
        return None
    return UnreadReply(
        episode=request.episode,
        time_s=request.observation.time_s,
        reason=why[:TEXT],
        mode=interpreted.mode,
        reply=(interpreted.raw or " | ".join(response.decision.texts.values()))[:TEXT],
        texts={task: text[:TEXT] for task, text in response.decision.texts.items()},
    )


@dataclass
class TimedDecision:
    """A response and its times, as ticks: of its request, of its arrival, and of the steps with its control.

    `applied`: the first tick, and the tick after the last one; None while (or if) its control is not applied. `held`:
    the applied control, after the profile's post-processing. `observation`: of the request.
    """

    response: DecisionResponse
    control: Control
    interpreted: bool
    requested: int
    arrived: int
    applied: tuple[int, int] | None = None
    held: Control | None = None
    observation: Observation | None = None

    def times(self, hz: float) -> list[float | None]:
        """Simulated times in s: request, arrival, begin and end of the application (None if there was none)."""
        begin, end = self.applied or (None, None)
        ticks = (self.requested, self.arrived, begin, end)
        return [None if tick is None else round(tick / hz, 3) for tick in ticks]


@dataclass
class ControlScheduler:
    """The control of every tick of one episode. At most one request is open; the last control is held in between.

    The response to a request of tick t with latency L takes effect at the first tick not before t + L; the next request
    is made at the first decision tick from then on. Before the first response the car coasts.
    """

    profile: Profile
    rules: DecisionRules
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    end: EndReason | None = None
    reason: str = ""
    fault: EpisodeFault = EpisodeFault.DRIVER  # what is to blame for the last failure
    on_closed: Callable[[TimedDecision], None] = lambda decision: None  # of every decision, when it is over
    _held: Control = COAST
    current: TimedDecision | None = None  # whose control is applied; None before the first one
    times: list[list[float | None]] = field(default_factory=list)  # of decisions in words, see TimedDecision.times
    _pending: list[TimedDecision] = field(default_factory=list)  # at most one, but for the tick in which it arrives
    _next: int = 0
    _failures: int = 0

    def due(self, tick: int) -> bool:
        """Whether a decision is to be requested at this tick."""
        return self.end is None and tick >= self._next

    @property
    def next_tick(self) -> int:
        """The earliest tick of the next request."""
        return self._next

    def take(self, response: DecisionResponse, tick: int, observation: Observation | None = None) -> None:
        """Schedule the response to the request of `tick`."""
        delay = self.rules.latency.of(self.counts["decisions"], self.seed, response.spent_s)
        at = tick + math.ceil(delay * self.profile.hz - 1e-9)  # 1e-9: a latency of whole ticks is not rounded up
        self.counts["decisions"] += 1
        control, interpreted = self._control_of(response)
        self._pending.append(
            TimedDecision(response, control, interpreted, requested=tick, arrived=at, observation=observation)
        )
        self._next = self._decision_tick(max(at, tick + 1))

    def control(self, tick: int, speed: float) -> Control:
        """The control of the step from `tick`. `speed` in m/s, for the profile's limits."""
        while self._pending and tick >= self._pending[0].arrived:
            self._close(self.current)
            self.current = self._pending.pop(0)
            control = self.current.control
            self._held = self.profile.post(control, speed) if self.current.interpreted else control
            self.current.held = self._held
        if self.current:
            self.current.applied = (self.current.applied[0] if self.current.applied else tick, tick + 1)
        return self._held

    def finish(self) -> list[list[float | None]]:
        """The times of all decisions in words, at the end of the episode."""
        for decision in (self.current, *self._pending):
            self._close(decision)
        return self.times

    def _close(self, decision: TimedDecision | None) -> None:
        """Note a decision whose control is no longer applied, or never will be."""
        if decision is None:
            return
        if decision.response.decision.control is None:
            self.times.append(decision.times(self.profile.hz))
        self.on_closed(decision)

    def _decision_tick(self, earliest: int) -> int:
        """The first tick not before `earliest` that is a multiple of the decision period, rounded up."""
        period = self.profile.hz / min(self.rules.decision_hz or self.profile.decision_hz, self.profile.hz)
        number = max(1, math.ceil(earliest / period - 1e-9))  # 1: of a rate below one in 10^9 ticks too
        return math.ceil(number * period - 1e-9)

    def _control_of(self, response: DecisionResponse) -> tuple[Control, bool]:
        """(control, interpreted?). A failure or an unparsed reply is counted and becomes coasting."""
        decision, interpreted = response.decision, response.interpreted
        if decision.error is not None:
            return self._failure(decision.error, decision.fault)
        if decision.control is not None:
            try:
                control = decision.control.checked()
            except ValueError as exc:
                self.counts["not_finite"] += 1
                return self._failure(str(exc))
            self._failures = 0
            return control, False
        if interpreted is None:
            return self._failure("the agent answers in words and there is no interpreter")
        if interpreted.mode:
            self.counts[f"mode {interpreted.mode}"] += 1
        if not response.replied:
            text = " ".join(interpreted.raw.split())[:200]
            return self._failure(f"slow system: {interpreted.reason}: {text}", interpreted.fault)
        self._failures = 0
        self.counts.update(interpreted.adapted)
        if (why := response.unread) is not None:
            if interpreted.control is not None:
                self.counts["not_finite"] += 1
            return self._unparsed(why)
        assert interpreted.control is not None
        return interpreted.control.checked(), True

    def _failure(self, why: str, fault: EpisodeFault = EpisodeFault.DRIVER) -> tuple[Control, bool]:
        self.counts["agent_errors"] += 1
        self.fault = fault
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


def most_decisions(profile: Profile, rules: DecisionRules, ticks: int, seed: int = 0) -> int:
    """Number of requests in an episode of `ticks` ticks, at most: a `measured` latency counts as none."""
    scheduler = ControlScheduler(profile, rules, seed)
    while scheduler.next_tick < ticks:
        scheduler.take(DecisionResponse(Decision(control=COAST)), scheduler.next_tick)
    return scheduler.counts["decisions"]
