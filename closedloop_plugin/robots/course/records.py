"""What a course leaves on disk, and in which order it is written.

    DIR/run.json                          identity (compared at every start) and selection (what was asked for last)
    DIR/lock                              held by the one process that drives into DIR
    DIR/episodes.jsonl                    one SegmentRunRecord per line; the later of two for one run counts
    DIR/tracks/<segment>_run<k>.json      what was planned and driven, for the picture
    DIR/logs/<segment>_run<k>.jsonl       one line a cycle: what was seen, said, read and sent
    DIR/bags/<segment>_run<k>.bag         the same as a rosbag, where the library is installed
    DIR/pictures/<segment>_run<k>.png     top view

Of one run the other files are written first (temporary name, fsync, rename), then its line (append, fsync): a line
implies its files. A process killed in between leaves files without a line, which the next start replaces, or half a
line at the end (storage/journal.py). run.json and lock are as in a folder of `ad2 drive run` (storage/identity.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path as File
from typing import Any

from closedloop_plugin.robots.course.referee import AGAIN, SegmentEndReason
from lmms_eval_ad2.numbers import is_number
from lmms_eval_ad2.storage.identity import RESULTS
from lmms_eval_ad2.storage.journal import JournalFile, read

_NUMBERS = ("completion", "length_m", "driven_m", "time_s")


@dataclass(frozen=True)
class SegmentRunRecord:
    """One run of one segment."""

    segment: str
    run: int  # 1, 2, ...
    geometry: str
    end: str  # watch.End
    what: str  # in words: which obstacle, which limit
    completion: float  # percent of the planned path
    length_m: float
    driven_m: float
    time_s: float  # on the vehicle's clock
    robot: dict[str, Any]
    agent: dict[str, Any]
    interpreter: dict[str, Any] | None
    profile: str
    transport: str  # local | ros | vehicle
    seed: int
    ended: tuple[float, float, float]  # x, y, yaw
    counts: dict[str, int] = field(default_factory=dict)  # cycles, unparsed, agent_errors, refused frames ...
    timing: dict[str, float] = field(default_factory=dict)  # median seconds: thinking, cycle
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        return self.segment, self.run

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.segment}_run{self.run}"

    @property
    def completed(self) -> bool:
        return self.end == SegmentEndReason.COMPLETED

    @property
    def again(self) -> bool:
        """Ended by what is no fault of the driver's words."""
        return self.end in AGAIN

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> SegmentRunRecord:
        """ValueError or TypeError where the line is none."""
        raw = json.loads(line)
        if not isinstance(raw, dict):
            raise TypeError("expected an object")
        strange = set(raw) - {f.name for f in fields(cls)}
        if strange:
            raise ValueError(f"unknown field {min(strange)}")
        raw["ended"] = tuple(raw.get("ended") or ())
        record = cls(**raw)
        SegmentEndReason(record.end)
        for name in _NUMBERS:
            if not is_number(getattr(record, name)):
                raise TypeError(f"{name}: expected a number")
        if not isinstance(record.segment, str) or not isinstance(record.run, int):
            raise TypeError("segment, run: expected a text and a whole number")
        if not isinstance(record.agent, dict) or not isinstance(record.robot, dict):
            raise TypeError("agent, robot: expected objects")
        return record


class SegmentRunStore:
    """The lines of one folder, which the caller holds the lock of."""

    def __init__(self, folder: File) -> None:
        self.folder = folder
        self.file = folder / RESULTS
        self._records = {r.key: r for r in read_records(folder)}

    @property
    def records(self) -> list[SegmentRunRecord]:
        return list(self._records.values())

    def has(self, segment: str, run: int) -> SegmentRunRecord | None:
        return self._records.get((segment, run))

    def add(self, record: SegmentRunRecord) -> None:
        """One whole line, synced; what a failed write left of it is taken back."""
        with JournalFile(self.file) as journal:
            journal.append(record.to_json().encode())
        self._records[record.key] = record


def read_records(folder: File) -> list[SegmentRunRecord]:
    """All completed lines in their order. DataError names a broken one."""
    hint = "Remove the line, and the same command drives that run again"
    found = read(
        folder / RESULTS, lambda line: SegmentRunRecord.from_json(line.decode()), expected="a run's record", hint=hint
    )
    return [line.value for line in found]


def by_course(records: Sequence[SegmentRunRecord], order: Sequence[str]) -> list[SegmentRunRecord]:
    """In the course's order of segments, runs of a segment together."""
    place = {name: i for i, name in enumerate(order)}
    return sorted(records, key=lambda r: (place.get(r.segment, len(place)), r.segment, r.run))
