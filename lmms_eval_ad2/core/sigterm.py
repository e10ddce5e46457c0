"""SIGTERM as an interrupt, so that a command that is ended from outside cleans up as after Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any


class SigtermReceived(KeyboardInterrupt):
    """SIGTERM was received."""


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Raise SigtermReceived on SIGTERM; outside of the main thread, which alone may set handlers, without effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def end(number: int, frame: Any) -> None:
        if os.getpid() != owner:  # a forked child, which must not run the cleanup of its parent
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        raise SigtermReceived

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
