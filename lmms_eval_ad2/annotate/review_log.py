"""The append-only log of review actions, DIR/actions.jsonl.

Each line is on disk (fsync) before the page confirms it. Several servers may use one folder: before writing, each reads
the new lines under the file's lock (storage/journal.py).

The state is the replay of the file: (reviewer, record) -> field -> last value.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate.actions import LONGEST, ReviewAction, fault, read_action
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.journal import JournalFile, parse_object, read

_LONGEST_LINE = 16 * LONGEST
_HINT = "Remove this line from the file; all others stay valid."
Fields = dict[str, Any]


class ReviewLog:
    """The log at `path`, created with the first action. Raises Ad2Error or DataError for an invalid file."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.states: defaultdict[tuple[str, str], Fields] = defaultdict(dict)
        self.count = 0
        self._offset = 0
        self._lock = threading.RLock()
        self.refresh()

    def fields(self, reviewer: str, record_id: str) -> Fields:
        """Return the last values of this reviewer for this record, by field."""
        return self.states.get((reviewer, record_id), {})

    def reviewers(self) -> list[str]:
        """Return the names of all reviewers with actions, sorted."""
        return sorted({reviewer for reviewer, _ in self.states})

    def refresh(self) -> set[tuple[str, str]]:
        """Read the lines appended since the last call; return the (reviewer, record) pairs affected."""
        touched = set()
        with self._lock:
            lines = read(
                self.path, self._parse, hint=_HINT, start=self._offset, before=self.count, longest=_LONGEST_LINE
            )
            for line in lines:
                self._apply(line.value)
                self._offset = line.end
                touched.add((line.value.reviewer, line.value.id))
        return touched

    def append(self, reviewer: str, record_id: str, field: str, action: str, after: Any) -> ReviewAction:
        """Write one action; on return it is on disk (fsync).

        Raises Ad2Error for an invalid value of `field`, OSError if it could not be written (it then has no effect).
        """
        if expected := fault(field, after):
            raise Ad2Error(f"{field}: expected {expected}")
        with self._lock, JournalFile(self.path, shared=True) as journal, journal.exclusive():
            self.refresh()
            before = self.fields(reviewer, record_id).get(field)
            now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
            done = ReviewAction(
                time=now, reviewer=reviewer, id=record_id, field=field, action=action, before=before, after=after
            )
            journal.append(done.to_json().encode("utf-8", "replace"))
            self.refresh()
        return done

    def _parse(self, line: bytes) -> ReviewAction:
        return read_action(parse_object(line), self.path, self.count + 1)

    def _apply(self, action: ReviewAction) -> None:
        state = self.states[action.reviewer, action.id]
        if action.after is None:
            state.pop(action.field, None)
        else:
            state[action.field] = action.after
        self.count += 1
