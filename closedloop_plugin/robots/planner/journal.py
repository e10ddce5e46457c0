"""The planner's log: one line of JSON for each cycle and event, and optionally the camera frames."""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lmms_eval_ad2.storage.journal import JournalFile

FILE = "planner.jsonl"
_LINES_MAX = 200  # per reason; then every thousandth, so that repeated connection attempts do not fill the disk
_QUEUE_LINES = 1000  # further lines are lost, and counted


class PlannerJournal:
    """Thread-safe log and counts. `folder` None: nothing is written, events are still counted.

    A thread of its own writes: a slow disk or terminal must not delay an order or a stop.
    """

    def __init__(
        self, folder: Path | None = None, frames: bool = False, show: Callable[[str], None] = lambda line: None
    ) -> None:
        """`show` is called with each event as one line of text."""
        self.counts: Counter[str] = Counter()
        self._folder, self._frames, self._show = folder, frames, show
        self._lock = threading.Lock()
        if folder:
            (folder / "frames" if frames else folder).mkdir(parents=True, exist_ok=True)
        self._lines: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(_QUEUE_LINES)
        self._writer = threading.Thread(target=self._write_lines, name="ad2-journal", daemon=True)
        self._writer.start()

    def event(self, kind: str, reason: str = "", **more: Any) -> None:
        """Count as "kind: reason" and write."""
        name = f"{kind}: {reason}" if reason else kind
        with self._lock:
            self.counts[name] += 1
            count = self.counts[name]
        if count <= _LINES_MAX or count % 1000 == 0:
            details = ", ".join(v for v in more.values() if isinstance(v, str) and v)
            line = {"event": kind, **({"reason": reason} if reason else {}), **more, "count": count}
            self._put(f"{name} ({details})" if details else name, line)

    def write(self, line: dict[str, Any]) -> None:
        """Append a line. A failure, such as a full disk, is only counted: driving and stopping continue."""
        self._put("", line)

    def picture(self, session: str, seq: int, jpeg: bytes) -> None:
        if self._folder is None or not self._frames:
            return
        try:
            (self._folder / "frames" / f"{session[:8]}-{seq:06d}.jpg").write_bytes(jpeg)
        except OSError:
            self.counts["pictures lost"] += 1

    def close(self) -> None:
        """Write the queued lines, for some seconds at most."""
        with suppress(queue.Full):
            self._lines.put_nowait(None)
            self._writer.join(5.0)

    def _put(self, shown: str, line: dict[str, Any]) -> None:
        try:
            self._lines.put_nowait((shown, {"at": round(time.time(), 3), **line}))
        except queue.Full:
            self.counts["log lines lost"] += 1

    def _write_lines(self) -> None:
        while (entry := self._lines.get()) is not None:
            shown, line = entry
            if shown:
                with suppress(OSError, ValueError):  # the terminal is closed
                    self._show("".join(c if c.isprintable() else "?" for c in shown))
            if self._folder is None:
                continue
            try:
                with JournalFile(self._folder / FILE, sync_s=math.inf) as file:
                    file.append(json.dumps(line).encode())
            except OSError:
                self.counts["log lines lost"] += 1
