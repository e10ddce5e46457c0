"""What a run leaves on disk, and in which order it is written.

    DIR/run.json, lock    identity and selection, see storage/identity.py; one process at a time
    DIR/episodes.jsonl    one EpisodeRecord a line; the only truth; of two lines for one episode the later counts
    DIR/metric_info/<route>_rep<k>.json, DIR/tracks/<route>_rep<k>.json
    DIR/results.json      the official result file, made anew from episodes.jsonl
    DIR/logs/worker<k>.log  what a world process printed; its end is the reason of a world that died

Of one episode: metric_info and track first (temporary name, fsync, rename), then its line (append, fsync): a line
implies its files. A process killed in between leaves files without a line (the episode is run again and they are
replaced) or half a line at the end (see storage/journal.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.episode import EpisodeResult
from closedloop_plugin.scoring.official import from_episode
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.numbers import is_number
from lmms_eval_ad2.storage.files import DISK_FULL, atomic_write
from lmms_eval_ad2.storage.identity import RESULTS, check_identity, write_run
from lmms_eval_ad2.storage.journal import JournalFile, read
from lmms_eval_ad2.storage.lock import lock_folder


class EpisodeStore:
    """One run's folder, opened for writing. Use as a context manager: it holds the folder's lock."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], selection: Mapping[str, Any]) -> None:
        self.folder = folder
        self.lines = folder / RESULTS
        self._records: dict[tuple[str, int], EpisodeRecord] = {}
        with disk_full(folder, lambda: self.count), ExitStack() as undo:
            self._lock = undo.enter_context(lock_folder(folder))
            check_identity(folder, identity)
            self._records = {(r.route_id, r.repetition): r for r in read_records(folder)}
            write_run(folder, identity, selection)
            self._journal = JournalFile(self.lines)
            undo.pop_all()

    @property
    def count(self) -> int:
        return len(self._records)

    @property
    def records(self) -> list[EpisodeRecord]:
        """One an episode, by route and repetition."""
        return sorted(self._records.values(), key=lambda r: (r.route_id, r.repetition))

    def has(self, route_id: str, repetition: int) -> EpisodeRecord | None:
        return self._records.get((route_id, repetition))

    def save(self, result: EpisodeResult) -> None:
        """The episode's files, then its line. On a full disk: one Ad2Error, and nothing of before is touched."""
        record = result.record
        name = f"{record.route_id}_rep{record.repetition}.json"
        with disk_full(self.folder, lambda: self.count):
            for kind, value in (("metric_info", result.metric_info), ("tracks", result.track)):
                if value is not None:
                    _write_json(self.folder / kind / name, value)
            self._journal.append(record.to_json().encode())
        self._records[record.route_id, record.repetition] = record

    def write_results(self, official: Any) -> None:
        with disk_full(self.folder, lambda: self.count):
            _write_json(self.folder / "results.json", official)

    def close(self) -> None:
        self._journal.close()
        self._lock.close()

    def __enter__(self) -> EpisodeStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def disk_full(folder: Path, count: Callable[[], int]) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno not in DISK_FULL:
            raise
        raise Ad2Error(
            f"{folder}: the disk is full ({exc.strerror}); {count()} episodes are safe. Free some space and start the "
            "same command again: it goes on from there"
        ) from exc


def read_records(folder: Path) -> list[EpisodeRecord]:
    """All completed lines of episodes.jsonl, in their order. DataError names a broken one."""
    hint = "Remove the line, and the same command drives that episode again"
    return [line.value for line in read(folder / RESULTS, _record, expected="an episode record", hint=hint)]


def _record(line: bytes) -> EpisodeRecord:
    record = EpisodeRecord.from_json(line.decode())
    try:
        from_episode(record)  # the types of its fields too: what was changed by hand must not fail later, far away
    except DataError as exc:
        raise ValueError(str(exc)) from exc
    _own_fields(record)
    return record


def _own_fields(record: EpisodeRecord) -> None:
    """Those that no official file has; TypeError names the first that is of another form."""
    for name in ("drawn", "margins"):
        if not isinstance(getattr(record, name), dict):
            raise TypeError(f"{name}: expected an object")
    if not all(is_number(time) and isinstance(name, str) for time, name in record.events):
        raise TypeError("events: expected [seconds, name] each")
    for place in record.places:
        if not (isinstance(place["kind"], str) and all(is_number(place[key]) for key in ("time_s", "x", "y"))):
            raise TypeError("places: expected objects of kind, time_s, x, y")


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as handle:
        json.dump(value, handle, ensure_ascii=False, sort_keys=True)


def by_suite(records: Sequence[EpisodeRecord], order: Sequence[str]) -> list[EpisodeRecord]:
    """In the suite's order of routes, repetitions of a route together."""
    place = {route_id: i for i, route_id in enumerate(order)}
    return sorted(records, key=lambda r: (place.get(r.route_id, len(place)), r.route_id, r.repetition))
