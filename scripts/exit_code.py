"""exit_code: run the work of a script; after an exception it ends as every command, see command_errors.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from lmms_eval_ad2.core.command_errors import run_command


def exit_code(work: Callable[[], None]) -> int:
    """0; 2 after a user's mistake; 1 after an unexpected exception, whose traceback is in a log."""

    def call() -> int:
        work()
        return 0

    return run_command(Path(sys.argv[0]).name, call)
