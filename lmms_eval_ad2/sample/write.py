"""Write the sample into the data home: three datasets over one folder of pictures.

    HOME/data/sample_images/{ad2,coda,six}/*.jpg
    HOME/data/sample_images/version                      written after the last picture
    HOME/data/sample_{ad2_bench,coda_lm,autodrive_qa}/test/

Several processes may want the sample at once (the ranks of a run): one writes under a file
lock, the others wait and find it done.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmms_eval_ad2 import library
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.library import Manifest
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.sample.questions import BENCHMARKS, shots

GENERATOR = "ad2-sample/2"  # raise it whenever a picture or a record changes
SPLIT = "test"
QUALITY = 92


def dataset_name(benchmark: str) -> str:
    return f"sample_{benchmark}"


def image_root(home: Path | None = None) -> Path:
    return (home or library.home()) / "data" / "sample_images"


def ensure_sample(home: Path | None = None) -> dict[str, Manifest]:
    """The sample's manifests by dataset name; written first where absent or from another generator."""
    found = _present(home)
    return found if found is not None else write_sample(home)


def write_sample(home: Path | None = None) -> dict[str, Manifest]:
    """Draw all pictures and store all records (a few seconds); manifests by dataset name."""
    root = image_root(home)
    root.mkdir(parents=True, exist_ok=True)
    with _alone(root / ".lock") as waited:
        if waited and (done := _present(home)) is not None:
            return done
        (root / "version").unlink(missing_ok=True)
        records: dict[str, list[Record]] = {name: [] for name in BENCHMARKS}
        for shot in shots():
            for path, picture in shot.pictures.items():
                (root / path).parent.mkdir(exist_ok=True)
                picture.image.save(root / path, quality=QUALITY, subsampling=0)
            for name, rows in shot.records.items():
                records[name] += rows
        manifests = {
            dataset_name(b): library.write_dataset(
                dataset_name(b), SPLIT, rows, image_root=root, source={"generator": GENERATOR}, home=home, resume=False
            )
            for b, rows in records.items()
        }
        (root / "version").write_text(GENERATOR + "\n", encoding="utf-8")
        return manifests


def _present(home: Path | None) -> dict[str, Manifest] | None:
    """The stored manifests, if pictures and all three datasets are there and of this generator."""
    root = image_root(home)
    try:
        if (root / "version").read_text(encoding="utf-8").strip() != GENERATOR:
            return None
        datasets = [library.open_dataset(dataset_name(b), SPLIT, home=home) for b in BENCHMARKS]
    except (OSError, Ad2Error):
        return None
    if any(d.image_root != root or d.manifest.source.get("generator") != GENERATOR for d in datasets):
        return None
    return {d.name: d.manifest for d in datasets}


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Hold the lock; yields whether another process had it before us."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            waited = False
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_EX)
            waited = True
        yield waited
