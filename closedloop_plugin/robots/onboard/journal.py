"""What happens on board, as JSON lines on stderr: {"at": s on the monotonic clock, "who", "event", ...}.

A thread of its own writes: a reader of the log that hangs, or is gone, must not hold up the wheels.
"""

import collections
import json
import os
import queue
import threading
import time
from typing import Any, Callable, Counter, Dict, Optional

AGAIN_S = 1.0  # the same refusal is counted each time and written at most this often
_WAITING = 1000  # lines; more are dropped, and their number is told


class OnboardJournal:
    """`counts`: how often each thing was refused or failed, since the start."""

    def __init__(self, who: str, write: Callable[[str], object] = lambda line: os.write(2, line.encode())) -> None:
        self.counts: Counter[str] = collections.Counter()
        self._who, self._out = who, write  # not sys.stderr: its lock, held by a thread that hangs, aborts the exit
        self._lines: queue.Queue[Optional[str]] = queue.Queue(_WAITING)
        self._told: Dict[str, float] = {}
        self._dropped = 0
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def say(self, event: str, **fields: Any) -> None:
        entry = dict({"at": round(time.monotonic(), 4), "who": self._who, "event": event}, **fields)
        if self._dropped:
            entry["lines_dropped"] = self._dropped
        try:
            self._lines.put_nowait(json.dumps(entry, default=str))
            self._dropped = 0
        except queue.Full:
            self._dropped += 1

    def count(self, reason: str, detail: str = "") -> None:
        """Something that was refused or went wrong."""
        self.counts[reason] += 1
        now = time.monotonic()
        if now - self._told.get(reason, -AGAIN_S) >= AGAIN_S:
            self._told[reason] = now
            self.say("refused", reason=reason, detail=detail[:200], times=self.counts[reason])

    def close(self) -> None:
        """Writes what waits, for a second at most."""
        self.say("counts", **{"counts": dict(self.counts)})
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
            except (OSError, ValueError):  # nobody reads it any more
                self._dropped += 1
