"""Interface of the readers: `BenchmarkRelease.open(...) -> OpenedRelease`, which iterates over items."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.storage.image_files import locate, open_image
from lmms_eval_ad2.storage.shown_image import read_header, shown_rgb

# The six cameras of nuScenes, used by DriveLM and NuScenes-QA: order, image size and file names.

CAMERAS = ("CAM_FRONT", "CAM_FRONT_LEFT", "CAM_FRONT_RIGHT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT")
SIZE = (1600, 900)  # width, height of every camera image, pixels
# DriveLM's paths are relative to its own folders; the part that identifies the file begins at samples/.
_PREFIX = re.compile(r"(?:\./|\.\./nuscenes/|data/nuscenes/|nuscenes/)?(samples|sweeps)/")


def camera_path(row: UntrustedRow, field: str, value: Any) -> str:
    """Convert an annotated path to "samples/CAM_FRONT/....jpg"; raises DataError for an unsafe one."""
    text = value if isinstance(value, str) else ""
    prefix = _PREFIX.match(text)
    return row.image(field, text[prefix.start(1) :] if prefix else value)


def six_cameras(row: UntrustedRow, paths: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(images, views), front camera first; raises DataError if a camera is missing or unknown."""
    unknown = sorted(set(paths) - set(CAMERAS))
    if unknown:
        raise row.fail("image_paths", f"the cameras {', '.join(CAMERAS)}", unknown[0])
    missing = [camera for camera in CAMERAS if camera not in paths]
    if missing:
        raise row.fail("image_paths", "a path for each of the six cameras", f"none for {', '.join(missing)}")
    return tuple(camera_path(row, f"image_paths.{camera}", paths[camera]) for camera in CAMERAS), CAMERAS


# Image files of a release: sizes from the header, optional full decoding.
SUFFIX = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "BMP": ".bmp"}


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


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read. The caller decides whether to stop or to count it and continue."""

    error: DataError


@dataclass(frozen=True, slots=True)
class OmittedRow:
    """A row that is omitted on purpose (an empty question in the release): counted, but not a fault."""

    reason: str


Item = Record | BadRow | OmittedRow


@dataclass(frozen=True, slots=True)
class OpenedRelease:
    """An opened release.

    `records` starts a new iteration at each call and yields the same items in the same order.
    `files` are the annotation files that are read (not the images).
    `expected`: number of records by task for a known release; empty otherwise.
    `notes`: what the user should know about the opened files; printed, and kept in the manifest.
    """

    split: str
    image_root: Path
    records: Callable[[], Iterator[Item]]
    files: list[Path]
    expected: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class ReleaseOpener(Protocol):
    def __call__(
        self, source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]
    ) -> OpenedRelease: ...


@dataclass(frozen=True, slots=True)
class BenchmarkRelease:
    """One reader. `open` raises Ad2Error if `source` does not have the layout described in `schema`.

    `options` of `open`: "format" (one of `formats`), "partial" ("1": counts are not checked),
    "extract_to" (folder for images contained in the annotation files), "metadata" (file with the time and weather of
    the images; only if `metadata` is True).
    """

    name: str
    title: str
    schema: str
    open: ReleaseOpener
    formats: tuple[str, ...] = ("default",)
    metadata: bool = False

    def format_of(self, options: Mapping[str, str]) -> str:
        """The requested format, by default the first one."""
        name = options.get("format") or self.formats[0]
        if name not in self.formats:
            raise Ad2Error(f"{self.name}: no format '{name}'; formats: {', '.join(self.formats)}")
        return name


def existing(path: Path, what: str) -> Path:
    """`path`, absolute; raises Ad2Error with `what` if it does not exist."""
    if not path.exists():
        raise Ad2Error(f"{what} not found: {path}")
    return path.resolve()


def image_folder(given: Path | None, candidates: list[Path], holds: str) -> Path:
    """The folder given by --images, or the first candidate that contains `holds`."""
    if given is not None:
        if not given.is_dir():
            raise Ad2Error(f"--images: no such folder: {given}")
        return given.resolve()
    for folder in candidates:
        if (folder / holds).is_dir():
            return folder.resolve()
    tried = ", ".join(str(c) for c in candidates)
    raise Ad2Error(f"no images found: none of these contains a folder '{holds}': {tried}. Give it: --images DIR")
