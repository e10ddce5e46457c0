"""A file in a schema of ours: JSON lines or a JSON array, one row after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.base import BadRow, Item, Opened, existing, image_folder
from lmms_eval_ad2.data.releases.row import Row
from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.records import Record

Reader = Callable[[Row], Iterable[Record]]


def open_rows(source: Path, split: str | None, images: Path | None, records_of: Reader) -> Opened:
    """Open `source`; images are relative to `images`, else to the file's own folder. Split "test" unless named."""
    path = existing(source, "annotation file")
    root = image_folder(images, [path.parent], ".")
    return Opened(split or "test", root, lambda: read_rows(path, records_of), [path])


def read_rows(path: Path, records_of: Reader) -> Iterator[Item]:
    """The records of each row; a malformed row is a BadRow, and the next one is read."""
    for found in stream.rows(path):
        if isinstance(found, DataError):
            yield BadRow(found)
            continue
        try:
            yield from records_of(Row(found[1], path, found[0]))
        except DataError as exc:
            yield BadRow(exc)
