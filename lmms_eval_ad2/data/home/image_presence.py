"""Whether the images of a release are in its image folder, counted while the records are imported."""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record

log = logging.getLogger(__name__)

FIRST = 500  # records: if none of them has its images, the folder is wrong, and the rest is not read
LEAST = 0.5  # share of records with all their images, below which an import is refused
_EXAMPLES = 2


class MissingImagesError(Ad2Error):
    """The image folder has none or few of the release's images."""


class ImagePresence:
    """Counts the records of a dataset that have all their images in `root`. `required`: few are an error."""

    def __init__(self, root: Path, name: str, split: str, *, required: bool) -> None:
        self.root, self.name, self.label, self.required = root, name, f"{name} ({split})", required
        self.records = self.complete = 0
        self.examples: dict[str, None] = {}
        self._is_file = lru_cache(maxsize=8192)(lambda path: (root / path).is_file())

    def add(self, record: Record) -> None:
        """Count one record; raises MissingImagesError if `required` and the first ones have no images at all."""
        missing = [path for path in record.images if not self._is_file(path)]
        self.records += 1
        self.complete += not missing
        for path in missing:
            if len(self.examples) < _EXAMPLES:
                self.examples[path] = None
        if self.required and self.records == FIRST and not self.complete:
            raise self._error(f"the images of none of the first {FIRST} records are")

    def check(self) -> None:
        """Raise MissingImagesError if `required` and few images are there; else warn of missing ones."""
        if self.complete == self.records:
            return
        found = f"the images of {self.complete} of {self.records} records are"
        if self.required and self.complete < LEAST * self.records:
            raise self._error(found)
        log.warning(
            "%s: %s in %s; missing, e.g. %s. If the images are elsewhere: ad2 data verify %s --images DIR",
            self.label, found, self.root, ", ".join(self.examples), self.name,
        )  # fmt: skip

    def _error(self, found: str) -> MissingImagesError:
        return MissingImagesError(
            f"{self.label}: {found} in {self.root}; missing, e.g. {', '.join(self.examples)}. Give the folder that "
            "these paths are relative to: --images DIR, or import an incomplete release with --partial. Nothing was "
            "imported; an earlier import is unchanged"
        )
