"""Write records as a dataset of the data home, part by part. A killed import is resumed by the same call.

`location` describes the layout. The folder `.<split>.new` of an unfinished import has a progress.json, replaced after
each part: {key, consumed, stream, bad_rows, bad_bytes, left_out, parts}. `consumed` items of the source are in the
parts so far, and `stream` is the hash of these items: on resume the source is read again from its start, and must give
the same items before new ones are accepted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.data.home.manifest import DatasetManifest, DatasetPart, split_dir
from lmms_eval_ad2.data.home.parts import PART_CHARACTERS, PART_SIZE, PartRow, RecordTally, read_part, write_part
from lmms_eval_ad2.data.home.record_check import LONGEST_NAME, LONGEST_RECORD, record_fault
from lmms_eval_ad2.data.releases.base import BadRow, Item, OmittedRow, image_fault
from lmms_eval_ad2.storage.files import atomic_write, file_sha256, remove_leftovers
from lmms_eval_ad2.storage.identity import digest
from lmms_eval_ad2.storage.lock import lock_in_turn

# Whether the images of a release are in its image folder, counted while the records are imported.

FIRST = 500  # records: if none of them has its images, the folder is wrong, and the rest is not read
LEAST = 0.5  # share of records with all their images, below which an import is refused
_EXAMPLES = 2


class MissingImagesError(Ad2Error):
    """The image folder has none or few of the release's images."""


class ImagePresence:
    """Counts the records of a dataset that have all their images in `root`. `required`: few are an error."""

    def __init__(self, root: Path, name: str, split: str, *, required: bool) -> None:
        self.root, self.name, self.label, self.required = root, name, f"{name} ({split})", required
        self.records = self.complete = 0
        self.examples: dict[str, None] = {}
        self._is_file = lru_cache(maxsize=8192)(lambda path: (root / path).is_file())

    def add(self, record: Record) -> None:
        """Count one record; raises MissingImagesError if `required` and the first ones have no images at all."""
        missing = [path for path in record.images if not self._is_file(path)]
        self.records += 1
        self.complete += not missing
        for path in missing:
            if len(self.examples) < _EXAMPLES:
                self.examples[path] = None
        if self.required and self.records == FIRST and not self.complete:
            raise self._error(f"the images of none of the first {FIRST} records are")

    def check(self) -> None:
        """Raise MissingImagesError if `required` and few images are there; else warn of missing ones."""
        if self.complete == self.records:
            return
        found = f"the images of {self.complete} of {self.records} records are"
        if self.required and self.complete < LEAST * self.records:
            raise self._error(found)
        log.warning(
            "%s: %s in %s; missing, e.g. %s. If the images are elsewhere: ad2 data verify %s --images DIR",
            self.label, found, self.root, ", ".join(self.examples), self.name,
        )  # fmt: skip

    def _error(self, found: str) -> MissingImagesError:
        return MissingImagesError(
            f"{self.label}: {found} in {self.root}; missing, e.g. {', '.join(self.examples)}. Give the folder that "
            "these paths are relative to: --images DIR, or import an incomplete release with --partial. Nothing was "
            "imported; an earlier import is unchanged"
        )


log = logging.getLogger(__name__)
_BUSY = "%s is being imported by another process: waiting for it"


class SourceChangedError(Exception):
    """The source gives other items than in the interrupted import."""


class StagedImport:
    """An import into `folder`, item by item; keeps one part of records in memory, and 8 bytes per id."""

    def __init__(
        self,
        *,
        folder: Path,
        label: str,
        key: str,
        image_root: Path,
        skip_bad: bool,
        check_images: bool,
        part_size: int,
        resume: bool,
    ) -> None:
        self.folder, self.label, self.key = folder, label, key
        self.image_root, self.skip_bad, self.check_images, self.part_size = (
            image_root,
            skip_bad,
            check_images,
            part_size,
        )
        self.tally = RecordTally()
        self.parts: list[DatasetPart] = []
        self.left_out: Counter[str] = Counter()
        self.bad_rows = 0
        self._rows: list[PartRow] = []
        self._characters = 0  # of the records in `_rows`
        self._consumed = self._skip = 0
        self._stream, self._expected_stream = hashlib.sha256(), ""
        self._image_fault = lru_cache(maxsize=8192)(image_fault)
        if not (resume and self._resume()):
            if self.folder.exists():
                shutil.rmtree(self.folder)
            self.folder.mkdir(parents=True)
        self._bad_file = (folder / "bad_rows.jsonl").open("ab")

    def __enter__(self) -> StagedImport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bad_file.close()
        if kind is None and not self.bad_rows:
            (self.folder / "bad_rows.jsonl").unlink()

    def take(self, item: Item) -> None:
        """Add the next item of the source; raises DataError for a bad one unless `skip_bad`."""
        text = _text(item)
        self._consumed += 1
        self._stream.update(text.encode("utf-8", "backslashreplace") + b"\n")
        if self._consumed <= self._skip:
            if self._consumed == self._skip and self._stream.hexdigest() != self._expected_stream:
                raise SourceChangedError("the source differs from that of the interrupted import")
            return
        if isinstance(item, OmittedRow):
            self.left_out[item.reason] += 1
        elif isinstance(item, BadRow):
            self._bad(item.error)
        elif not text:
            self._bad(DataError(self.label, f"record '{item.id}'", "meta", "a plain, shallow object"))
        elif fault := self._fault(item, text):
            self._bad(fault)
        else:
            self._add(item, text)

    def finish(self) -> None:
        """Write the last part; raises SourceChangedError if the source has become shorter."""
        if self._consumed < self._skip:
            raise SourceChangedError("the source has become shorter since the interrupted import")
        if self._rows:
            self._flush()

    def _add(self, record: Record, text: str) -> None:
        self.tally.add(record.id, record.task, record.subtask, record.form, text)
        self._rows.append(PartRow(record.id, record.benchmark, record.task, record.subtask, record.form, text))
        self._characters += len(text)
        if len(self._rows) >= self.part_size or self._characters >= PART_CHARACTERS:
            self._flush()

    def _fault(self, record: Record, text: str) -> DataError | None:
        where = f"record '{record.id[:LONGEST_NAME]}'"
        if fault := record_fault(record):
            return DataError(self.label, where, *fault)
        if len(text) > LONGEST_RECORD:
            return DataError(self.label, where, "record", f"at most {LONGEST_RECORD:,} characters", f"{len(text):,}")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as exc:
            return DataError(self.label, where, "record", "valid Unicode", text[exc.start : exc.start + 1])
        if self.tally.seen(record.id):
            return DataError(self.label, where, "id", "an id that no other record has", record.id)
        if self.check_images:
            for path in record.images:
                if problem := self._image_fault(self.image_root, path, record.image_size):
                    return DataError(self.label, where, "images", "a readable image", f"{path}: {problem}")
        return None

    def _bad(self, error: DataError) -> None:
        if not self.skip_bad:
            before = error.hint if not error.hint or error.hint.endswith((".", "?", "!")) else f"{error.hint}."
            hint = f"{before} --skip-bad leaves such rows out and lists them.".strip()
            raise DataError(error.file, error.row, error.field, error.expected, error.found, hint) from error
        self.bad_rows += 1
        row = {name: getattr(error, name) for name in ("file", "row", "field", "expected", "found", "hint")}
        self._bad_file.write(json.dumps(row, default=str).encode() + b"\n")

    def _flush(self) -> None:
        self.parts.append(write_part(self.folder, len(self.parts), self._rows))
        self._rows, self._characters = [], 0
        self._bad_file.flush()
        progress = {
            "key": self.key, "consumed": self._consumed, "stream": self._stream.hexdigest(),
            "bad_rows": self.bad_rows, "bad_bytes": self._bad_file.tell(), "left_out": dict(self.left_out),
            "parts": [asdict(part) for part in self.parts],
        }  # fmt: skip
        with atomic_write(self.folder / "progress.json") as handle:
            handle.write(json.dumps(progress))

    def _resume(self) -> bool:
        """Resume from progress.json if it belongs to this import and its parts are intact."""
        path = self.folder / "progress.json"
        try:
            progress = json.loads(path.read_text(encoding="utf-8"))
            parts = [DatasetPart(**part) for part in progress["parts"]]
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError):
            log.warning("%s: progress of the interrupted import is unreadable: starting again", self.label)
            return False
        if progress["key"] != self.key:
            log.warning("%s: an interrupted import had another source or other arguments: starting again", self.label)
            return False
        files = [(self.folder / part.file, part.sha256) for part in parts]
        if not all(file.is_file() and file_sha256(file) == sha256 for file, sha256 in files):
            log.warning("%s: a part of the interrupted import is damaged: starting again", self.label)
            return False
        self._restore(progress, parts)
        log.warning("%s: continuing after %d records of an interrupted import", self.label, self.tally.n)
        return True

    def _restore(self, progress: dict[str, Any], parts: list[DatasetPart]) -> None:
        for part in parts:
            for row in read_part(self.folder / part.file):
                self.tally.add(row["id"], row["task"], row["subtask"], row["form"], row["record"])
        self.parts = parts
        self._skip, self._expected_stream = progress["consumed"], progress["stream"]
        self.bad_rows, self.left_out = progress["bad_rows"], Counter(progress["left_out"])
        with (self.folder / "bad_rows.jsonl").open("ab") as file:
            file.truncate(progress["bad_bytes"])
        remove_leftovers(self.folder)


def _text(item: Item) -> str:
    """The text of an item for the hash; "" for a record that cannot be converted to JSON (endless nesting)."""
    if isinstance(item, Record):
        try:
            return item.to_json()
        except (RecursionError, TypeError):
            return ""
    return str(item.error) if isinstance(item, BadRow) else item.reason


def write_dataset(
    name: str,
    split: str,
    records: Iterable[Item],
    *,
    image_root: Path,
    source: Mapping[str, Any],
    skip_bad: bool = False,
    check_images: bool = False,
    home: Path | None = None,
    resume: bool = True,
    expected: Mapping[str, int] | None = None,
    part_size: int = PART_SIZE,
    presence: ImagePresence | None = None,
) -> DatasetManifest:
    """Store `records` as split `split` of dataset `name`; a previous one is replaced after all records are written.

    `source` describes the origin of the records (as JSON) and is part of the identity of the import: an interrupted
    import is resumed only with the same source and arguments. `expected`: number of records by task; other numbers
    raise DataError. Raises DataError at the first bad row or repeated id (with `skip_bad` it is counted, and listed in
    bad_rows.jsonl), and Ad2Error if there is nothing to store. `presence` counts the images that are there, and may
    refuse the import.
    """
    final = split_dir(name, split, home)
    final.parent.mkdir(parents=True, exist_ok=True)
    key = import_key(image_root, source, skip_bad, check_images, part_size)
    with lock_in_turn(final.parent / f".{split}.lock", lambda: log.warning(_BUSY, f"{name} {split}")) as waited:
        # The previous holder of the lock may have done the same import (ranks of one run that all need the sample).
        if waited and (done := finished(final, key)):
            remove_traces(final)
            return done
        new = final.with_name(f".{split}.new")
        label = f"{name} {split}"
        with StagedImport(
            folder=new,
            label=label,
            key=key,
            image_root=Path(image_root),
            skip_bad=skip_bad,
            check_images=check_images,
            part_size=part_size,
            resume=resume,
        ) as stage:
            try:
                _add_all(stage, records, label, presence)
            except SourceChangedError as exc:
                shutil.rmtree(new)
                raise Ad2Error(f"{label}: {exc}; its parts are removed: run the same command again") from exc
            except MissingImagesError:
                shutil.rmtree(new)
                raise
        _check_counts(stage, expected or {}, label)
        manifest = DatasetManifest(
            name=name, split=split, n=stage.tally.n, sha256=stage.tally.sha256, counts=stage.tally.sorted_counts(),
            parts=tuple(stage.parts), image_root=str(Path(image_root).absolute()), source=dict(source),
            version=__version__, created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), key=key,
            bad_rows=stage.bad_rows, left_out=dict(sorted(stage.left_out.items())),
        )  # fmt: skip
        manifest.save(new)
        _replace(new, final)
    return manifest


def finished(folder: Path, key: str) -> DatasetManifest | None:
    """The manifest of `folder` if it is the complete result of the import with this key, else None."""
    try:
        manifest = DatasetManifest.load(folder)
    except (FileNotFoundError, Ad2Error):
        return None
    if manifest.key != key:
        return None
    parts = [(folder / part.file, part.sha256) for part in manifest.parts]
    return manifest if all(path.is_file() and file_sha256(path) == sha for path, sha in parts) else None


def import_key(
    image_root: Path, source: Mapping[str, Any], skip_bad: bool, check_images: bool, part_size: int = PART_SIZE
) -> str:
    """The identity of an import: a hash of its source, its arguments and the version of this package."""
    arguments = (skip_bad, check_images, part_size)
    return digest([__version__, str(Path(image_root).absolute()), dict(source), *arguments])


def _add_all(stage: StagedImport, records: Iterable[Item], label: str, presence: ImagePresence | None) -> None:
    with tqdm(desc=label, unit=" records", disable=None) as bar:
        for item in records:
            stage.take(item)
            if isinstance(item, Record):
                bar.update()
                if presence is not None:
                    presence.add(item)
    if presence is not None:
        presence.check()
    stage.finish()


def _check_counts(stage: StagedImport, expected: Mapping[str, int], label: str) -> None:
    if stage.tally.n == 0:
        raise Ad2Error(f"{label}: no record could be read ({stage.bad_rows} bad rows)")
    for task, number in expected.items():
        found = stage.tally.counts["task"].get(task, 0)
        if found != number:
            skipped = f" ({stage.bad_rows} bad rows were skipped)" if stage.bad_rows else ""
            hint = "Fetch the whole release, or import an incomplete one with --partial."
            raise DataError(label, None, f"task {task}", f"{number} records in all", f"{found}{skipped}", hint)


def _replace(new: Path, final: Path) -> None:
    old = final.with_name(f".{final.name}.old")
    if old.exists():
        shutil.rmtree(old)
    if final.exists():
        final.rename(old)
    new.rename(final)
    remove_traces(final)


def remove_traces(final: Path) -> None:
    """Remove what is left of an import after `final` is in place: its progress, and the dataset that it replaced.

    A killed import can leave both. Another process may do the same at the same time.
    """
    (final / "progress.json").unlink(missing_ok=True)
    shutil.rmtree(final.with_name(f".{final.name}.old"), ignore_errors=True)
