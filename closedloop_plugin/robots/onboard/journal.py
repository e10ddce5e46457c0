"""The log of the on-board processes: JSON lines on stderr, {"at": s on the monotonic clock, "who", "event", ...}.

A separate thread writes, so that a log reader that hangs or has ended never delays commands to the wheels.
"""

import collections
import json
import os
import queue
import threading
import time
from typing import Any, Callable, Counter, Dict, Optional

REPEAT_S = 1.0  # each refusal is counted; one reason is logged at most this often
_QUEUE_LINES = 1000  # further lines are dropped, and their number is logged


class OnboardJournal:
    """Writes log lines. `counts`: reason -> number of refusals or failures since the start."""

    def __init__(self, who: str, write: Callable[[str], object] = lambda line: os.write(2, line.encode())) -> None:
        self.counts: Counter[str] = collections.Counter()
        self._who, self._out = who, write  # not sys.stderr: a hanging thread that holds its lock would block the exit
        self._lines: queue.Queue[Optional[str]] = queue.Queue(_QUEUE_LINES)
        self._logged_at: Dict[str, float] = {}  # reason -> time of its last line
        self._dropped = 0
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def log(self, event: str, **fields: Any) -> None:
        entry = dict({"at": round(time.monotonic(), 4), "who": self._who, "event": event}, **fields)
        if self._dropped:
            entry["lines_dropped"] = self._dropped
        try:
            self._lines.put_nowait(json.dumps(entry, default=str))
            self._dropped = 0
        except queue.Full:
            self._dropped += 1

    def count(self, reason: str, detail: str = "") -> None:
        """Count a refusal or failure, and log it at most every REPEAT_S."""
        self.counts[reason] += 1
        now = time.monotonic()
        if now - self._logged_at.get(reason, -REPEAT_S) >= REPEAT_S:
            self._logged_at[reason] = now
            self.log("refused", reason=reason, detail=detail[:200], times=self.counts[reason])

    def close(self) -> None:
        """Write the queued lines, for one second at most."""
        self.log("counts", **{"counts": dict(self.counts)})
        try:
            self._lines.put_nowait(None)
        except queue.Full:
            return
        self._writer.join(1.0)

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            if line is None:
                return
            try:
                self._out(line + "\n")
            except (OSError, ValueError):  # the reader has ended
                self._dropped += 1
