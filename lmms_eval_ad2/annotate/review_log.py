"""The append-only log of review actions, DIR/actions.jsonl: one line of JSON each, and the checks of their values.

    {"time", "reviewer", "id": record, "field", "action", "before": value | null, "after": value | null}

Fields and their values (null: reset to untouched):

    KEY of a piece ("answer", "option.B", "step.2", "step.new-1a2b3c4d", "object.1")
                    {"verdict": "keep" | "change" | "delete" | "add" | null, "name", "question", "text"}
    score/KEY       a whole number of the folder's scale
    order           the keys of the steps or objects, in the new order
    mark            {"kind": "box" | "point" | "none", "coords": [[x_min, y_min, x_max, y_max], ...]} in pixels
    letter          the letter of the correct option
    choice          the letter that the reviewer chose as the answer, before seeing which one is marked as correct
    verdict         "correct" | "ambiguous" | "wrong": the multiple-choice question, see question_check.py
    complete        true | false: whether the annotation covers all that matters in the image
    note            free text

The state is the replay of the file: (reviewer, record) -> field -> last value. Lines of a file are checked like input
from the page: both are untrusted. Each line is on disk (fsync) before the page confirms it. Several servers may use one
folder: before writing, each reads the new lines under the file's lock (storage/journal.py).
"""

from __future__ import annotations

import datetime as dt
import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lmms_eval_ad2.annotate.record_review import KINDS, Verdict
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.storage.journal import JournalFile, parse_object, read

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
CheckVerdict = Literal["correct", "ambiguous", "wrong"]
CHECK_VERDICTS: tuple[CheckVerdict, ...] = get_args(CheckVerdict)
SCALES = {5: (1, 5), 10: (1, 10)}
LONGEST = 20_000  # characters of one text
LONGEST_NAME = 200
MOST = 100  # pieces or boxes of one record
_KEY = re.compile(rf"(?:question|answer|(?:{'|'.join(KINDS)})\.[A-Za-z0-9-]{{1,20}})")
_REVIEWER = re.compile(r"[^\W_][\w .@+-]{0,59}")
NAMES = ("time", "reviewer", "id", "field", "action", "before", "after")


@dataclass(frozen=True, slots=True)
class ReviewAction:
    """One line. `time` is UTC, ISO 8601."""

    time: str
    reviewer: str
    id: str
    field: str
    action: str
    before: Any
    after: Any

    def to_json(self) -> str:
        row = {name: getattr(self, name) for name in NAMES}
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def reviewer_name(text: object) -> str:
    """Return a normalised reviewer name, safe in files and tables; raises Ad2Error for an invalid one."""
    name = " ".join(str(text or "").split())
    if not _REVIEWER.fullmatch(name):
        raise Ad2Error(
            f"reviewer '{name[:80]}': use letters, digits, spaces and . _ @ + -, beginning with a letter or digit, "
            "at most 60"
        )
    return name


def read_action(data: Any, file: object, row: int) -> ReviewAction:
    """Return the action of a parsed line; raises DataError."""
    if not isinstance(data, Mapping) or set(data) != set(NAMES):
        raise DataError(file, row, "line", f"an object with {', '.join(NAMES)}", data)
    for name in NAMES[:5]:
        if not isinstance(data[name], str) or not data[name]:
            raise DataError(file, row, name, "a non-empty string", data[name])
    if not _REVIEWER.fullmatch(data["reviewer"]):
        raise DataError(file, row, "reviewer", "a reviewer's name", data["reviewer"])
    if expected := fault(data["field"], data["after"]):
        raise DataError(file, row, f"after ({data['field']})", expected, data["after"])
    return ReviewAction(**data)


def fault(field: str, value: Any) -> str | None:
    """Return what `field` should hold instead of `value`, or None if the value is valid."""
    if value is None:
        return None
    if field in _CHECKS:
        return _CHECKS[field](value)
    if field.startswith("score/") and _KEY.fullmatch(field[6:]):
        return None if type(value) is int and 1 <= value <= max(SCALES) else f"a whole number, 1 to {max(SCALES)}"
    return _piece(value) if _KEY.fullmatch(field) else "a known field"


def _piece(value: Any) -> str | None:
    if not isinstance(value, Mapping) or set(value) != {"verdict", "name", "question", "text"}:
        return "an object with verdict, name, question and text"
    if value["verdict"] is not None and value["verdict"] not in VERDICTS:
        return f"a verdict of {', '.join(VERDICTS)}"
    for name, most in (("name", LONGEST_NAME), ("question", LONGEST), ("text", LONGEST)):
        if (wrong := _string(value[name], most)) is not None:
            return f"{wrong} as {name}"
    return None


def _string(value: Any, most: int) -> str | None:
    return None if isinstance(value, str) and len(value) <= most else f"a text of at most {most:,} characters"


def _order(value: Any) -> str | None:
    good = (
        isinstance(value, list) and len(value) <= MOST and all(isinstance(k, str) and _KEY.fullmatch(k) for k in value)
    )
    return None if good else "a list of keys"


def _mark(value: Any) -> str | None:
    expected = "kind (box, point, none) and coords: lists of 4 or 2 finite numbers"
    if not isinstance(value, Mapping) or set(value) != {"kind", "coords"} or not isinstance(value["coords"], list):
        return expected
    length = {"box": 4, "point": 2, "none": 0}.get(str(value["kind"]))
    if length is None or len(value["coords"]) > MOST or bool(length) != bool(value["coords"]):
        return expected
    for c in value["coords"]:
        if not isinstance(c, list) or len(c) != length or not all(is_number(value) and abs(value) < 1e6 for value in c):
            return expected
        if length == 4 and not (c[0] < c[2] and c[1] < c[3]):
            return "boxes with x_min < x_max and y_min < y_max"
    return None


def _letter(value: Any) -> str | None:
    return None if isinstance(value, str) and re.fullmatch("[A-Z]", value) else "one letter"


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "order": _order,
    "mark": _mark,
    "letter": _letter,
    "choice": _letter,
    "verdict": lambda v: None if v in CHECK_VERDICTS else f"one of {', '.join(CHECK_VERDICTS)}",
    "complete": lambda v: None if isinstance(v, bool) else "true or false",
    "note": lambda v: _string(v, LONGEST),
}


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

        def parse(line: bytes) -> ReviewAction:
            return read_action(parse_object(line), self.path, self.count + 1)

        touched = set()
        with self._lock:
            lines = read(self.path, parse, hint=_HINT, start=self._offset, before=self.count, longest=_LONGEST_LINE)
            for line in lines:
                action = line.value
                touched.add((action.reviewer, action.id))
                state = self.states[action.reviewer, action.id]
                if action.after is None:
                    state.pop(action.field, None)
                else:
                    state[action.field] = action.after
                self._offset, self.count = line.end, self.count + 1
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
