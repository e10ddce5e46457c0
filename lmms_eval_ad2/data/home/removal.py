"""Remove a dataset from the data home. Images are the user's and stay, except copies that an import extracted."""

from __future__ import annotations

import difflib
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.home.dataset import list_datasets
from lmms_eval_ad2.data.home.manifest import DatasetManifest, extracted_dir, split_dir
from lmms_eval_ad2.data.home.manifest import home as default_home
from lmms_eval_ad2.storage.lock import lock_in_turn

log = logging.getLogger(__name__)

OWN_FILES = ("manifest.json", "records-*.parquet", "bad_rows.jsonl", "progress.json", ".*.tmp")


@dataclass(frozen=True, slots=True)
class RemovedDataset:
    """What was removed: `n` records (None: its manifest was damaged or missing), and the folders.

    kept: reasons why something stays. image_root: the user's image folder, which is never touched.
    """

    name: str
    split: str
    n: int | None
    folders: tuple[Path, ...]
    kept: tuple[str, ...] = ()
    image_root: str | None = None


def stored_splits(home: Path | None = None) -> dict[str, list[str]]:
    """Dataset -> its splits in the data home, complete, damaged, or left by an interrupted import."""
    found: dict[str, set[str]] = {}
    for folder in sorted(((home or default_home()) / "data").glob("*/*")):
        hidden = folder.name.startswith(".")
        if hidden and folder.name.endswith(".new"):
            found.setdefault(folder.parent.name, set()).add(folder.name.removeprefix(".").removesuffix(".new"))
        elif not hidden and ((folder / "manifest.json").exists() or any(folder.glob("records-*.parquet"))):
            found.setdefault(folder.parent.name, set()).add(folder.name)
    return {name: sorted(splits) for name, splits in found.items()}


def remove(name: str, split: str | None = None, *, home: Path | None = None) -> RemovedDataset:
    """Remove a split; without `split` the only one. Waits for an import of it that is running.

    Raises Ad2Error, with the similar names, for a dataset or split that is not there, and if `split` is not given and
    there are several.
    """
    split = _known(name, split, stored_splits(home))
    final = split_dir(name, split, home)
    busy = f"{name} ({split}) is being imported: waiting for it"
    with lock_in_turn(final.parent / f".{split}.lock", lambda: log.warning("%s", busy)):
        try:
            manifest = DatasetManifest.load(final)
        except (FileNotFoundError, Ad2Error):
            manifest = None
        folders, kept = [], []
        if final.is_dir():
            others = _remove_own(final)
            kept += [f"{others} other files in {final}"] if others else []
            folders += [final]
        for part in (final.with_name(f".{split}.new"), final.with_name(f".{split}.old")):
            if part.exists():
                shutil.rmtree(part)
                folders.append(part)
        copies = extracted_dir(name, home) / split
        if copies.is_dir() and not copies.is_symlink():
            users = [m for m in list_datasets(home=home) if Path(m.image_root).is_relative_to(copies)]
            if users:
                kept.append(f"the images in {copies}, which {users[0].name} ({users[0].split}) uses")
            else:
                shutil.rmtree(copies)
                folders.append(copies)
    root = manifest.image_root if manifest and not Path(manifest.image_root).is_relative_to(copies) else None
    return RemovedDataset(name, split, manifest.n if manifest else None, tuple(folders), tuple(kept), root)


def _known(name: str, split: str | None, stored: dict[str, list[str]]) -> str:
    """The split to remove."""
    if name not in stored:
        near = difflib.get_close_matches(name, list(stored), 3, 0.5)
        known = f"did you mean {' or '.join(near)}?" if near else f"imported: {', '.join(stored) or 'none'}"
        raise Ad2Error(f"no dataset '{name}' in the data home; {known} (ad2 data list)")
    splits = stored[name]
    if split is None and len(splits) > 1:
        raise Ad2Error(f"{name} has the splits {', '.join(splits)}: name the one to remove with --split")
    if split is not None and split not in splits:
        near = difflib.get_close_matches(split, splits, 1, 0.5)
        known = f"did you mean {near[0]}?" if near else f"its splits: {', '.join(splits)}"
        raise Ad2Error(f"{name} has no split '{split}'; {known}")
    return split or splits[0]


def _remove_own(folder: Path) -> int:
    """Remove the files that an import writes, the manifest first; returns the number of others, which stay."""
    for pattern in OWN_FILES:
        for path in folder.glob(pattern):
            path.unlink()
    others = sum(1 for path in folder.rglob("*") if not path.is_dir())
    if not others:
        shutil.rmtree(folder)
    return others
