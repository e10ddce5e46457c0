"""Processes that must not outlive the process that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PDEATHSIG = 1  # option of prctl: the signal for this process when its parent dies


def exit_with_parent(parent: int) -> None:
    """Linux: SIGKILL to this process when its parent dies. Elsewhere no effect, but for a parent that is dead already.

    parent: process id of the expected parent. Called in the child; holds beyond exec.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before prctl
        os._exit(1)
