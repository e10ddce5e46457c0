"""What a planner writes down: one line of JSON for every cycle and every event, and the pictures if wanted."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path as File
from typing import Any

from lmms_eval_ad2.storage.journal import JournalFile

FILE = "planner.jsonl"
_MOST = 200  # lines of one reason; then every thousandth: who knocks at the door all day shall not fill the disk


class PlannerJournal:
    """`folder` None: nothing is written, things are counted all the same. Any thread."""

    def __init__(
        self, folder: File | None = None, frames: bool = False, tell: Callable[[str], None] = lambda line: None
    ) -> None:
        """`tell` hears every event as a line for a person."""
        self.counts: Counter[str] = Counter()
        self._folder, self._frames, self._tell = folder, frames, tell
        self._lock = threading.Lock()
        if folder:
            (folder / "frames" if frames else folder).mkdir(parents=True, exist_ok=True)

    def event(self, kind: str, reason: str = "", **more: Any) -> None:
        """Counted as "kind: reason", and written."""
        name = f"{kind}: {reason}" if reason else kind
        with self._lock:
            self.counts[name] += 1
            count = self.counts[name]
        if count <= _MOST or count % 1000 == 0:
            told = ", ".join(v for v in more.values() if isinstance(v, str) and v)
            line = f"{name} ({told})" if told else name
            with suppress(OSError, ValueError):  # a terminal that is gone keeps no stop from being sent
                self._tell("".join(c if c.isprintable() else "?" for c in line))
            self.write({"event": kind, **({"reason": reason} if reason else {}), **more, "count": count})

    def write(self, line: dict[str, Any]) -> None:
        """A disk that is full stops no vehicle from being driven, nor stopped: it is counted."""
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
