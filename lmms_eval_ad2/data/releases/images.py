"""Image files of a release: safe relative paths, sizes from the header, optional full decoding (by Pillow)."""

from __future__ import annotations

import io
import re
from pathlib import Path, PurePosixPath
from typing import Any

from lmms_eval_ad2.errors import DataError, require
from lmms_eval_ad2.strict_pillow import strictly

_DRIVE = re.compile(r"[A-Za-z]:")
SUFFIX = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "BMP": ".bmp"}


def path_fault(path: Any) -> str | None:
    """The expected kind of path if `path` must not be opened below an image root, else None."""
    if not isinstance(path, str) or not path.strip():
        return "a non-empty path"
    if "\\" in path or "\0" in path or "://" in path:
        return "a plain path with forward slashes"
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        return "a path relative to the image folder"
    if ".." in PurePosixPath(path).parts:
        return "a path without '..'"
    return None


def safe_path(path: Any, file: object, row: int | str | None, field: str) -> str:
    """`path` in normal form ("a/b.jpg"); raises DataError for one that could lead out of the image root."""
    if fault := path_fault(path):
        raise DataError(file, row, field, fault, path, "Image paths are relative to the folder given by --images.")
    return str(PurePosixPath(path))


def size_of(path: Path) -> tuple[int, int]:
    """(width, height) in pixels from the header; raises OSError if the file is not an image."""
    return _header(path)[1]


def image_fault(path: Path, size: tuple[int, int] | None) -> str | None:
    """Decode a whole image; returns its fault, or None. `size`: expected size in pixels."""
    image = require("PIL.Image", "to check images")
    try:
        with strictly(), image.open(path) as opened:
            opened.load()
            found = opened.size
    except FileNotFoundError:
        return "file not found"
    except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as exc:
        return f"not a readable image ({exc})"
    if size is not None and tuple(size) != found:
        return f"size {found[0]}x{found[1]}, but {size[0]}x{size[1]} in the record"
    return None


def read_bytes(data: bytes) -> tuple[str, tuple[int, int]]:
    """File suffix and (width, height) of encoded image bytes; raises OSError if they are not an image."""
    kind, size = _header(io.BytesIO(data))
    if kind not in SUFFIX:
        raise OSError(f"image format {kind}")
    return SUFFIX[kind], size


def _header(source: Any) -> tuple[str, tuple[int, int]]:
    """Format and size; every error of Pillow is raised as OSError."""
    image = require("PIL.Image", "to read images")
    try:
        with image.open(source) as opened:
            return opened.format or "", opened.size
    except (ValueError, SyntaxError, image.DecompressionBombError) as exc:
        raise OSError(str(exc)) from exc
