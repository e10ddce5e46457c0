"""Read large annotation files row by row: JSON lines, arrays and objects. Input is untrusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError, require
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.base import BadRow, Item, OpenedRelease, existing, image_folder
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.storage.files import open_regular
from lmms_eval_ad2.storage.untrusted_json import BoundedReader, DoubledKeys, load, parse

LONGEST_ROW = 8 << 20  # bytes of a line or item; benchmarks have rows of a few kB, and scenes of 1 MB
LARGEST_FILE = 8 << 20  # bytes of a file that is read at once

Numbered = tuple[int, Any]


def rows(path: Path) -> Iterator[Numbered | DataError]:
    """(1-based row, value) of a JSON lines file, or of a JSON file with one array.

    A line that is not JSON is yielded as a DataError, and reading continues. Inside an array nothing can be read after
    a fault, so the error is raised.
    """
    if first_token(path) == "[":
        yield from enumerate(items(path, "item"), 1)
    else:
        yield from _lines(path)


def _lines(path: Path) -> Iterator[Numbered | DataError]:
    with _open(path) as file:
        number = 0
        while line := file.readline(LONGEST_ROW + 1):
            number += 1
            if len(line) > LONGEST_ROW:
                raise DataError(path, number, "line", f"at most {LONGEST_ROW >> 20} MiB", f"{len(line)} bytes or more")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line.strip():
                yield _parse(line, path, number)


def _parse(line: bytes, path: Path, number: int) -> Numbered | DataError:
    try:
        return number, parse(line)
    except ValueError as exc:
        return DataError(path, number, "line", "one JSON object in UTF-8", str(exc))


def load_json(path: Path, limit: int = LARGEST_FILE) -> Any:
    """Read a small JSON file; raises DataError if it is not JSON or has more than `limit` bytes."""
    try:
        return load(path, limit)
    except OSError as exc:
        raise Ad2Error(f"cannot read {path}: {exc.strerror}") from exc
    except ValueError as exc:
        raise DataError(path, None, "file", f"JSON in UTF-8, of at most {limit >> 20} MiB", str(exc)) from exc


def items(path: Path, prefix: str) -> Iterator[Any]:
    """The values at an ijson `prefix` ("item", "questions.item"), one in memory at a time."""
    yield from _ijson(path, "items", prefix, level=len(prefix.split(".")))


def pairs(path: Path) -> Iterator[tuple[str, Any]]:
    """(key, value) of the file's single object, one value in memory at a time."""
    yield from _ijson(path, "kvitems", "", level=1)


def _ijson(path: Path, what: str, prefix: str, level: int) -> Iterator[Any]:
    """`level`: the depth of the container of the values."""
    ijson = require("ijson", "to read large JSON files")
    doubled = DoubledKeys()
    with _open(path) as file:
        if file.read(3) != b"\xef\xbb\xbf":
            file.seek(0)
        reader = BoundedReader(file, level, LONGEST_ROW)
        try:
            for found in getattr(ijson, what)(reader, prefix, use_float=True, map_type=doubled.map_type()):
                if doubled:
                    raise DataError(path, None, doubled[0][:80], "each key once in an object", "a doubled key")
                yield found
        except (ijson.JSONError, ValueError) as exc:
            raise DataError(path, None, "file", "JSON in UTF-8", str(exc), "The file may be cut off.") from exc


def first_token(path: Path) -> str:
    """The first non-blank character of a JSON file: "{" for an object, "[" for an array."""
    with _open(path) as file:
        start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return start[:1].decode("ascii", "replace")


def _open(path: Path) -> Any:
    try:
        return open_regular(path)
    except OSError as exc:
        raise Ad2Error(f"cannot read {path}: {exc.strerror}") from exc


Reader = Callable[[UntrustedRow], Iterable[Record]]


def open_rows(source: Path, split: str | None, images: Path | None, records_of: Reader) -> OpenedRelease:
    """Open a file in a schema of this project: JSON lines or a JSON array.

    Images are relative to `images`, else to the folder of the file. The default split is "test".
    """
    path = existing(source, "annotation file")
    root = image_folder(images, [path.parent], ".")
    return OpenedRelease(split or "test", root, lambda: read_rows(path, records_of), [path])


def read_rows(path: Path, records_of: Reader) -> Iterator[Item]:
    """The records of each row; a malformed row is yielded as a BadRow."""
    for found in stream.rows(path):
        if isinstance(found, DataError):
            yield BadRow(found)
            continue
        try:
            yield from records_of(UntrustedRow(found[1], path, found[0]))
        except DataError as exc:
            yield BadRow(exc)
