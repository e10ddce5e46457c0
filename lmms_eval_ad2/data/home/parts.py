"""Parts of a dataset: parquet files of up to 2,000 records, columns id, benchmark, task, subtask, form, record."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home.manifest import DatasetPart
from lmms_eval_ad2.data.releases import parquet
from lmms_eval_ad2.storage.files import file_sha256

COLUMNS = ("id", "benchmark", "task", "subtask", "form", "record")
PART_SIZE = 2000
PART_CHARACTERS = 32 << 20  # of records as JSON; bounds the memory of an import of large records


class PartRow(NamedTuple):
    """A record as stored: the columns, `record` as JSON."""

    id: str
    benchmark: str
    task: str
    subtask: str
    form: str
    record: str


def write_part(folder: Path, index: int, rows: Sequence[PartRow]) -> DatasetPart:
    """Write records as part `index`; durable on return."""
    path = folder / f"records-{index:05d}.parquet"
    parquet.write_rows(path, {name: [getattr(row, name) for row in rows] for name in COLUMNS})
    parquet.release_memory()
    tally = RecordTally()
    for row in rows:
        tally.add(row.id, row.task, row.subtask, row.form, row.record)
    return DatasetPart(path.name, len(rows), file_sha256(path), tally.sha256)


def read_part(path: Path) -> Iterator[dict[str, str]]:
    return parquet.read_rows(path, COLUMNS, trusted=True)


def read_records(paths: Iterable[Path]) -> Iterator[Record]:
    """The records of parts. Raises Ad2Error for a damaged one."""
    for path in paths:
        for row in parquet.read_rows(path, ("record",), trusted=True):
            try:
                record = Record.from_json(row["record"])
            except (ValueError, KeyError, TypeError) as exc:
                raise Ad2Error(f"{path} is damaged: a record cannot be read ({exc}); see: ad2 data verify") from exc
            yield record


class RecordTally:
    """Counts, content hash and ids of records, added in order. An id is stored as 8 bytes of its hash."""

    def __init__(self) -> None:
        self.n = 0
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in ("task", "subtask", "form")}
        self._digest = hashlib.sha256()
        self._ids: set[int] = set()

    def seen(self, record_id: str) -> bool:
        return _short_hash(record_id) in self._ids

    def add(self, record_id: str, task: str, subtask: str, form: str, text: str) -> None:
        self.n += 1
        self._ids.add(_short_hash(record_id))
        for name, value in (("task", task), ("subtask", subtask), ("form", form)):
            self.counts[name][value] += 1
        self._digest.update(text.encode("utf-8") + b"\n")

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def sorted_counts(self) -> dict[str, dict[str, int]]:
        return {name: dict(sorted(counter.items())) for name, counter in self.counts.items()}


def _short_hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "big")
