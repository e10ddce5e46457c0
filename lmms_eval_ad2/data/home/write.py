"""Records -> a dataset in the data home, part by part; killed at any time, the same call goes on (layout: home.py)."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2 import __version__
from lmms_eval_ad2.data.home.location import split_dir
from lmms_eval_ad2.data.home.manifest import Manifest
from lmms_eval_ad2.data.home.parts import PART_SIZE, file_sha256
from lmms_eval_ad2.data.home.staging import Stage, Stale
from lmms_eval_ad2.data.releases.base import Item
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.storage.identity import digest
from lmms_eval_ad2.storage.lock import lock_in_turn

log = logging.getLogger(__name__)
_BUSY = "%s is being imported by another process: waiting for it"


def write_dataset(
    name: str,
    split: str,
    records: Iterable[Item],
    *,
    image_root: Path,
    source: Mapping[str, Any],
    skip_bad: bool = False,
    check_images: bool = False,
    home: Path | None = None,
    resume: bool = True,
    expected: Mapping[str, int] | None = None,
    part_size: int = PART_SIZE,
) -> Manifest:
    """Store `records` as dataset `name`, split `split`, and replace a former one only when all are written.

    `source` tells where the records come from (JSON-able) and belongs to the identity of the
    import: an interrupted one goes on only with the same source and arguments.
    `expected` gives the number of records by task; other numbers raise DataError.
    Raises DataError at the first bad row (with `skip_bad` it is counted and listed in
    bad_rows.jsonl), at a repeated id, and Ad2Error where nothing is left to store.
    """
    final = split_dir(name, split, home)
    final.parent.mkdir(parents=True, exist_ok=True)
    key = import_key(image_root, source, skip_bad, check_images, part_size)
    with lock_in_turn(final.parent / f".{split}.lock", lambda: log.warning(_BUSY, f"{name} {split}")) as waited:
        # Whoever held the lock may have written just this (ranks of one run that all want the sample).
        if waited and (done := finished(final, key)):
            return done
        new = final.with_name(f".{split}.new")
        label = f"{name} {split}"
        with Stage(new, label, key, Path(image_root), skip_bad, check_images, part_size, resume) as stage:
            try:
                _pour(stage, records, label)
            except Stale as exc:
                shutil.rmtree(new)
                raise Ad2Error(
                    f"{label}: {exc}; what was written of it is removed: run the same command again"
                ) from exc
        _check_counts(stage, expected or {}, label)
        manifest = Manifest(
            name=name, split=split, n=stage.tally.n, sha256=stage.tally.sha256, counts=stage.tally.sorted_counts(),
            parts=tuple(stage.parts), image_root=str(Path(image_root).absolute()), source=dict(source),
            version=__version__, created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), key=key,
            bad_rows=stage.bad_rows, left_out=dict(sorted(stage.left_out.items())),
        )  # fmt: skip
        manifest.save(new)
        _exchange(new, final)
    return manifest


def finished(folder: Path, key: str) -> Manifest | None:
    """The manifest of `folder` where it is the whole result of just this import, its parts unchanged."""
    try:
        manifest = Manifest.load(folder)
    except (FileNotFoundError, Ad2Error):
        return None
    if manifest.key != key:
        return None
    parts = [(folder / part.file, part.sha256) for part in manifest.parts]
    return manifest if all(path.is_file() and file_sha256(path) == sha for path, sha in parts) else None


def import_key(
    image_root: Path, source: Mapping[str, Any], skip_bad: bool, check_images: bool, part_size: int = PART_SIZE
) -> str:
    """The identity of an import: what it reads, with which version and arguments."""
    arguments = (skip_bad, check_images, part_size)
    return digest([__version__, str(Path(image_root).absolute()), dict(source), *arguments])


def _pour(stage: Stage, records: Iterable[Item], label: str) -> None:
    with tqdm(desc=label, unit=" records", disable=None) as bar:
        for item in records:
            stage.take(item)
            if isinstance(item, Record):
                bar.update()
    stage.finish()


def _check_counts(stage: Stage, expected: Mapping[str, int], label: str) -> None:
    if stage.tally.n == 0:
        raise Ad2Error(f"{label}: no record could be read ({stage.bad_rows} bad rows)")
    for task, number in expected.items():
        found = stage.tally.counts["task"].get(task, 0)
        if found != number:
            skipped = f" ({stage.bad_rows} bad rows were skipped)" if stage.bad_rows else ""
            hint = "Fetch the whole release, or take what there is with --partial."
            raise DataError(label, None, f"task {task}", f"{number} records in all", f"{found}{skipped}", hint)


def _exchange(new: Path, final: Path) -> None:
    old = final.with_name(f".{final.name}.old")
    if old.exists():
        shutil.rmtree(old)
    if final.exists():
        final.rename(old)
    new.rename(final)
    (final / "progress.json").unlink()
    if old.exists():
        shutil.rmtree(old)
