"""Verify a dataset against its manifest: files, hashes, counts, every record, and optionally every image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home.dataset import Dataset, load_dataset
from lmms_eval_ad2.data.home.parts import RecordTally, read_part
from lmms_eval_ad2.data.home.record_check import record_fault
from lmms_eval_ad2.data.releases.base import image_fault
from lmms_eval_ad2.storage.files import file_sha256

SHOWN = 50  # problems listed; the others are only counted


@dataclass(frozen=True, slots=True)
class DatasetVerification:
    """Result of `verify`. `problems` lists the first 50 of `n_problems`; `n_images`: decoded image files."""

    name: str
    split: str
    n: int
    n_images: int
    n_problems: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.n_problems == 0


def verify(name: str, split: str, images: bool = False, *, home: Path | None = None) -> DatasetVerification:
    """Check a dataset. With `images`, each image is decoded and its size compared with the record's.

    Raises Ad2Error only if there is no such dataset; every other fault is a problem in the result.
    """
    dataset = load_dataset(name, split, home, checked=False)
    check = _Check(dataset, images)
    problems: list[str] = []
    total = 0
    for problem in check.run():
        total += 1
        if len(problems) < SHOWN:
            problems.append(problem)
    return DatasetVerification(
        name=name,
        split=split,
        n=check.tally.n,
        n_images=len(check.seen_images),
        n_problems=total,
        problems=tuple(problems),
    )


class _Check:
    def __init__(self, dataset: Dataset, images: bool) -> None:
        self.dataset, self.images = dataset, images
        self.tally = RecordTally()
        self.seen_images: set[str] = set()
        self._fault = lru_cache(maxsize=8192)(image_fault)

    def run(self) -> Iterator[str]:
        manifest = self.dataset.manifest
        for path, part in zip(self.dataset.parts, manifest.parts, strict=True):
            if file_sha256(path) != part.sha256:
                yield f"{path.name}: the file has changed since the import (sha256)"
            try:
                for row in read_part(path):
                    yield from self._row(row)
            except Ad2Error as exc:
                yield str(exc)
        if self.tally.n != manifest.n:
            yield f"{self.tally.n} records, but {manifest.n} in the manifest"
        if self.tally.sha256 != manifest.sha256:
            yield "the records are not those of the manifest (sha256)"
        for name, counts in self.tally.sorted_counts().items():
            if counts != dict(manifest.counts[name]):
                yield f"counts by {name}: {counts}, but {dict(manifest.counts[name])} in the manifest"
        if self.images and not self.dataset.image_root.is_dir():
            yield f"image folder not found: {self.dataset.image_root}"

    def _row(self, row: dict[str, str]) -> Iterator[str]:
        label = f"record '{row['id']}'"
        if self.tally.seen(row["id"]):
            yield f"{label}: the id occurs twice"
        self.tally.add(row["id"], row["task"], row["subtask"], row["form"], row["record"])
        try:
            record = Record.from_json(row["record"])
        except (ValueError, KeyError, TypeError) as exc:
            yield f"{label}: not a record ({exc})"
            return
        for name in ("id", "benchmark", "task", "subtask", "form"):
            if getattr(record, name) != row[name]:
                yield f"{label}: column {name} is '{row[name]}', but '{getattr(record, name)}' in the record"
        if fault := record_fault(record):
            yield f"{label}: field '{fault[0]}': expected {fault[1]}, found {fault[2]!r}"
        elif self.images and self.dataset.image_root.is_dir():
            for path in record.images:
                self.seen_images.add(path)
                if problem := self._fault(self.dataset.image_root, path, record.image_size):
                    yield f"{label}: image {path}: {problem}"
