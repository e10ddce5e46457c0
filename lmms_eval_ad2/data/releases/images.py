"""Image files of a release: safe relative paths, sizes from the header, optional full decoding."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.image_files import locate, open_image, path_fault

SUFFIX = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "BMP": ".bmp"}


def safe_path(path: Any, file: object, row: int | str | None, field: str) -> str:
    """`path` in normal form ("a/b.jpg"); raises DataError for one that could lead out of the image root."""
    if fault := path_fault(path):
        raise DataError(file, row, field, fault, path, "Image paths are relative to the folder given by --images.")
    return str(PurePosixPath(path))


def size_of(root: Path, name: str) -> tuple[int, int]:
    """(width, height) in pixels from the header; raises OSError if the file is not an image below `root`."""
    with open_image(locate(root, name)) as opened:
        return opened.size


def image_fault(root: Path, name: str, size: tuple[int, int] | None) -> str | None:
    """Decode the whole image `name` below `root`; returns its fault, or None. `size`: expected size in pixels."""
    try:
        with open_image(locate(root, name)) as opened:
            opened.load()
            found = opened.size
    except FileNotFoundError:
        return "file not found"
    except OSError as exc:
        return f"not a readable image ({exc})"
    if size is not None and tuple(size) != found:
        return f"size {found[0]}x{found[1]}, but {size[0]}x{size[1]} in the record"
    return None


def read_bytes(data: bytes) -> tuple[str, tuple[int, int]]:
    """File suffix and (width, height) of encoded image bytes; raises OSError if they are not an image."""
    with open_image(data) as opened:
        kind, size = opened.format or "", opened.size
    if kind not in SUFFIX:
        raise OSError(f"image format {kind}")
    return SUFFIX[kind], size
