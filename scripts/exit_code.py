"""exit_code: run the work of a script, with one line for a user's mistake or a file that cannot be read or written."""

from __future__ import annotations

import sys
from collections.abc import Callable

from lmms_eval_ad2.errors import Ad2Error


def exit_code(work: Callable[[], None]) -> int:
    """0, or 2 after an Ad2Error or OSError, whose message is printed."""
    try:
        work()
    except (Ad2Error, OSError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    return 0
