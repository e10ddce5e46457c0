"""One motion at a time: a command repeated until its deadline, then zeros, by one thread that alone owns the output."""

import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional

Actuation = Dict[str, Any]  # as clamp.py has it

DEADLINE = "deadline"


class MotionExecutorState(NamedTuple):
    """`ended`: when zeros were asked for, s on the monotonic clock; None while it moves, and before the first."""

    seq: int = -1
    moving: bool = False
    ended: Optional[float] = None
    reason: str = "not begun"


class MotionExecutor:
    """`publish(actuation, until)`: `until` is the moment after which this must not be obeyed any more.

    The thread publishes `rate_hz` times a second, always: a base that lost a zero gets another. It dies of nothing that
    `publish` raises; `failed` hears of it. `changed` is called after each end of a motion, from that thread."""

    def __init__(
        self,
        publish: Callable[[Actuation, float], object],
        zero: Actuation,
        rate_hz: float = 20.0,
        failed: Callable[[Exception], None] = lambda exc: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._publish, self._zero, self._period = publish, zero, 1.0 / rate_hz
        self._failed, self._changed = failed, changed
        self._state = MotionExecutorState()
        self._actuation, self._deadline = zero, 0.0
        self._awake = threading.Condition()
        self._news, self._closing = False, False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def state(self) -> MotionExecutorState:
        return self._state

    def start(self, actuation: Actuation, duration_s: float, seq: int = 0) -> None:
        """Begin now; whatever ran before is replaced."""
        with self._awake:
            if self._closing:
                return
            self._actuation, self._deadline = actuation, time.monotonic() + duration_s
            self._state = MotionExecutorState(seq, True, None, "")
            self._news = True
            self._awake.notify()

    def stop(self, reason: str) -> None:
        """Zeros at once. Nothing happens where nothing moves."""
        with self._awake:
            if self._state.moving:
                self._end(reason)
                self._news = True
                self._awake.notify()

    def close(self) -> None:
        """Zeros, then no more. Returns once they have left."""
        with self._awake:
            if self._state.moving:
                self._end("closed")
            self._closing = True
            self._awake.notify()
        self._thread.join(2.0)

    def _end(self, reason: str) -> None:
        self._state = self._state._replace(moving=False, ended=time.monotonic(), reason=reason)

    def _run(self) -> None:
        due = 0.0
        told: Optional[float] = None
        while not self._closing:
            with self._awake:
                now = time.monotonic()
                if self._state.moving and now >= self._deadline:
                    self._end(DEADLINE)
                    self._news = True
                state, fresh, self._news = self._state, self._news, False
                wanted, until = (self._actuation, self._deadline) if state.moving else (self._zero, now)
            if fresh or now >= due:
                self._send(wanted, until)
                due = max(now if fresh else due, now - self._period) + self._period
            if state.ended != told:
                told = state.ended
                if told is not None:
                    self._changed()
            with self._awake:
                end = min(due, self._deadline) if self._state.moving else due
                if not self._news and not self._closing:
                    self._awake.wait(max(0.0, end - time.monotonic()))
        for _ in range(3):  # a zero may be lost; three in a row hardly
            self._send(self._zero, time.monotonic())
            time.sleep(self._period / 2)

    def _send(self, actuation: Actuation, until: float) -> None:
        try:
            self._publish(actuation, until)
        except Exception as exc:  # whatever the output is made of: this thread must live
            self._failed(exc)
