"""Functions for `say` of a training. Its processes import this module to call them."""

from __future__ import annotations

import os
import signal


def quiet(text: str) -> None:
    """Report nothing."""


def die(text: str) -> None:
    """End the process that reports a step, without any clean-up."""
    if text.startswith("step"):
        os.kill(os.getpid(), signal.SIGKILL)
