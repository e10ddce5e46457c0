"""What a run leaves on disk, and in which order it is written.

    DIR/run.json          identity (compared at every start) and selection (what was asked for last)
    DIR/lock              held (flock) by the one process that runs into DIR
    DIR/episodes.jsonl    one EpisodeRecord a line; the only truth; of two lines for one episode the later counts
    DIR/metric_info/<route>_rep<k>.json, DIR/tracks/<route>_rep<k>.json
    DIR/results.json      the official result file, made anew from episodes.jsonl
    DIR/logs/worker<k>.log  what a world process printed; its end is the reason of a world that died

Of one episode: metric_info and track first (temporary name, fsync, rename), then its line (append, fsync): a line
implies its files. A process killed in between leaves files without a line (the episode is run again and they are
replaced) or half a line at the end (cut off when the folder is next opened).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from closedloop_plugin.record import EpisodeRecord
from closedloop_plugin.runner.episode import Result
from closedloop_plugin.scoring.official import from_episode
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.files import append_whole, cut_torn_line, whole_file
from lmms_eval_ad2.folders import FULL, differences, locked


class Store:
    """One run's folder, opened for writing. Use as a context manager: it holds the folder's lock."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], selection: Mapping[str, Any]) -> None:
        self.folder = folder
        self.lines = folder / "episodes.jsonl"
        self._records: dict[tuple[str, int], EpisodeRecord] = {}
        with disk_full(folder, lambda: self.count), ExitStack() as undo:
            self._lock = undo.enter_context(locked(folder))
            check_identity(folder, identity)
            cut_torn_line(self.lines)
            self._records = {(r.route_id, r.repetition): r for r in read_records(folder)}
            _write_json(folder / "run.json", {"identity": identity, "selection": selection})
            self._handle = self.lines.open("ab", buffering=0)
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

    def save(self, result: Result) -> None:
        """The episode's files, then its line. On a full disk: one Ad2Error, and nothing of before is touched."""
        record = result.record
        name = f"{record.route_id}_rep{record.repetition}.json"
        with disk_full(self.folder, lambda: self.count):
            for kind, value in (("metric_info", result.metric_info), ("tracks", result.track)):
                if value is not None:
                    _write_json(self.folder / kind / name, value)
            self._append((record.to_json() + "\n").encode())
        self._records[record.route_id, record.repetition] = record

    def write_results(self, official: Any) -> None:
        with disk_full(self.folder, lambda: self.count):
            _write_json(self.folder / "results.json", official)

    def _append(self, line: bytes) -> None:
        """One whole line, synced."""
        append_whole(self._handle, self.lines, line, lambda: os.fsync(self._handle.fileno()))

    def close(self) -> None:
        self._handle.close()
        self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def disk_full(folder: Path, count: Callable[[], int]) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        if exc.errno not in FULL:
            raise
        raise Ad2Error(
            f"{folder}: the disk is full ({exc.strerror}); {count()} episodes are safe. Free some space and start the "
            "same command again: it goes on from there"
        ) from exc


def read_run(folder: Path) -> dict[str, Any]:
    """run.json; Ad2Error where the folder holds no run."""
    file = folder / "run.json"
    if not file.is_file():
        raise Ad2Error(f"{folder}: no run.json: not a folder that `ad2 drive run --out` wrote")
    try:
        run = json.loads(file.read_text("utf-8"))
        return {"identity": dict(run["identity"]), "selection": dict(run["selection"])}
    except (ValueError, KeyError, TypeError) as exc:
        raise Ad2Error(f"{file}: not a run description ({exc}); choose another --out") from exc


def read_records(folder: Path) -> list[EpisodeRecord]:
    """All whole lines of episodes.jsonl, in their order; half a line at the very end is left out."""
    file = folder / "episodes.jsonl"
    if not file.is_file():
        return []
    records = []
    for row, line in enumerate(file.read_bytes().split(b"\n")[:-1], 1):
        try:
            record = EpisodeRecord.from_json(line.decode())
            from_episode(record)  # the types of its fields too: what was changed by hand must not fail later, far away
            _own_fields(record)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError, DataError) as exc:
            found = line[:80].decode(errors="replace")
            hint = f"({exc}) Remove the line, and the same command drives that episode again"
            raise DataError(file, row, "line", "an episode record", found, hint) from exc
        records.append(record)
    return records


def _own_fields(record: EpisodeRecord) -> None:
    """Those that no official file has; TypeError names the first that is of another form."""
    for name in ("drawn", "margins"):
        if not isinstance(getattr(record, name), dict):
            raise TypeError(f"{name}: expected an object")
    if not all(_number(time) and isinstance(name, str) for time, name in record.events):
        raise TypeError("events: expected [seconds, name] each")
    for place in record.places:
        if not (isinstance(place["kind"], str) and all(_number(place[key]) for key in ("time_s", "x", "y"))):
            raise TypeError("places: expected objects of kind, time_s, x, y")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check_folder(folder: Path, identity: Mapping[str, Any]) -> None:
    """What can be said of a folder before a model is loaded for it: writable, nobody else's, of the same run.

    `identity` may be a part. Nothing is made: a wrong argument that is found later leaves no empty folder behind.
    """
    if not folder.exists():
        above = next(path for path in folder.absolute().parents if path.exists())
        if not (above.is_dir() and os.access(above, os.W_OK)):
            raise Ad2Error(f"{folder}: nothing can be made in {above}; choose another place")
        return
    if not folder.is_dir():
        raise Ad2Error(f"{folder}: a file, and a folder is needed; choose another place")
    check_identity(folder, identity, part=True)
    if (folder / "lock").exists():
        locked(folder).close()


def check_identity(folder: Path, identity: Mapping[str, Any], part: bool = False) -> None:
    """Nothing where the folder has no episode or is of the same run; else one line that names each difference."""
    if not (folder / "run.json").exists():
        return
    there = read_run(folder)["identity"]
    if not _begun(folder):
        return
    differ = differences({k: there.get(k) for k in identity} if part else there, json.loads(json.dumps(identity)))
    if differ:
        raise Ad2Error(
            f"{folder} holds a run with other arguments: {'; '.join(differ)}. Choose another --out, or the same "
            "arguments"
        )


def _begun(folder: Path) -> bool:
    """A start that ended before its first episode, by a wrong map say, binds nobody to its arguments."""
    file = folder / "episodes.jsonl"
    return file.is_file() and b"\n" in file.read_bytes()


def _write_json(path: Path, value: Any) -> None:
    with whole_file(path) as handle:
        json.dump(value, handle, ensure_ascii=False, sort_keys=True)


def by_suite(records: Sequence[EpisodeRecord], order: Sequence[str]) -> list[EpisodeRecord]:
    """In the suite's order of routes, repetitions of a route together."""
    place = {route_id: i for i, route_id in enumerate(order)}
    return sorted(records, key=lambda r: (place.get(r.route_id, len(place)), r.route_id, r.repetition))
