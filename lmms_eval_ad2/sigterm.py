"""SIGTERM handling for commands that run until they are stopped."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, as Ctrl-C does, so that both lead to the same cleanup."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
