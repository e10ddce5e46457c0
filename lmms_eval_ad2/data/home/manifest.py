"""manifest.json: content, source and hashes of a dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write_json, home
from lmms_eval_ad2.storage.untrusted_json import load

# Layout of the data home (storage/home.py).
#
#     HOME/data/<name>/<split>/records-00000.parquet, ...   2,000 records per part
#                              bad_rows.jsonl               only if rows were skipped
#                              manifest.json                written last: a folder without it is not a dataset
#     HOME/data/<name>/.<split>.new/                        unfinished import; progress.json lists the finished parts
#     HOME/data/<name>/.<split>.old/                        previous import, only while it is being replaced
#     HOME/data/<name>/.<split>.lock                        held (flock) by the importing process
#     HOME/images/<name>/<split>/                           images extracted from annotation files (llava format)
#     HOME/image_folders                                    allowed targets of links (image_files.py)
#
# Write order of an import: each part to a temporary name, fsync, rename; then progress.json in the same way; after the
# last part the manifest; then `.new` replaces the split. A process killed between any two of these steps leaves the
# previous dataset or a `.new` folder from which the same command resumes.

__all__ = ["extracted_dir", "home", "split_dir"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def split_dir(name: str, split: str, root: Path | None = None) -> Path:
    """The folder of a dataset's split; raises Ad2Error for a name that could lead out of the data home."""
    for what, text in (("dataset name", name), ("split", split)):
        if not _NAME.fullmatch(text):
            raise Ad2Error(f"{what} '{text}': use letters, digits, '_', '-' and '.', beginning with a letter or digit")
    return (root or home()) / "data" / name / split


def extracted_dir(name: str, root: Path | None = None) -> Path:
    """The folder for images extracted from a release's annotation files, with one subfolder per split."""
    split_dir(name, "any", root)  # checks the name
    return (root or home()) / "images" / name


SCHEMA = "ad2-data/1"


@dataclass(frozen=True, slots=True)
class DatasetPart:
    """One parquet file: `sha256` is the hash of the file, `content` that of its records' JSON lines."""

    file: str
    n: int
    sha256: str
    content: str


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """Description of an imported dataset.

    `sha256` is the hash of all records' canonical JSON lines, so it does not depend on the division into parts.
    `counts`: for task, subtask and form, a map from value to number of records. `bad_rows` counts skipped rows (listed
    in bad_rows.jsonl), `left_out` rows omitted on purpose, by reason.
    """

    name: str
    split: str
    n: int
    sha256: str
    counts: Mapping[str, Mapping[str, int]]
    parts: tuple[DatasetPart, ...]
    image_root: str
    source: Mapping[str, Any]
    version: str
    created: str
    key: str
    bad_rows: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    schema: str = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, folder: Path) -> None:
        atomic_write_json(folder / "manifest.json", self.to_dict())

    @classmethod
    def load(cls, folder: Path) -> DatasetManifest:
        """Read the manifest of a folder; raises FileNotFoundError without one, Ad2Error if it is damaged."""
        path = folder / "manifest.json"
        try:
            data = load(path)
            if data["schema"] != SCHEMA:
                raise Ad2Error(
                    f"{path}: schema '{data['schema']}', this version reads '{SCHEMA}': import the data again"
                )
            data["parts"] = tuple(DatasetPart(**part) for part in data["parts"])
            return cls(**data)
        except (ValueError, KeyError, TypeError) as exc:
            raise Ad2Error(f"{path} is damaged ({exc}): import the data again") from exc
