"""A row of untrusted JSON, read field by field: each method returns the value or raises a DataError with the field."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_number, is_whole
from lmms_eval_ad2.core.records import LANGS, BilingualText
from lmms_eval_ad2.storage.image_files import path_fault

LONGEST_TEXT = 20_000  # characters of a string
MOST_PARTS = 100  # images, options or steps of a record
LARGEST_SIDE = 100_000  # pixels of an image
_MOST_INTEGER = 2**53


class UntrustedRow:
    """`data` at `row` of `file`; `prefix` is its path inside the row ("options[2].")."""

    def __init__(self, data: Any, file: object, row: int | str | None, prefix: str = "") -> None:
        self.file, self.row, self.prefix = file, row, prefix
        if not isinstance(data, Mapping):
            raise DataError(file, row, prefix.rstrip(".") or "row", "an object {...}", data)
        self.data: Mapping[str, Any] = data

    def fail(self, field: str, expected: str, found: Any = None, hint: str = "") -> DataError:
        return DataError(self.file, self.row, self.prefix + field, expected, found, hint)

    def get(self, field: str) -> Any:
        return self.data.get(field)

    def only(self, fields: Sequence[str]) -> None:
        """Refuse fields that are not in the schema: a misspelt optional field would be ignored silently."""
        unknown = sorted(set(self.data) - set(fields))
        if unknown:
            name = str(unknown[0])
            expected = f"no such field (known: {', '.join(fields)})"
            raise self.fail(name, expected, self.data[unknown[0]], _similar(name, fields))

    def string(self, field: str, default: str | None = None) -> str:
        """A non-empty string, trimmed; `default` if the field is missing, null or empty."""
        value = self.data.get(field)
        if value is None or (isinstance(value, str) and not value.strip()):
            if default is None:
                raise self.fail(field, "a non-empty string", value)
            return default
        if not isinstance(value, str):
            raise self.fail(field, "a string", value)
        self._check_length(field, value)
        return value.strip()

    def choice(self, field: str, allowed: Sequence[str], default: str | None = None) -> str:
        """One of `allowed`; `default` if the field is missing, null or empty."""
        value = self.string(field, default)
        if value != default and value not in allowed:
            raise self.fail(field, f"one of {', '.join(allowed)}", value, _similar(value, allowed))
        return value

    def integer(self, field: str) -> int | None:
        """A whole number, or None if the field is missing."""
        value = self.data.get(field)
        if value is None:
            return None
        if not is_whole(value, low=-_MOST_INTEGER, high=_MOST_INTEGER):
            raise self.fail(field, "a whole number", value)
        return value

    def text(self, field: str, required: bool = True) -> BilingualText:
        """ "..." (English) or {"en": "...", "zh": "..."}."""
        value = self.data.get(field)
        text = BilingualText()
        if isinstance(value, str):
            text = BilingualText(en=value.strip())
        elif isinstance(value, Mapping):
            if set(value) - set(LANGS) or not all(isinstance(part, str | None) for part in value.values()):
                raise self.fail(field, 'a string or {"en": "...", "zh": "..."}', value)
            text = BilingualText(**{lang: (value.get(lang) or "").strip() for lang in LANGS})
        elif value is not None:
            raise self.fail(field, 'a string or {"en": "...", "zh": "..."}', value)
        if required and not text:
            raise self.fail(field, "a text in at least one language", value)
        self._check_length(field, text.en, text.zh)
        return text

    def _check_length(self, field: str, *texts: str) -> None:
        if (length := max(map(len, texts))) > LONGEST_TEXT:
            raise self.fail(field, f"at most {LONGEST_TEXT:,} characters", f"{length:,}")

    def listing(self, field: str, required: bool = True) -> list[Any]:
        value = self.data.get(field)
        if value is None and not required:
            return []
        if not isinstance(value, list) or (required and not value):
            raise self.fail(field, "a non-empty list" if required else "a list", value)
        return value

    def inner(self, field: str) -> UntrustedRow | None:
        """The object in `field`, or None if it is missing."""
        value = self.data.get(field)
        return None if value is None else UntrustedRow(value, self.file, self.row, f"{self.prefix}{field}.")

    def inners(self, field: str) -> list[UntrustedRow]:
        """The objects listed in `field`; an empty list if it is missing."""
        values = self.listing(field, required=False)
        return [UntrustedRow(v, self.file, self.row, f"{self.prefix}{field}[{i}].") for i, v in enumerate(values)]

    def numbers(self, field: str, value: Any, length: int) -> tuple[float, ...]:
        """`value` (found in `field`) as `length` finite numbers."""
        valid = isinstance(value, list | tuple) and len(value) == length and all(map(_finite, value))
        if not valid:
            raise self.fail(field, f"{length} finite numbers", value)
        return tuple(float(number) for number in value)

    def size(self, field: str) -> tuple[int, int] | None:
        """[width, height] in pixels, or None if the field is missing."""
        value = self.data.get(field)
        if value is None:
            return None
        valid = isinstance(value, list) and len(value) == 2 and all(is_whole(n, 1, LARGEST_SIDE) for n in value)
        if not valid:
            raise self.fail(field, f"[width, height] in pixels, whole numbers from 1 to {LARGEST_SIDE:,}", value)
        return value[0], value[1]

    def image(self, field: str, value: Any) -> str:
        """`value` (found in `field`) as a safe path relative to the image folder."""
        return safe_path(value, self.file, self.row, self.prefix + field)

    def image_list(self) -> tuple[str, ...]:
        """The row's `images`, or its single `image`."""
        if self.data.get("images") is not None:
            return tuple(self.image("images", path) for path in self.listing("images"))
        return (self.image("image", self.data.get("image")),)

    def strings(self, field: str) -> tuple[str, ...]:
        """A list of strings; empty if the field is missing."""
        values = self.listing(field, required=False)
        if not all(isinstance(value, str) for value in values):
            raise self.fail(field, "a list of strings", values)
        return tuple(values)


def safe_path(path: Any, file: object, row: int | str | None, field: str) -> str:
    """`path` in normal form ("a/b.jpg"); raises DataError for one that could lead out of the image root."""
    if fault := path_fault(path):
        raise DataError(file, row, field, fault, path, "Image paths are relative to the folder given by --images.")
    return str(PurePosixPath(path))


def _similar(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"Did you mean '{near[0]}'?" if near else ""


def _finite(number: Any) -> bool:
    return is_number(number) and abs(number) < 1e9


def plain(number: float) -> str:
    """A coordinate as text: at most two decimals, without trailing zeros."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
