"""What another interpreter makes of the words that a run has kept (decision_files.py)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control, Decision, InterpretedControl, Observation
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.runner.decision_files import StoredDecision, read_decisions
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.image_files import open_image

TOLERANCE = 0.05  # on each axis, up to which two controls agree
AT_ONCE = 64  # decisions in one call of the interpreter
EXAMPLES = 5  # kept of each kind


@dataclass(frozen=True)
class RereadDecision:
    """A decision with both controls, after post-processing at the speed of its request; None: unread."""

    episode: str  # <route>_rep<k>
    decision: StoredDecision
    before: Control | None
    now: Control | None
    reading: InterpretedControl

    @property
    def difference(self) -> float | None:
        """The largest of the three axes; None unless both read it."""
        return None if self.before is None or self.now is None else max(_differences(self.before, self.now))


@dataclass
class RereadCounts:
    """Counts of one route or of all. `skipped`: decisions that were not read again, by reason."""

    both: int = 0
    only_before: int = 0
    only_now: int = 0
    neither: int = 0
    agreeing: int = 0  # of `both`
    differences: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # sums of `both`: steer, throttle, brake
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def read_again(self) -> int:
        return self.both + self.only_before + self.only_now + self.neither

    def add(self, one: RereadDecision) -> None:
        if one.before is None or one.now is None:
            kind = {(True, False): "only_before", (False, True): "only_now"}.get(
                (one.before is not None, one.now is not None), "neither"
            )
            setattr(self, kind, getattr(self, kind) + 1)
            return
        self.both += 1
        found = _differences(one.before, one.now)
        self.agreeing += max(found) <= TOLERANCE
        self.differences = [total + one for total, one in zip(self.differences, found, strict=True)]

    def mean_differences(self) -> list[float] | None:
        return [total / self.both for total in self.differences] if self.both else None


@dataclass
class ReadingComparison:
    """The comparison of a run's readings with those of another interpreter; memory does not grow with the run."""

    routes: dict[str, RereadCounts] = field(default_factory=dict)
    total: RereadCounts = field(default_factory=RereadCounts)
    only_before: list[RereadDecision] = field(default_factory=list)
    only_now: list[RereadDecision] = field(default_factory=list)
    largest: list[RereadDecision] = field(default_factory=list)  # whose controls differ most, of different words

    def add(self, route: str, one: RereadDecision) -> None:
        for counts in (self.routes[route], self.total):
            counts.add(one)
        if (difference := one.difference) is None:
            kept = self.only_before if one.before is not None else self.only_now
            if (one.before is None) != (one.now is None) and len(kept) < EXAMPLES:
                kept.append(one)
        elif difference > TOLERANCE:
            distinct: dict[tuple[tuple[str, str], ...], RereadDecision] = {}
            for known in sorted([*self.largest, one], key=lambda known: -(known.difference or 0.0)):
                distinct.setdefault(tuple(known.decision.words.items()), known)
            self.largest = list(distinct.values())[:EXAMPLES]


def reread(
    run: Path,
    files: list[Path],
    interpreter: Interpreter,
    profile: Profile,
    *,
    pictures: bool,
    advance: Callable[[int], object] = lambda n: None,
) -> ReadingComparison:
    """Read the decisions of `files` again. Nothing is written.

    `pictures`: the interpreter sees the front camera, so that only decisions with a saved frame are read again.
    `advance`: called with the number of decisions of each step.
    """
    found = ReadingComparison()
    for file in files:
        episode = file.name.partition(".jsonl")[0]
        route = episode.rpartition("_rep")[0]
        counts = found.routes.setdefault(route, RereadCounts())
        decisions = read_decisions(file)
        while chunk := list(itertools.islice(decisions, AT_ONCE)):
            readable = []
            for decision in chunk:
                if reason := _why_not(run, episode, decision, pictures):
                    counts.skipped[reason] += 1
                    found.total.skipped[reason] += 1
                else:
                    readable.append(decision)
            for one in _interpreted(run, episode, readable, interpreter, profile):
                found.add(route, one)
            advance(len(chunk))
    return found


def _why_not(run: Path, episode: str, decision: StoredDecision, pictures: bool) -> str | None:
    """Why a decision is not read again."""
    if decision.error is not None:
        return "the agent had failed"
    if not decision.words or decision.seen is None:
        return "no words"
    if decision.cut:
        return "a text was too long to be kept"
    if pictures and not _frame(run, episode, decision.tick).is_file():
        return "no saved frame"
    return None


def _interpreted(
    run: Path, episode: str, decisions: list[StoredDecision], interpreter: Interpreter, profile: Profile
) -> Iterator[RereadDecision]:
    items = [(_request(run, episode, one), Decision(one.words)) for one in decisions]
    readings = interpreter.interpret(items) if items else []
    for one, (request, _), reading in zip(decisions, items, readings, strict=True):
        speed = request.observation.speed
        yield RereadDecision(
            episode=episode,
            decision=one,
            before=_posted(one.requested_control if one.reading else None, profile, speed),
            now=_posted(reading.control, profile, speed),
            reading=reading,
        )


def _posted(control: Control | None, profile: Profile, speed: float) -> Control | None:
    """The control after post-processing; None without one, or for numbers that are not finite."""
    try:
        return None if control is None else profile.post(control.checked(), speed)
    except ValueError:
        return None


def _request(run: Path, episode: str, decision: StoredDecision) -> DecisionRequest:
    assert decision.seen is not None
    seen = decision.seen

    def image(camera: str) -> np.ndarray:
        file = _frame(run, episode, decision.tick, camera)
        try:
            with open_image(file) as opened:
                return np.asarray(opened.convert("RGB"))
        except OSError as exc:
            raise Ad2Error(f"{file}: no image ({exc})") from exc

    observation = Observation(
        tick=decision.tick,
        time_s=decision.time_s,
        speed=seen["speed"],
        command=seen["command"],
        target=seen["target"],
        images=image,
        speed_limit=seen["speed_limit"],
        route_offset=seen["route_offset"],
    )
    return DecisionRequest(episode, observation)


def _frame(run: Path, episode: str, tick: int, camera: str = "front") -> Path:
    return run / "frames" / episode / f"{camera}_{tick:05d}.jpg"


def _differences(a: Control, b: Control) -> list[float]:
    return [abs(a.steer - b.steer), abs(a.throttle - b.throttle), abs(a.brake - b.brake)]
