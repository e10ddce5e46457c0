"""End a program that loops without end: a step of it that runs for STUCK_S seconds becomes an error with its line."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from closedloop_plugin.worlds.bridge.faults.place import of_packages

STUCK_S = 30.0  # of processor time: a busy machine must not fail a slow program
PERIOD_S = 1.0


class EndlessLoop(Exception):
    """Raised inside a step of a program that has run for STUCK_S seconds."""

    def __init__(self) -> None:
        super().__init__(f"this step of the program has computed for {STUCK_S:g} s; does its loop end, or `wait`?")


class _Watch(threading.Thread):
    """Looks at the main thread while a program may run."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="endless-loop watch")
        self.main = threading.main_thread().ident or 0
        self.active = threading.Event()
        self.entries = 0  # of the context: a behaviour's frame lives for many ticks
        self.stepping = False
        self._seen: tuple[int, FrameType] | None = None
        self._since = 0.0

    def run(self) -> None:
        while True:
            self.active.wait()
            time.sleep(PERIOD_S)
            frame = _users(sys._current_frames().get(self.main), self.stepping) if self.active.is_set() else None
            seen = None if frame is None else (self.entries, frame)
            if seen is None or self._seen is None or seen[0] != self._seen[0] or seen[1] is not self._seen[1]:
                self._seen, self._since = seen, time.process_time()
            elif time.process_time() - self._since > STUCK_S:
                self._seen = None
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.main), ctypes.py_object(EndlessLoop))


_WATCH: list[_Watch] = []


def _users(frame: FrameType | None, below_ours: bool) -> FrameType | None:
    """The innermost frame of a user's program; None if there is none, or, unless `below_ours`, if a program of Scenic
    or of our library runs in it: its model reads the map, which takes long."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith(".scenic") and not of_packages(file):
            return frame
        if file.endswith(".scenic") and not below_ours:
            return None
        frame = frame.f_back
    return None


@contextmanager
def no_endless_loop(stepping: bool = False) -> Iterator[None]:
    """Within the context, a user's frame that stays the innermost one for STUCK_S seconds gets EndlessLoop.

    stepping: one step of a simulation, in which a loop of a behaviour of Scenic's that ends at once counts, too. While
    a program is compiled, only its own code counts; each rejected sample begins new frames.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _WATCH or not _WATCH[0].is_alive():  # none yet, or this process was forked
        _WATCH[:] = [_Watch()]
        _WATCH[0].start()
    watch = _WATCH[0]
    watch.entries, watch.stepping = watch.entries + 1, stepping
    watch.active.set()
    try:
        yield
    finally:
        watch.active.clear()
