"""Opening the image files of data sets and runs. All code that opens such a file does it here.

An image name of a release is untrusted, and so is the file. `locate` resolves a name below the image folder; a link
that leads out of it is refused, unless its target is below a folder that the user has allowed:

    AD2_IMAGE_FOLDERS=DIR[:DIR...]   in the environment
    $AD2_HOME/image_folders          one folder per line: those that `ad2 mcq build` has linked into a set

`open_image` accepts a regular file in one of FORMATS, of at most MOST_BYTES and MOST_PIXELS, whose header demands no
more of the decoder than is usual (decoder_bounds.py). What is shown of it is in shown_image.py.

Memory: decoding needs at most 16 bytes per pixel (WebP; a progressive CMYK JPEG needs 12), thus 800 MB.
"""

from __future__ import annotations

import io
import os
import re
import struct
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from lmms_eval_ad2.core.errors import require
from lmms_eval_ad2.storage.decoder_bounds import MOST_BYTES, MOST_PIXELS, check_header, check_opened
from lmms_eval_ad2.storage.files import atomic_write, file_sha256, home, open_regular

if TYPE_CHECKING:
    from PIL.Image import Image

ALLOWED_FOLDERS = "AD2_IMAGE_FOLDERS"
FORMATS = (
    "JPEG",
    "PNG",
    "WEBP",
    "BMP",
    "GIF",
    "TIFF",
)  # Pillow's others include PostScript, which starts another program
LONGEST_NAME, LONGEST_PART = 1024, 255  # bytes of an image name, and of a part of it between slashes

_FAULTS = (SyntaxError, ValueError, EOFError, struct.error)  # of Pillow, while a damaged image is decoded
_DRIVE = re.compile(r"[A-Za-z]:")


class ImageOutsideError(OSError):
    """An image name, or its link, that leads out of the image folder. The file is not opened."""


def path_fault(path: Any) -> str | None:
    """The expected kind of path if `path` must not be opened below an image folder, else None."""
    if not isinstance(path, str) or not path.strip():
        return "a non-empty path"
    if "\\" in path or "://" in path or any(unicodedata.category(char) in ("Cc", "Cs") for char in path):
        return "a plain path with forward slashes"
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        return "a path relative to the image folder"
    parts = PurePosixPath(path).parts
    if ".." in parts:
        return "a path without '..'"
    if len(path.encode()) > LONGEST_NAME or any(len(part.encode()) > LONGEST_PART for part in parts):
        return f"a path of at most {LONGEST_NAME:,} bytes, {LONGEST_PART} for each of its parts"
    return None


def locate(root: Path, name: str) -> Path:
    """The path of image `name` below the folder `root`, with all links resolved.

    Raises FileNotFoundError if there is none, ImageOutsideError for a name or link that leads out of the folder.
    """
    if fault := path_fault(name):
        raise ImageOutsideError(f"expected {fault}")
    try:
        path = (root / name).resolve(strict=True)
    except RuntimeError as exc:  # before Python 3.13, for links in a circle
        raise OSError("links in a circle") from exc
    if not any(path.is_relative_to(folder) for folder in (_resolved(root), *_allowed_folders())):
        raise ImageOutsideError(f"a link out of the image folder ({ALLOWED_FOLDERS}=DIR allows its target): {path}")
    return path


def allow_links_to(folder: Path) -> None:
    """Allow links into `folder` from now on, for all commands of this data home."""
    path = str(folder.resolve())
    if path not in map(str, _allowed_folders()):
        with atomic_write(_registry()) as handle:
            handle.writelines(f"{line}\n" for line in (*_registered(), path))


def _registry() -> Path:
    return home() / "image_folders"


def _registered() -> tuple[str, ...]:
    try:
        status = _registry().stat()
    except OSError:
        return ()
    return _lines(_registry(), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _lines(file: Path, changed_ns: int, size: int) -> tuple[str, ...]:
    return tuple(file.read_text("utf-8").splitlines())


def _allowed_folders() -> list[Path]:
    given = [part for part in os.environ.get(ALLOWED_FOLDERS, "").split(os.pathsep) if part]
    return [*(_resolved(Path(part).expanduser()) for part in given), *map(Path, _registered())]


@lru_cache(maxsize=256)
def _resolved(folder: Path) -> Path:
    return folder.resolve()


def image_sha256(root: Path, name: str) -> str:
    """Hexadecimal sha256 of an image file; raises OSError as `locate`."""
    return file_sha256(locate(root, name))


@contextmanager
def open_image(
    source: Path | bytes, *, formats: tuple[str, ...] = FORMATS, most_pixels: int = MOST_PIXELS
) -> Iterator[Image]:
    """An image with its header read; decoded in the block, where a truncated one raises OSError.

    What Pillow raises for a file that is not a whole image is raised as OSError. Decode it with shown_image.shown_rgb.
    """
    pillow = require("PIL.Image", "to read images")
    with _binary(source) as file, _strictly():
        with unreadable():
            check_header(file)
            try:
                image = pillow.open(file, formats=formats)
            except pillow.UnidentifiedImageError:
                raise OSError(f"not an image in a known format ({', '.join(formats)})") from None
        with image:
            with unreadable():
                check_opened(image, most_pixels)
            try:
                yield image
            except _FAULTS as exc:
                raise OSError(f"{type(exc).__name__}: {exc}") from exc


@contextmanager
def unreadable() -> Iterator[None]:
    """Within the block, which only reads an image, every error of Pillow is raised as OSError.

    Its class depends on the format and on where a file is damaged; there is no complete list.
    """
    try:
        yield
    except OSError:
        raise
    except Exception as exc:
        raise OSError(f"{type(exc).__name__}: {exc}") from exc


_strict_lock = threading.Lock()
_strict_blocks, _lenient_outside = 0, False  # blocks of `_strictly` that are open, and Pillow's setting outside of them


@contextmanager
def _strictly() -> Iterator[None]:
    """Within the block, loading a truncated image raises OSError, although lmms-eval sets Pillow to accept it.

    The setting is the process's: it is restored when the last of the blocks that are open in all threads ends.
    """
    global _strict_blocks, _lenient_outside
    from PIL import ImageFile

    with _strict_lock:
        _lenient_outside = ImageFile.LOAD_TRUNCATED_IMAGES or (_strict_blocks > 0 and _lenient_outside)
        _strict_blocks += 1
        ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        yield
    finally:
        with _strict_lock:
            _strict_blocks -= 1
            if not _strict_blocks:
                ImageFile.LOAD_TRUNCATED_IMAGES = _lenient_outside


def _binary(source: Path | bytes) -> BinaryIO:
    file = io.BytesIO(source) if isinstance(source, bytes) else open_regular(source)
    if (size := file.seek(0, os.SEEK_END)) > MOST_BYTES:
        file.close()
        raise OSError(f"{size:,} bytes, more than {MOST_BYTES:,}")
    file.seek(0)
    return file
