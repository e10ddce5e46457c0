"""Executes one motion at a time: repeats a command until its deadline, then zeros, from the only publishing thread."""

import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional

Actuation = Dict[str, Any]  # as clamp.py has it

DEADLINE = "deadline"


class MotionExecutorState(NamedTuple):
    """`ended`: when the motion ended, s on the monotonic clock; None while it moves and before the first motion."""

    seq: int = -1
    moving: bool = False
    ended: Optional[float] = None
    reason: str = "not begun"


class MotionExecutor:
    """Calls `publish(actuation, until)` from its own thread; after `until` (s, monotonic) the actuation is void.

    The thread always publishes `rate_hz` times a second, so that a lost zero is repeated. An exception of `publish` is
    passed to `failed` and does not end the thread. `changed` is called from it after each end of a motion.
    """

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
        self._new, self._closing = False, False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def state(self) -> MotionExecutorState:
        return self._state

    def start(self, actuation: Actuation, duration_s: float, seq: int = 0) -> None:
        """Start a motion now; replaces the current one."""
        with self._awake:
            if self._closing:
                return
            self._actuation, self._deadline = actuation, time.monotonic() + duration_s
            self._state = MotionExecutorState(seq, True, None, "")
            self._new = True
            self._awake.notify()

    def stop(self, reason: str) -> None:
        """End the current motion at once; no effect if there is none."""
        with self._awake:
            if self._state.moving:
                self._end(reason)
                self._new = True
                self._awake.notify()

    def close(self) -> None:
        """Publish zeros and end the thread; returns after the zeros are published."""
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
        reported: Optional[float] = None  # end of the motion for which `changed` was called last
        while not self._closing:
            with self._awake:
                now = time.monotonic()
                if self._state.moving and now >= self._deadline:
                    self._end(DEADLINE)
                    self._new = True
                state, fresh, self._new = self._state, self._new, False
                wanted, until = (self._actuation, self._deadline) if state.moving else (self._zero, now)
            if fresh or now >= due:
                self._send(wanted, until)
                due = max(now if fresh else due, now - self._period) + self._period
            if state.ended != reported:
                reported = state.ended
                if reported is not None:
                    self._changed()
            with self._awake:
                end = min(due, self._deadline) if self._state.moving else due
                if not self._new and not self._closing:
                    self._awake.wait(max(0.0, end - time.monotonic()))
        for _ in range(3):  # one zero may be lost
            self._send(self._zero, time.monotonic())
            time.sleep(self._period / 2)

    def _send(self, actuation: Actuation, until: float) -> None:
        try:
            self._publish(actuation, until)
        except Exception as exc:  # whatever the backend raises, this thread must continue
            self._failed(exc)
