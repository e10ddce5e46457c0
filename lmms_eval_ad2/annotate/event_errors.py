"""What a page prints about events that fail. Gradio and uvicorn print a traceback for each, also for invalid ones.

An event that Gradio refuses (unknown, with other values than its inputs) gives one line, an error of our own code its
traceback; each place in the code is reported once.
"""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lmms_eval_ad2.core.printed import show

_OURS = Path(__file__).resolve().parents[1]


class EventErrors(logging.Filter):
    """The reported places. As a filter of a logger, it replaces the records of exceptions."""

    def __init__(self) -> None:
        super().__init__()
        self._log = sys.stderr
        self._reported: set[tuple[str, int | None]] = set()

    def install(self, *modules: Any) -> None:
        """Replace what uvicorn and these modules, which call traceback.print_exc, print in this process."""
        logging.getLogger("uvicorn.error").addFilter(self)
        for module in modules:
            module.traceback = SimpleNamespace(**{**vars(traceback), "print_exc": self.print_exc})

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.exc_info or record.exc_info[1] is None:
            return True
        self.report(record.exc_info[1])
        return False

    def print_exc(self) -> None:
        """As traceback.print_exc: called while an exception is handled."""
        if exc := sys.exc_info()[1]:
            self.report(exc)

    def report(self, exc: BaseException) -> None:
        frames = traceback.extract_tb(exc.__traceback__)
        place = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
        if place in self._reported:
            return
        self._reported.add(place)
        if _is_ours(frames):
            show("".join(traceback.format_exception(exc)), file=self._log, flush=True)
        else:
            text = " ".join(str(exc).split())[:200]
            show(f"an invalid event was refused: {type(exc).__name__}: {text}", file=self._log, flush=True)


def _is_ours(frames: traceback.StackSummary) -> bool:
    """Whether the innermost frame of a package, below Gradio, is one of ours; the standard library's do not count."""
    for frame in reversed(frames):
        file = Path(frame.filename)
        if file.is_relative_to(_OURS):
            return True
        if "site-packages" in file.parts:
            return False
    return False
