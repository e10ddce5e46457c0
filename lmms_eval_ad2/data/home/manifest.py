"""manifest.json: content, source and hashes of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write_json
from lmms_eval_ad2.storage.untrusted_json import load

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
