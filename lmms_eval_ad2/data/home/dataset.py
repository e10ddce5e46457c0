"""Read the data home: open a dataset, list the datasets, change the image folder of a dataset."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home.manifest import DatasetManifest, split_dir
from lmms_eval_ad2.data.home.manifest import home as default_home
from lmms_eval_ad2.data.home.parts import read_records
from lmms_eval_ad2.data.releases import RELEASES, parquet

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Dataset:
    """An imported dataset. Image paths of its records are relative to `image_root`."""

    name: str
    split: str
    parts: list[Path]
    image_root: Path
    sha256: str
    n: int
    manifest: DatasetManifest

    def records(self) -> Iterator[Record]:
        """All records in the order of the release, one part in memory at a time."""
        return read_records(self.parts)


class DamagedDatasetError(Ad2Error):
    """A file of a dataset is missing or damaged; the message names it, and the command that imports it again."""


def damage(manifest: DatasetManifest, home: Path | None = None, *, ends: bool = True) -> str:
    """The first file of a dataset that is missing or, with `ends`, cut off, as a line for the user; "" if none is.

    `verify` finds other damage too.
    """
    name, split = manifest.name, manifest.split
    for part in manifest.parts:
        path = split_dir(name, split, home) / part.file
        try:
            if not path.is_file():
                found = "is missing"
            elif not (ends and parquet.is_cut(path)):
                continue
            else:
                found = "is no complete parquet file"
        except OSError as exc:
            found = f"cannot be read ({exc.strerror or exc})"
        again = _command(name, split)
        return f"dataset {name} ({split}) is damaged: {path} {found}; import the data again: {again}"
    return ""


def load_dataset(name: str, split: str, home: Path | None = None, *, checked: bool = True) -> Dataset:
    """Like `open_dataset`, without checking the image folder. Not `checked`: parts may be cut off."""
    folder = split_dir(name, split, home)
    try:
        manifest = DatasetManifest.load(folder)
    except FileNotFoundError:
        raise Ad2Error(_missing(name, split, folder)) from None
    if fault := damage(manifest, home, ends=checked):
        raise DamagedDatasetError(fault)
    parts = [folder / part.file for part in manifest.parts]
    return Dataset(
        name=name,
        split=split,
        parts=parts,
        image_root=Path(manifest.image_root),
        sha256=manifest.sha256,
        n=manifest.n,
        manifest=manifest,
    )


def open_dataset(name: str, split: str, *, home: Path | None = None) -> Dataset:
    """The dataset; raises Ad2Error with the command to run if the dataset or its image folder is missing or damaged."""
    dataset = load_dataset(name, split, home)
    if not dataset.image_root.is_dir():
        raise Ad2Error(
            f"the images of {name} ({split}) are no longer at {dataset.image_root}: "
            f"ad2 data verify {name} --split {split} --images DIR"
        )
    return dataset


def list_datasets(*, home: Path | None = None) -> list[DatasetManifest]:
    """The manifests of all datasets, sorted by name and split. A damaged one is left out, with a warning."""
    found = []
    for path in sorted(((home or default_home()) / "data").glob("*/*/manifest.json")):
        if path.parent.name.startswith("."):
            continue
        try:
            found.append(DatasetManifest.load(path.parent))
        except Ad2Error as exc:
            log.warning("%s", exc)
    return found


def splits_of(name: str, home: Path | None = None) -> list[str]:
    """The imported splits of a dataset."""
    return [manifest.split for manifest in list_datasets(home=home) if manifest.name == name]


def relocate(name: str, split: str, images: Path, *, home: Path | None = None) -> DatasetManifest:
    """Set the image folder of a dataset to `images`; raises Ad2Error if the images are not there."""
    if not images.is_dir():
        raise Ad2Error(f"--images: no such folder: {images}")
    dataset = load_dataset(name, split, home)
    for record in islice(dataset.records(), 1):
        for path in record.images:
            if not (images / path).is_file():
                raise Ad2Error(f"{images} does not contain the images of {name} ({split}): there is no file {path}")
    manifest = dataclasses.replace(dataset.manifest, image_root=str(images.absolute()))
    manifest.save(split_dir(name, split, home))
    return manifest


def _command(name: str, split: str) -> str:
    if name in RELEASES:
        return f"ad2 data import {name} SOURCE --split {split}"
    if name.startswith("sample_"):
        return "ad2 demo (which adds the bundled sample)"
    return f"ad2 data import RELEASE SOURCE --split {split} --as {name}"


def _missing(name: str, split: str, folder: Path) -> str:
    imported = sorted(path.parent.name for path in folder.parent.glob("[!.]*/manifest.json"))
    others = f" (imported splits: {', '.join(imported)})" if imported else ""
    return f"dataset {name} ({split}) is not imported{others}: run: {_command(name, split)}"
