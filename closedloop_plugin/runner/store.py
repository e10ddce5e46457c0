"""EpisodeStore: files of a run folder, and the order in which they are written.

    DIR/run.json, lock    identity and selection, see storage/identity.py; one process at a time
    DIR/episodes.jsonl    one EpisodeRecord per line; authoritative; of two lines for one episode the later counts
    DIR/metric_info/<route>_rep<k>.json, DIR/tracks/<route>_rep<k>.json
    DIR/decisions/<route>_rep<k>.jsonl.gz   one line per decision, see decision_files.py
    DIR/results.json      the official result file, derived from episodes.jsonl
    DIR/logs/worker<k>.log  output of a world process; the last line is part of the reason if the process dies
    DIR/logs/unread.jsonl   replies after which the run stopped, see early_stop.py

For an episode decisions, metric_info and track are written first (temporary name, fsync, rename), then its line
(append, fsync): a line implies its files. A process killed in between leaves files without a line (the episode is run
again and replaces them) or an incomplete last line (see storage/journal.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.routes import valid_route_id
from closedloop_plugin.runner.decision_files import DecisionFiles
from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.scoring.driving import MOST_REPETITIONS
from closedloop_plugin.scoring.official import from_episode
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number, is_whole
from lmms_eval_ad2.storage.files import DISK_FULL, atomic_write, remove_leftovers
from lmms_eval_ad2.storage.identity import RESULTS, RUN, check_identity, read_run, write_run
from lmms_eval_ad2.storage.journal import JournalFile, read
from lmms_eval_ad2.storage.lock import lock_folder


class EpisodeStore:
    """A run folder opened for writing. A context manager, which holds the lock of the folder."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], selection: Mapping[str, Any]) -> None:
        self.folder = folder
        self.lines = folder / RESULTS
        self._records: dict[tuple[str, int], EpisodeRecord] = {}
        with disk_full(folder, lambda: self.count), ExitStack() as undo:
            self._lock = undo.enter_context(lock_folder(folder))
            check_identity(folder, identity)
            self.decisions = DecisionFiles(folder)
            remove_leftovers(folder, folder / "metric_info", folder / "tracks", self.decisions.folder)
            self._records = {(r.route_id, r.repetition): r for r in read_records(folder)}
            write_run(folder, identity, selection)
            self._journal = JournalFile(self.lines)
            undo.pop_all()

    @property
    def count(self) -> int:
        return len(self._records)

    @property
    def records(self) -> list[EpisodeRecord]:
        """One per episode, sorted by route and repetition."""
        return sorted(self._records.values(), key=lambda r: (r.route_id, r.repetition))

    def has(self, route_id: str, repetition: int) -> EpisodeRecord | None:
        return self._records.get((route_id, repetition))

    def save(self, result: EpisodeResult) -> None:
        """Write the episode's files, then its line. Raises Ad2Error if the disk is full; earlier episodes are kept."""
        record = result.record
        key = f"{record.route_id}_rep{record.repetition}"
        with disk_full(self.folder, lambda: self.count):
            self.decisions.keep(key)
            for kind, value in (("metric_info", result.metric_info), ("tracks", result.track)):
                if value is not None:
                    _write_json(self.folder / kind / f"{key}.json", value)
            self._journal.append(record.to_json().encode())
        self._records[record.route_id, record.repetition] = record

    def add_decisions(self, key: str, block: bytes) -> None:
        """Append to the decisions of a running episode; errors as of `save`."""
        with disk_full(self.folder, lambda: self.count):
            self.decisions.add(key, block)

    def write_results(self, official: Any) -> None:
        with disk_full(self.folder, lambda: self.count):
            _write_json(self.folder / "results.json", official)

    def close(self) -> None:
        self._journal.close()
        remove_leftovers(self.decisions.folder)  # of episodes that an error or Ctrl-C has ended
        self._lock.close()

    def __enter__(self) -> EpisodeStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def saved(count: int) -> str:
    """How many episodes are kept, as a clause of an error."""
    return "1 episode is safe" if count == 1 else f"{count} episodes are safe"


@contextmanager
def disk_full(folder: Path, count: Callable[[], int]) -> Iterator[None]:
    """Convert the errors of a full disk to Ad2Error. `count`: number of saved episodes, for the message."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in DISK_FULL:
            raise
        raise Ad2Error(
            f"{folder}: the disk is full ({exc.strerror}); {saved(count())}. Free some space and start the "
            "same command again: it continues from there"
        ) from exc


def read_drive(folder: Path) -> dict[str, Any]:
    """The content of run.json, as read_run; raises DataError if it names no routes."""
    run = read_run(folder)
    if "routes" not in run["selection"]:
        raise DataError(folder / RUN, None, "selection.routes", "the routes of a drive", None)
    return run


def asked_repetitions(folder: Path, selection: Mapping[str, Any]) -> int:
    """Repetitions of each route that run.json asks for. Raises DataError for a number that would fill the memory."""
    asked = selection.get("repetitions", 1)
    if not is_whole(asked, 1, MOST_REPETITIONS):
        expected = f"a whole number from 1 to {MOST_REPETITIONS}"
        raise DataError(folder / RUN, None, "selection.repetitions", expected, asked)
    return asked


def read_records(folder: Path, most_repetitions: int | None = None) -> list[EpisodeRecord]:
    """All complete lines of episodes.jsonl, in file order.

    Raises DataError for a malformed one, and for a repetition that is not below `most_repetitions`.
    """
    hint = "Remove the line, and the same command runs that episode again"
    record = partial(_record, most_repetitions=most_repetitions)
    return [line.value for line in read(folder / RESULTS, record, expected="an episode record", hint=hint)]


def _record(line: bytes, most_repetitions: int | None) -> EpisodeRecord:
    record = EpisodeRecord.from_json(line.decode())
    if not valid_route_id(record.route_id.lstrip(".")):  # files are named by it; a program's name may begin with a dot
        raise ValueError(f"route_id {record.route_id!r}: expected a name without folders")
    if most_repetitions is not None and not 0 <= record.repetition < most_repetitions:
        raise ValueError(f"repetition {record.repetition}: expected 0 to {most_repetitions - 1}")
    try:
        from_episode(record)  # checks the values too, so that an edited file fails here and not later
    except DataError as exc:
        raise ValueError(str(exc)) from exc
    for place in record.places:
        if not (isinstance(place["kind"], str) and all(is_number(place[key]) for key in ("time_s", "x", "y"))):
            raise TypeError("places: expected objects of kind, time_s, x, y")
    return record


def _write_json(path: Path, value: Any) -> None:
    with atomic_write(path) as handle:
        # Not json.dump, which encodes in Python, piece by piece: a tenth of the speed.
        handle.write(json.dumps(value, ensure_ascii=False, sort_keys=True))


def by_suite(records: Sequence[EpisodeRecord], order: Sequence[str]) -> list[EpisodeRecord]:
    """Sorted by the suite's order of routes, then by repetition."""
    place = {route_id: i for i, route_id in enumerate(order)}
    return sorted(records, key=lambda r: (place.get(r.route_id, len(place)), r.route_id, r.repetition))
