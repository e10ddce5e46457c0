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

STUCK_S = 60.0  # of processor time: a busy machine must not fail a slow program
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
        self._frame: FrameType | None = None
        self._since = 0.0

    def run(self) -> None:
        while True:
            self.active.wait()
            time.sleep(PERIOD_S)
            if not self.active.is_set():
                self._frame = None
                continue
            frame = _innermost(sys._current_frames().get(self.main))
            if frame is None or frame is not self._frame:
                self._frame, self._since = frame, time.process_time()
            elif time.process_time() - self._since > STUCK_S:
                self._frame = None
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.main), ctypes.py_object(EndlessLoop))


_WATCH: list[_Watch] = []


def _innermost(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of a program, if it is the user's; None if none runs, or one of Scenic or of our library."""
    while frame is not None and not frame.f_code.co_filename.endswith(".scenic"):
        frame = frame.f_back
    return None if frame is None or of_packages(frame.f_code.co_filename) else frame


@contextmanager
def no_endless_loop() -> Iterator[None]:
    """Within the context, one frame of a program that stays the innermost one for STUCK_S seconds gets EndlessLoop.

    Compiling a large map takes longer, but in a frame of Scenic's model; a rejected sample begins new frames.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _WATCH or not _WATCH[0].is_alive():  # none yet, or this process was forked
        _WATCH[:] = [_Watch()]
        _WATCH[0].start()
    _WATCH[0].active.set()
    try:
        yield
    finally:
        _WATCH[0].active.clear()
