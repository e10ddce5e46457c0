"""MotionExecutor: commands end at their deadline, and no error ends its thread."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.robots.onboard import PATIENCE_S, until

from closedloop_plugin.robots.onboard.motion import DEADLINE, MotionExecutor

pytest_plugins = ("support.robots.real_time",)
RENEWED = {"wheels": lambda folder, found: turning()}
ZERO, GO, TURN = {"word": "stop"}, {"word": "forward"}, {"word": "left"}


class Wheels:
    def __init__(self) -> None:
        self.sent: list[tuple[float, dict[str, Any], float]] = []
        self.ended: list[float] = []
        self.failed: list[Exception] = []
        self.broken = False
        self.motion = MotionExecutor(
            self.publish, ZERO, 100.0, self.failed.append, lambda: self.ended.append(time.monotonic())
        )

    def publish(self, actuation: dict[str, Any], until: float) -> None:
        self.sent.append((time.monotonic(), actuation, until))
        if self.broken:
            raise OSError("no wheels")

    def words(self, since: int = 0) -> list[str]:
        return [actuation["word"] for _, actuation, _ in self.sent[since:]]


@contextmanager
def turning() -> Iterator[Wheels]:
    instance = Wheels()
    yield instance
    instance.motion.close()


@pytest.fixture
def wheels() -> Iterator[Wheels]:
    with turning() as instance:
        yield instance


def test_zeros_are_published_before_the_first_motion(wheels: Wheels) -> None:
    until(lambda: len(wheels.sent) > 5)
    assert set(wheels.words()) == {"stop"}
    assert wheels.motion.state.seq == -1 and not wheels.motion.state.moving and wheels.motion.state.ended is None
    assert not wheels.ended


def test_a_motion_is_repeated_until_its_deadline_and_followed_by_zeros(wheels: Wheels) -> None:
    begun = time.monotonic()
    wheels.motion.start(GO, 0.15, 7)
    assert wheels.motion.state[:2] == (7, True)
    until(lambda: wheels.ended)
    state = wheels.motion.state
    assert state.moving is False and state.reason == DEADLINE and state.seq == 7
    assert state.ended is not None and state.ended >= begun + 0.15
    before = len(wheels.sent)
    until(lambda: len(wheels.sent) > before + 3)
    words = [w for w in wheels.words() if w != "stop"]
    assert len(words) >= 3 and set(words) == {"forward"}
    last = max(i for i, w in enumerate(wheels.words()) if w == "forward")
    assert set(wheels.words(last + 1)) == {"stop"}
    assert all(begun < until_at <= state.ended for _, a, until_at in wheels.sent if a == GO)


def test_a_stop_ends_the_motion_and_records_the_reason(wheels: Wheels) -> None:
    wheels.motion.start(GO, PATIENCE_S, 1)
    until(lambda: "forward" in wheels.words())
    wheels.motion.stop("link lost")
    assert wheels.motion.state.reason == "link lost" and not wheels.motion.state.moving
    until(lambda: wheels.ended)
    wheels.motion.stop("again")
    assert wheels.motion.state.reason == "link lost", "nothing moved any more"
    assert len(wheels.ended) == 1


def test_a_new_motion_replaces_the_old_one(wheels: Wheels) -> None:
    wheels.motion.start(GO, PATIENCE_S, 1)
    until(lambda: "forward" in wheels.words())
    wheels.motion.start(TURN, PATIENCE_S, 2)
    until(lambda: "left" in wheels.words())
    first = wheels.words().index("left")
    until(lambda: len(wheels.sent) > first + 4)
    assert set(wheels.words(first)) == {"left"} and wheels.motion.state.seq == 2


def test_a_failing_output_is_reported_and_retried(wheels: Wheels) -> None:
    wheels.broken = True
    wheels.motion.start(GO, 0.05, 1)
    until(lambda: len(wheels.failed) > 3 and wheels.ended)
    wheels.broken = False
    before = len(wheels.sent)
    until(lambda: len(wheels.sent) > before + 2)
    assert set(wheels.words(before + 1)) == {"stop"}


def test_closing_publishes_zeros_and_refuses_new_motions() -> None:
    wheels = Wheels()
    wheels.motion.start(GO, PATIENCE_S, 1)
    until(lambda: "forward" in wheels.words())
    wheels.motion.close()
    assert wheels.words()[-3:] == ["stop"] * 3 and wheels.motion.state.reason == "closed"
    sent = len(wheels.sent)
    wheels.motion.start(GO, PATIENCE_S, 2)
    assert not wheels.motion.state.moving and len(wheels.sent) == sent
