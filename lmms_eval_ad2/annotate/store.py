"""DIR/actions.jsonl: every action of every reviewer, in the order in which they came. Only ever appended to.

Write order: the file is locked (flock), half a line that a killed process left is cut off, the new line goes out in one
write and is on the disk (fsync) before the page says so. Several servers may work on one folder: each reads on from
where it was, under the same lock, before it writes.

State is the replay of the file: (reviewer, record) -> field -> its last value.
"""

from __future__ import annotations

import datetime as dt
import errno
import fcntl
import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from lmms_eval_ad2.annotate.actions import LONGEST, Action, fault, read_action
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.files import cut_torn_line

_LONGEST_LINE = 16 * LONGEST
Fields = dict[str, Any]


class Actions:
    """The file at `path`, made with the first action. Raises Ad2Error/DataError for a file that is none of ours."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.states: defaultdict[tuple[str, str], Fields] = defaultdict(dict)
        self.count = 0
        self._offset = 0
        self._lock = threading.RLock()
        self.refresh()

    def fields(self, reviewer: str, record_id: str) -> Fields:
        """What this reviewer has done to this record, by field; empty where nothing."""
        return self.states.get((reviewer, record_id), {})

    def reviewers(self) -> list[str]:
        """All who have done anything, in alphabetical order."""
        return sorted({reviewer for reviewer, _ in self.states})

    def refresh(self) -> set[tuple[str, str]]:
        """Read what has been appended since; which (reviewer, record) it touched."""
        with self._lock:
            try:
                with self.path.open("rb") as handle:
                    handle.seek(self._offset)
                    return self._read_on(handle)
            except FileNotFoundError:
                return set()

    def append(self, reviewer: str, record_id: str, field: str, action: str, after: Any) -> Action:
        """Write one action; on return it survives the death of this process and a power cut.

        Raises Ad2Error for a value that may not stand in `field`, OSError where it could not be written (and then
        it has not happened).
        """
        if expected := fault(field, after):
            raise Ad2Error(f"{field}: expected {expected}")
        with self._lock, self._alone() as handle:
            before = self.fields(reviewer, record_id).get(field)
            now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
            done = Action(now, reviewer, record_id, field, action, before, after)
            line = done.to_json().encode("utf-8", "replace") + b"\n"
            if os.write(handle.fileno(), line) != len(line):
                raise OSError(errno.ENOSPC, "the line could not be written whole", str(self.path))
            os.fsync(handle.fileno())
            self._apply(read_action(json.loads(line), self.path, self.count + 1))
            self._offset += len(line)
        return done

    @contextmanager
    def _alone(self) -> Iterator[BinaryIO]:
        """The file, locked, ending in a whole line, all of it read."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b", buffering=0) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if (size := os.fstat(handle.fileno()).st_size) and os.pread(handle.fileno(), 1, size - 1) != b"\n":
                cut_torn_line(self.path)
            handle.seek(self._offset)
            self._read_on(handle)
            yield handle

    def _read_on(self, handle: BinaryIO) -> set[tuple[str, str]]:
        touched = set()
        while line := handle.readline(_LONGEST_LINE):
            if not line.endswith(b"\n"):
                if len(line) >= _LONGEST_LINE:
                    raise DataError(self.path, self.count + 1, "line", f"at most {_LONGEST_LINE} bytes")
                break  # half a line: of a writer at work, or of one that was killed
            action = self._parse(line)
            self._apply(action)
            self._offset += len(line)
            touched.add((action.reviewer, action.id))
        return touched

    def _parse(self, line: bytes) -> Action:
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise DataError(
                self.path, self.count + 1, "line", "one JSON object in UTF-8", line[:80],
                "Take this line out of the file; all others stay as they are.",
            ) from exc  # fmt: skip
        return read_action(data, self.path, self.count + 1)

    def _apply(self, action: Action) -> None:
        state = self.states[action.reviewer, action.id]
        if action.after is None:
            state.pop(action.field, None)
        else:
            state[action.field] = action.after
        self.count += 1
