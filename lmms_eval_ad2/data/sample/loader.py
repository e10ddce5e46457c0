"""Copy the sample into the data home: three datasets with a common image folder.

    HOME/data/sample_images/{ad2,coda,six}/*.jpg
    HOME/data/sample_images/version                      written after the last dataset
    HOME/data/sample_{ad2_bench,coda_lm,autodrive_qa}/test/

Several processes may need the sample at once (the ranks of a run): one writes it under a file lock, the others wait.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data import home as data_home
from lmms_eval_ad2.data.home import DatasetManifest
from lmms_eval_ad2.storage.lock import lock_in_turn

BENCHMARKS = ("ad2_bench", "coda_lm", "autodrive_qa")
SPLIT = "test"
PACKAGE_DATA = resources.files(__package__)


def dataset_name(benchmark: str) -> str:
    return f"sample_{benchmark}"


def image_root(home: Path | None = None) -> Path:
    return (home or data_home.home()) / "data" / "sample_images"


def ensure_sample(home: Path | None = None) -> dict[str, DatasetManifest]:
    """The sample's manifests by dataset name; writes the sample if it is missing or of another version."""
    found = _present(home)
    return found if found is not None else write_sample(home)


def write_sample(home: Path | None = None) -> dict[str, DatasetManifest]:
    """Copy all images and store all records; returns the manifests by dataset name."""
    root = image_root(home)
    root.mkdir(parents=True, exist_ok=True)
    with lock_in_turn(root / ".lock") as waited:
        if waited and (done := _present(home)) is not None:
            return done
        (root / "version").unlink(missing_ok=True)
        _copy_images(root)
        version = packaged_version()
        manifests = {
            dataset_name(b): data_home.write_dataset(
                dataset_name(b), SPLIT, _records(b), image_root=root, source={"generator": version}, home=home,
                resume=False,
            )
            for b in BENCHMARKS
        }  # fmt: skip
        (root / "version").write_text(version + "\n", encoding="utf-8")
        return manifests


def packaged_version() -> str:
    """The version of the sample in this package, which is that of its generator."""
    return str(json.loads(PACKAGE_DATA.joinpath("version.json").read_text("utf-8"))["generator"])


def _copy_images(root: Path) -> None:
    for folder in PACKAGE_DATA.joinpath("images").iterdir():
        (root / folder.name).mkdir(exist_ok=True)
        for image in folder.iterdir():
            (root / folder.name / image.name).write_bytes(image.read_bytes())


def _records(benchmark: str) -> Iterator[Record]:
    with PACKAGE_DATA.joinpath("records", f"{benchmark}.jsonl").open("r", encoding="utf-8") as lines:
        yield from map(Record.from_json, lines)


def _present(home: Path | None) -> dict[str, DatasetManifest] | None:
    """The stored manifests, or None unless images and all three datasets are present in this package's version."""
    root, version = image_root(home), packaged_version()
    try:
        if (root / "version").read_text(encoding="utf-8").strip() != version:
            return None
        datasets = [data_home.open_dataset(dataset_name(b), SPLIT, home=home) for b in BENCHMARKS]
    except (OSError, Ad2Error):
        return None
    if any(d.image_root != root or d.manifest.source.get("generator") != version for d in datasets):
        return None
    return {d.name: d.manifest for d in datasets}
