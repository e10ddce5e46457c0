"""The planner's log: one line of JSON for each cycle and event, and optionally the camera frames."""

from __future__ import annotations

import json
import math
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


class PlannerJournal:
    """Thread-safe log and counts. `folder` None: nothing is written, events are still counted."""

    def __init__(
        self, folder: Path | None = None, frames: bool = False, show: Callable[[str], None] = lambda line: None
    ) -> None:
        """`show` is called with each event as one line of text."""
        self.counts: Counter[str] = Counter()
        self._folder, self._frames, self._show = folder, frames, show
        self._lock = threading.Lock()
        if folder:
            (folder / "frames" if frames else folder).mkdir(parents=True, exist_ok=True)

    def event(self, kind: str, reason: str = "", **more: Any) -> None:
        """Count as "kind: reason" and write."""
        name = f"{kind}: {reason}" if reason else kind
        with self._lock:
            self.counts[name] += 1
            count = self.counts[name]
        if count <= _LINES_MAX or count % 1000 == 0:
            details = ", ".join(v for v in more.values() if isinstance(v, str) and v)
            line = f"{name} ({details})" if details else name
            with suppress(OSError, ValueError):  # a closed terminal must not prevent a stop from being sent
                self._show("".join(c if c.isprintable() else "?" for c in line))
            self.write({"event": kind, **({"reason": reason} if reason else {}), **more, "count": count})

    def write(self, line: dict[str, Any]) -> None:
        """Append a line. A failure, such as a full disk, is only counted: driving and stopping continue."""
        if self._folder is None:
            return
        try:
            text = json.dumps({"at": round(time.time(), 3), **line})
            with self._lock, JournalFile(self._folder / FILE, sync_s=math.inf) as file:
                file.append(text.encode())
        except OSError:
            self.counts["log lines lost"] += 1

    def picture(self, session: str, seq: int, jpeg: bytes) -> None:
        if self._folder is None or not self._frames:
            return
        try:
            (self._folder / "frames" / f"{session[:8]}-{seq:06d}.jpg").write_bytes(jpeg)
        except OSError:
            self.counts["pictures lost"] += 1
