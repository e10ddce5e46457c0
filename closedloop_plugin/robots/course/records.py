"""The output folder of a course, and the order in which it is written.

    DIR/run.json                          identity (compared at every start) and selection (requested last)
    DIR/lock                              held by the process that writes to DIR
    DIR/episodes.jsonl                    one SegmentRunRecord per line; of two lines for one run the later counts
    DIR/tracks/<segment>_run<k>.json      planned and driven path, for the picture
    DIR/logs/<segment>_run<k>.jsonl       one line per cycle: observation, reply, control, actuation
    DIR/pictures/<segment>_run<k>.png     top view

For each run the other files are written first (temporary name, fsync, rename), then its line (append, fsync): a line
implies its files. A process killed in between leaves files without a line, which the next start replaces, or a partial
last line (storage/journal.py). run.json and lock are as in a folder of `ad2 drive run` (storage/identity.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, TypeAdapter, ValidationError

from closedloop_plugin.robots.course.referee import RETRYABLE, SegmentEndReason
from lmms_eval_ad2.storage.identity import RESULTS
from lmms_eval_ad2.storage.journal import JournalFile, read
from lmms_eval_ad2.storage.untrusted_json import parse

SIMULATED = ("local", "ros")  # transports in records of versions before 0.13; "vehicle" was a real one


@dataclass(frozen=True)
class SegmentRunRecord:
    """One run of one segment."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"strict": True, "extra": "forbid", "allow_inf_nan": False}

    segment: str
    run: int  # 1, 2, ...
    geometry: str
    end: str  # SegmentEndReason
    what: str  # details, such as the obstacle or the limit
    completion: float  # percent of the planned path
    length_m: float
    driven_m: float
    time_s: float  # on the vehicle's clock
    robot: dict[str, Any]
    agent: dict[str, Any]
    interpreter: dict[str, Any] | None
    profile: str
    seed: int
    ended: tuple[float, float, float]  # x, y, yaw
    counts: dict[str, Annotated[int, Field(ge=0)]] = field(
        default_factory=dict
    )  # cycles, unparsed, agent_errors, refused frames ...
    timing: dict[str, float] = field(default_factory=dict)  # median seconds: thinking, cycle
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        return self.segment, self.run

    @property
    def name(self) -> str:
        """Base name of its files."""
        return f"{self.segment}_run{self.run}"

    @property
    def completed(self) -> bool:
        return self.end == SegmentEndReason.COMPLETED

    @property
    def retryable(self) -> bool:
        """Ended for a reason other than the driving; driven again with --retry-failed."""
        return self.end in RETRYABLE

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> SegmentRunRecord:
        """Parse a line. ValueError with the first field that is missing, unknown or of another type."""
        raw = parse(line)
        if isinstance(raw, dict) and raw.get("transport") in SIMULATED:
            del raw["transport"]
        try:
            record = _CHECKER.validate_json(json.dumps(raw))
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            raise ValueError(f"field {'.'.join(map(str, first['loc']))!r}: {first['msg']}") from exc
        SegmentEndReason(record.end)
        return record


_CHECKER = TypeAdapter(SegmentRunRecord)


class SegmentRunStore:
    """The records of one folder. The caller holds its lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / RESULTS
        self._records = {r.key: r for r in read_records(folder)}

    @property
    def records(self) -> list[SegmentRunRecord]:
        return list(self._records.values())

    def get(self, segment: str, run: int) -> SegmentRunRecord | None:
        return self._records.get((segment, run))

    def add(self, record: SegmentRunRecord) -> None:
        """Append one line and sync it; a failed write is undone."""
        with JournalFile(self.file) as journal:
            journal.append(record.to_json().encode())
        self._records[record.key] = record


def read_records(folder: Path) -> list[SegmentRunRecord]:
    """All complete lines in order. DataError names an invalid one."""
    hint = "Remove the line, and the same command drives that run again"
    found = read(
        folder / RESULTS, lambda line: SegmentRunRecord.from_json(line.decode()), expected="a run's record", hint=hint
    )
    return [line.value for line in found]


def by_course(records: Sequence[SegmentRunRecord], order: Sequence[str]) -> list[SegmentRunRecord]:
    """Sort by the course's order of segments, keeping the runs of a segment together."""
    place = {name: i for i, name in enumerate(order)}
    return sorted(records, key=lambda r: (place.get(r.segment, len(place)), r.segment, r.run))
