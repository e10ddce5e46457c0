"""JSON that others wrote (releases, result files, requests, replies), with bounds on its depth and size.

`json` and `ijson` accept any depth, and of a doubled key they keep the last value. Here a text that is nested more
than DEEPEST levels deep is refused before it is parsed, and so are a doubled key and NaN.

Memory: parsed values need up to 50 times the bytes of their text (lists within lists), so a bound of the text is a
bound of the memory. `read_bytes` limits a file, `BoundedReader` the parts of a large file that is read as a stream.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.files import open_regular

DEEPEST = 64  # levels of objects and lists
LARGEST_FILE = 32 << 20  # bytes of a result file
_CHUNK = 1 << 20
_STRUCTURE = b'[]{}",'
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_STRING = re.compile(rb'"[^"]*"')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}


def parse(text: bytes | bytearray | str, *, finite: bool = True, most_values: int | None = None) -> Any:
    """The value of a JSON text (bytes: UTF-8, with or without a byte order mark).

    Raises json.JSONDecodeError if it is not JSON, another ValueError if it is not UTF-8, nested too deeply, or contains
    a doubled key, more than `most_values` values, or, with `finite`, NaN or an infinite number.
    """
    check_nesting(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text, most_values)
    shown = text if isinstance(text, str) else text.decode("utf-8-sig")
    if shown.startswith("\ufeff"):  # as json.loads
        raise json.JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", shown, 0)
    return (_FINITE if finite else _ANY).decode(shown)


def check_nesting(content: bytes | bytearray, most_values: int | None = None) -> None:
    """Raises ValueError for a JSON text that `parse` would refuse for its depth or its number of values."""
    levels, separators = sum(map(content.count, (b"[", b"{"))), content.count(b",")
    # Otherwise, it cannot be too deep or have too many values.
    if levels > DEEPEST or (most_values is not None and levels + separators > most_values):
        scanner = NestingScanner(most_values=most_values)
        for start in range(0, len(content), _CHUNK):
            scanner.feed(bytes(content[start : start + _CHUNK]))


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a regular file, unpacked if its name ends with .gz.

    Raises OSError if it cannot be read, ValueError for more than `most` bytes.
    """
    try:
        with open_regular(path) as file, gzip.open(file) if path.suffix == ".gz" else nullcontext(file) as plain:
            content = plain.read(most + 1)
    except (EOFError, zlib.error) as exc:
        raise ValueError(f"not a complete gzip file ({exc})") from None
    if len(content) > most:
        raise ValueError(f"more than {_megabytes(most)}")
    return content


def load(path: Path, most: int = LARGEST_FILE, *, finite: bool = True) -> Any:
    """The JSON value of a file; errors as of `read_bytes` and `parse`."""
    return parse(read_bytes(path, most), finite=finite)


def lines(path: Path, longest: int = LARGEST_FILE) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line with its newline) of a file; only the last may have none. DataError for a longer line."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise DataError(path, number, "line", f"at most {_megabytes(longest)}", "a longer one")
            yield number, line


class NestingScanner:
    """Follows the nesting of a JSON text, chunk by chunk, without parsing it.

    level, most: a part is what lies between two separators at depth `level` or above, such as an item of the outermost
    list at level 1. It may have `most` bytes, to the precision of a chunk. `feed` raises ValueError for a longer part,
    for a depth of more than DEEPEST, and for more than `most_values` values.
    """

    def __init__(self, level: int = 0, most: int | None = None, most_values: int | None = None) -> None:
        self._level, self._most, self._most_values = level, most, most_values
        self._depth = self._part = self._values = 0
        self._in_string, self._carry = False, b""

    def feed(self, chunk: bytes) -> None:
        marks = self._marks(chunk)
        self._values += len(marks)  # each value is followed by a comma or bracket, each container has two
        if self._most_values is not None and self._values > 2 * self._most_values:
            raise ValueError(f"more than {self._most_values:,} values")
        depths = self._depths(marks)
        if max(depths, default=0) > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} levels deep")
        if self._most is None:
            return
        self._part = 0 if min(depths, default=self._level + 1) <= self._level else self._part + len(chunk)
        if self._part > self._most:
            raise ValueError(f"a value of more than {_megabytes(self._most)}")

    def _marks(self, chunk: bytes) -> bytes:
        """Brackets and commas outside strings."""
        chunk = self._carry + chunk
        # A backslash at the end may escape the first character of the next chunk.
        odd = (len(chunk) - len(chunk.rstrip(b"\\"))) % 2
        chunk, self._carry = (chunk[:-1], b"\\") if odd else (chunk, b"")
        marks = chunk.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
        marks = _STRING.sub(b"", b'"' + marks if self._in_string else marks)
        marks, quote, _ = marks.partition(b'"')
        self._in_string = bool(quote)
        return marks

    def _depths(self, marks: bytes) -> Sequence[int]:
        """The depth after each mark; a comma has the depth of its container."""
        depths = list(accumulate(map(_STEPS.__getitem__, marks), initial=self._depth))[1:]
        if depths:
            self._depth = depths[-1]
        return depths


class BoundedReader:
    """A file of JSON whose chunks are scanned before the parser sees them; `read` raises ValueError (NestingScanner).

    It has no other methods than those that ijson uses.
    """

    def __init__(self, file: BinaryIO, level: int, most: int) -> None:
        self._file, self._scanner = file, NestingScanner(level, most)

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        self._scanner.feed(chunk)
        return chunk


class DoubledKeys(list[str]):
    """Collects the doubled keys of the objects that `ijson` builds with `map_type`.

    The C library of ijson cannot pass on an exception from here, so its user looks into the list after each value.
    """

    def map_type(self) -> type[dict[str, Any]]:
        found = self

        class WatchedObject(dict[str, Any]):
            __slots__ = ()

            def __setitem__(self, key: str, value: Any) -> None:
                if key in self:
                    found.append(key)
                super().__setitem__(key, value)

        return WatchedObject


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        doubled = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {doubled[:80]!r} occurs twice in an object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:80]} is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _megabytes(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count:,} bytes"


# Made once: making a decoder takes as long as a small text.
_ANY = json.JSONDecoder(object_pairs_hook=_unique)
_FINITE = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
