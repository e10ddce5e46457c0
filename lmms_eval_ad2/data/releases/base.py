"""Interface of the readers: `BenchmarkRelease.open(...) -> OpenedRelease`, which iterates over items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record


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
