"""manifest.json: what a dataset is, where it came from, and by which hashes to know it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write_json

SCHEMA = "ad2-data/1"


@dataclass(frozen=True, slots=True)
class DatasetPart:
    """One parquet file; `sha256` is of the file, `content` of its records' JSON lines."""

    file: str
    n: int
    sha256: str
    content: str


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """`sha256` is of all records' canonical JSON, a line each: the same data give the same hash, however parted.

    `counts` has the maps task, subtask and form -> number of records. `bad_rows` counts the
    rows skipped (they are listed in bad_rows.jsonl), `left_out` those left out on purpose, by reason.
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
        """Read a folder's manifest; raises FileNotFoundError without one, Ad2Error where it is damaged."""
        path = folder / "manifest.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["schema"] != SCHEMA:
                raise Ad2Error(
                    f"{path}: schema '{data['schema']}', this version reads '{SCHEMA}': import the data again"
                )
            data["parts"] = tuple(DatasetPart(**part) for part in data["parts"])
            return cls(**data)
        except (ValueError, KeyError, TypeError) as exc:
            raise Ad2Error(f"{path} is damaged ({exc}): import the data again") from exc
