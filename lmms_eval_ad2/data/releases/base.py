"""Protocol of readers: `BenchmarkRelease.open(...) -> OpenedRelease`, an iterator of Record, BadRow and OmittedRow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.records import Record


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read. Whoever takes the records decides: stop there, or count it and go on."""

    error: DataError


@dataclass(frozen=True, slots=True)
class OmittedRow:
    """A row that is left out on purpose (an empty question in the release): counted and told, no fault."""

    reason: str


Item = Record | BadRow | OmittedRow


@dataclass(frozen=True, slots=True)
class OpenedRelease:
    """An opened release.

    `records` starts a new pass at each call and yields the same items in the same order.
    `files` are the annotation files that are read (not the images).
    `expected` gives the number of records by task where the release is known; empty otherwise.
    """

    split: str
    image_root: Path
    records: Callable[[], Iterator[Item]]
    files: list[Path]
    expected: Mapping[str, int] = field(default_factory=dict)


class ReleaseOpener(Protocol):
    def __call__(
        self, source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]
    ) -> OpenedRelease: ...


@dataclass(frozen=True, slots=True)
class BenchmarkRelease:
    """One reader. `open` raises Ad2Error where `source` has not the layout that `schema` tells.

    `options` of `open`: "format" (one of `formats`), "partial" ("1": counts are not checked),
    "extract_to" (folder for images that lie inside the annotation files).
    """

    name: str
    title: str
    schema: str
    open: ReleaseOpener
    formats: tuple[str, ...] = ("default",)

    def format_of(self, options: Mapping[str, str]) -> str:
        """The format that was asked for, the first one by default."""
        wanted = options.get("format") or self.formats[0]
        if wanted not in self.formats:
            raise Ad2Error(f"{self.name}: no format '{wanted}'; formats: {', '.join(self.formats)}")
        return wanted


def existing(path: Path, what: str) -> Path:
    """`path`, absolute; raises Ad2Error naming `what` where there is nothing."""
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
    raise Ad2Error(f"no images found: none of these holds a folder '{holds}': {tried}. Give it: --images DIR")
