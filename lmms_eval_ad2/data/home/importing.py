"""Import a release on disk as a dataset in the data home."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.home.dataset import load_dataset
from lmms_eval_ad2.data.home.manifest import DatasetManifest, extracted_dir, split_dir
from lmms_eval_ad2.data.home.writer import ImagePresence, finished, import_key, remove_traces, write_dataset
from lmms_eval_ad2.data.releases import find_release
from lmms_eval_ad2.storage.files import file_sha256

LISTED = 50  # source files listed one by one in a manifest; more are recorded as one hash


def import_release(
    release: str,
    source: Path,
    *,
    split: str | None = None,
    images: Path | None = None,
    fmt: str | None = None,
    metadata: Path | None = None,
    name: str | None = None,
    skip_bad: bool = False,
    check_images: bool = False,
    partial: bool = False,
    home: Path | None = None,
    resume: bool = True,
) -> DatasetManifest:
    """Import `source` in the layout of `release` as dataset `name` (default: the name of the release).

    metadata: file with the time and weather of the images, for a release that can join it (CODA-LM).
    If `resume`, a dataset already imported from the same files with the same arguments is returned unchanged.

    Raises Ad2Error if `source` does not have the release's layout, DataError for bad rows (unless `skip_bad`) and for
    numbers of records that differ from the release's (unless `partial`). Raises MissingImagesError if less than half of
    the records have their images in the folder `images`, or if an import that has its images would be replaced
    (unless `partial`); otherwise missing images cause a warning.
    """
    reader = find_release(release)
    name = name or release
    options = {"format": fmt} if fmt else {}
    if partial:
        options["partial"] = "1"
    if metadata is not None:
        if not reader.metadata:
            raise Ad2Error(f"{release}: metadata is for releases whose images have time and weather in another file")
        options["metadata"] = str(metadata)
    options["extract_to"] = str(extracted_dir(name, home))
    opened = reader.open(Path(source), split=split, images=images, options=options)
    origin: dict[str, Any] = {
        "release": release,
        "path": str(Path(source).absolute()),
        "format": reader.format_of(options),
        "split": opened.split,
        "files": _files(opened.files),
        **({"notes": list(opened.notes)} if opened.notes else {}),
    }
    key = import_key(opened.image_root, origin, skip_bad, check_images)
    final = split_dir(name, opened.split, home)
    if resume and (done := finished(final, key)):
        remove_traces(final)
        return done
    required = not partial and (images is not None or _has_images(name, opened.split, home))
    presence = ImagePresence(opened.image_root, name, opened.split, required=required)
    return write_dataset(
        name, opened.split, opened.records(), image_root=opened.image_root, source=origin,
        skip_bad=skip_bad, check_images=check_images, home=home, resume=resume,
        expected={} if partial else opened.expected, presence=presence,
    )  # fmt: skip


def _has_images(name: str, split: str, home: Path | None) -> bool:
    """Whether the dataset is already imported, with the images of its first record."""
    try:
        dataset = load_dataset(name, split, home)
        first = next(dataset.records(), None)
    except Ad2Error:
        return False
    return first is not None and all((dataset.image_root / path).is_file() for path in first.images)


def _files(paths: list[Path]) -> list[Mapping[str, Any]]:
    """Path, bytes and sha256 of each file; for more than LISTED files, one entry with the hash of their hashes."""
    try:
        files: list[Mapping[str, Any]] = [
            {"path": str(p), "bytes": p.stat().st_size, "sha256": file_sha256(p)} for p in paths
        ]
    except OSError as exc:
        raise Ad2Error(f"cannot read {exc.filename}: {exc.strerror}") from exc
    if len(files) <= LISTED:
        return files
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file['path']}\0{file['sha256']}\n".encode())
    total = sum(p.stat().st_size for p in paths)
    return [{"path": str(paths[0].parent), "n": len(files), "bytes": total, "sha256": digest.hexdigest()}]
