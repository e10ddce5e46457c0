"""An import under way: the folder `.<split>.new`, its progress.json, and how an interrupted one is taken up again.

progress.json is replaced after each part: {key, consumed, stream, bad_rows, bad_bytes,
left_out, parts}. `consumed` items of the source went into the parts so far, and `stream` is
the hash of these items: on resume the source is read again from its start, and must give
just the same items before new ones are taken.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections import Counter
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from lmms_eval_ad2.data.home.check import record_fault
from lmms_eval_ad2.data.home.manifest import Part
from lmms_eval_ad2.data.home.parts import Tally, file_sha256, read_part, write_part
from lmms_eval_ad2.data.releases.base import BadRow, Item, LeftOut
from lmms_eval_ad2.data.releases.images import image_fault
from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.storage.files import atomic_write, remove_leftovers

log = logging.getLogger(__name__)


class Stale(Exception):
    """The source gives other items than at the interrupted import."""


class Stage:
    """Takes items one by one; holds one part of records in memory, and 8 bytes an id."""

    def __init__(
        self,
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
        self.tally = Tally()
        self.parts: list[Part] = []
        self.left_out: Counter[str] = Counter()
        self.bad_rows = 0
        self._rows: list[tuple[Record, str]] = []
        self._consumed = self._skip = 0
        self._stream, self._wanted = hashlib.sha256(), ""
        self._image_fault = lru_cache(maxsize=8192)(image_fault)
        if not (resume and self._take_up()):
            self._start()
        self._bad_file = (folder / "bad_rows.jsonl").open("ab")

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bad_file.close()
        if kind is None and not self.bad_rows:
            (self.folder / "bad_rows.jsonl").unlink()

    def take(self, item: Item) -> None:
        """Take the source's next item; raises DataError for a bad one unless they are skipped."""
        text = _text(item)
        self._consumed += 1
        self._stream.update(text.encode("utf-8", "backslashreplace") + b"\n")
        if self._consumed <= self._skip:
            if self._consumed == self._skip and self._stream.hexdigest() != self._wanted:
                raise Stale("the source differs from that of the interrupted import")
            return
        if isinstance(item, LeftOut):
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
        """Write the last part; raises Stale where the source has become shorter."""
        if self._consumed < self._skip:
            raise Stale("the source has become shorter since the interrupted import")
        if self._rows:
            self._flush()

    def _add(self, record: Record, text: str) -> None:
        self.tally.add(record.id, record.task, record.subtask, record.form, text)
        self._rows.append((record, text))
        if len(self._rows) >= self.part_size:
            self._flush()

    def _fault(self, record: Record, text: str) -> DataError | None:
        where = f"record '{record.id}'"
        if fault := record_fault(record):
            return DataError(self.label, where, *fault)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as exc:
            return DataError(self.label, where, "record", "valid Unicode", text[exc.start : exc.start + 1])
        if self.tally.seen(record.id):
            return DataError(self.label, where, "id", "an id that no other record has", record.id)
        if self.check_images:
            for path in record.images:
                if problem := self._image_fault(self.image_root / path, record.image_size):
                    return DataError(self.label, where, "images", "a readable image", f"{path}: {problem}")
        return None

    def _bad(self, error: DataError) -> None:
        if not self.skip_bad:
            hint = f"{error.hint} --skip-bad goes on without such rows and lists them.".strip()
            raise DataError(error.file, error.row, error.field, error.expected, error.found, hint) from error
        self.bad_rows += 1
        row = {name: getattr(error, name) for name in ("file", "row", "field", "expected", "found", "hint")}
        self._bad_file.write(json.dumps(row, default=str).encode() + b"\n")

    def _flush(self) -> None:
        self.parts.append(write_part(self.folder, len(self.parts), self._rows))
        self._rows = []
        self._bad_file.flush()
        progress = {
            "key": self.key, "consumed": self._consumed, "stream": self._stream.hexdigest(),
            "bad_rows": self.bad_rows, "bad_bytes": self._bad_file.tell(), "left_out": dict(self.left_out),
            "parts": [asdict(part) for part in self.parts],
        }  # fmt: skip
        with atomic_write(self.folder / "progress.json") as handle:
            handle.write(json.dumps(progress))

    def _start(self) -> None:
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)

    def _take_up(self) -> bool:
        """Go on from progress.json where it belongs to this import and its parts are whole."""
        path = self.folder / "progress.json"
        try:
            progress = json.loads(path.read_text(encoding="utf-8"))
            parts = [Part(**part) for part in progress["parts"]]
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError):
            log.warning("%s: progress of the interrupted import is unreadable: starting again", self.label)
            return False
        if progress["key"] != self.key:
            log.warning("%s: an interrupted import had another source or other arguments: starting again", self.label)
            return False
        if not all(self._whole(part) for part in parts):
            log.warning("%s: a part of the interrupted import is damaged: starting again", self.label)
            return False
        self._restore(progress, parts)
        log.warning("%s: going on after %d records of an interrupted import", self.label, self.tally.n)
        return True

    def _whole(self, part: Part) -> bool:
        path = self.folder / part.file
        return path.is_file() and file_sha256(path) == part.sha256

    def _restore(self, progress: dict[str, Any], parts: list[Part]) -> None:
        for part in parts:
            for row in read_part(self.folder / part.file):
                self.tally.add(row["id"], row["task"], row["subtask"], row["form"], row["record"])
        self.parts = parts
        self._skip, self._wanted = progress["consumed"], progress["stream"]
        self.bad_rows, self.left_out = progress["bad_rows"], Counter(progress["left_out"])
        with (self.folder / "bad_rows.jsonl").open("ab") as file:
            file.truncate(progress["bad_bytes"])
        remove_leftovers(self.folder)


def _text(item: Item) -> str:
    """An item's text for the hash; "" for a record that does not go to JSON (nested without end)."""
    if isinstance(item, Record):
        try:
            return item.to_json()
        except (RecursionError, TypeError):
            return ""
    return str(item.error) if isinstance(item, BadRow) else item.reason
