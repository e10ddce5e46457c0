"""Image files of a release: safe relative paths, sizes from the header, optional full decoding."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.image_files import locate, open_image, path_fault
from lmms_eval_ad2.storage.shown_image import read_header, shown_rgb

SUFFIX = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "BMP": ".bmp"}


def safe_path(path: Any, file: object, row: int | str | None, field: str) -> str:
    """`path` in normal form ("a/b.jpg"); raises DataError for one that could lead out of the image root."""
    if fault := path_fault(path):
        raise DataError(file, row, field, fault, path, "Image paths are relative to the folder given by --images.")
    return str(PurePosixPath(path))


def size_of(root: Path, name: str) -> tuple[int, int]:
    """(width, height) in pixels, as shown, from the header; raises OSError if it is not an image below `root`."""
    return read_header(locate(root, name)).size


def size_text(root: Path, name: str) -> str:
    """The size for a message; it names the file's EXIF orientation if there is one."""
    return str(read_header(locate(root, name)))


def image_fault(root: Path, name: str, size: tuple[int, int] | None) -> str | None:
    """Decode the whole image `name` below `root`; returns its fault, or None. `size`: expected size in pixels."""
    try:
        file = locate(root, name)
        with open_image(file) as opened:
            found = shown_rgb(opened).size
        stated = str(read_header(file)) if size is not None and tuple(size) != found else ""
    except FileNotFoundError:
        return "file not found"
    except OSError as exc:
        return f"not a readable image ({exc})"
    return f"size {stated}, but {size[0]}x{size[1]} in the record" if size is not None and stated else None


def read_bytes(data: bytes) -> tuple[str, tuple[int, int]]:
    """File suffix and (width, height) of encoded image bytes; raises OSError if they are not an image."""
    header = read_header(data)
    if header.format not in SUFFIX:
        raise OSError(f"image format {header.format}")
    return SUFFIX[header.format], header.size
