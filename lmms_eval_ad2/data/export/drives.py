"""Training files from collected drives: the rows come from the entry points of `ad2.training_rows`.

OUT.jsonl            rows in ms-swift's format, those of one picture together; written atomically
OUT.training.json    routes, pictures and questions of the folders, see storage/training_card.py; replaced just before
                     OUT.jsonl
OUT.card.json        folders, settings, counts, hashes of the two files above; written last, so that
                     `training.check_row_file` recognises what a killed export leaves
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from lmms_eval_ad2.core import plugins
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.data.export.training import SCHEMA, card_path, set_path
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json, file_sha256
from lmms_eval_ad2.storage.training_card import TrainingSet, write_card


@dataclass(frozen=True, kw_only=True)
class DriveRowSettings:
    """Settings of the rows, see `ad2 export swift --help`.

    asked: questions of a driving prompt. balance, repeat: a frame of a class (action, range of speed) with n frames is
    written (n_most / n) ** balance times, at most `repeat` times; this number is multiplied by that of its folder in
    `times` (empty: 1 for all). unseen_reasons: also driving rows whose reason the picture does not show.
    """

    asked: tuple[str, ...] = ("action",)
    balance: float = 0.5
    repeat: int = 8
    times: tuple[int, ...] = ()
    questions: int = 0
    reasons: bool = False
    unseen_reasons: bool = False
    seed: int = 0
    prompts: Path | None = None


class DriveRowSource(Protocol):
    """An entry of `ad2.training_rows`: `takes` whether a folder is of its kind; `rows` yields rows; `card` describes
    the folders in the card of the training file; `sets` names their routes, pictures and questions."""

    def takes(self, folder: Path) -> bool: ...

    def rows(self, folders: Sequence[Path], settings: DriveRowSettings) -> Iterable[dict[str, Any]]: ...

    def card(self, folders: Sequence[Path]) -> dict[str, Any]: ...

    def sets(self, folders: Sequence[Path]) -> Sequence[TrainingSet]: ...


def export_drives(folders: Sequence[Path], out: Path, settings: DriveRowSettings) -> dict[str, Any]:
    """Write the training file with its card, and return the card. Raises Ad2Error if a folder is of no known kind or
    no row is left."""
    source = _source(folders)
    if settings.times and (len(settings.times) != len(folders) or min(settings.times) < 1):
        raise Ad2Error(
            f"--config times: expected {len(folders)} numbers of at least 1, one for each folder of --drives"
        )
    # Both read the folders, so that a malformed one is refused before a file of an earlier export is replaced.
    drives, sets = source.card(folders), source.sets(folders)
    counts: dict[str, int] = {}
    with atomic_write(out) as file:
        for row in source.rows(folders, settings):
            print(json.dumps(row, ensure_ascii=False), file=file)
            kind = row["id"].partition(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
        if not counts:
            raise Ad2Error(f"{', '.join(map(str, folders))}: no frames to export; ad2 drive collect makes them")
        named = write_card(out.parent, sets, version=__version__, name=set_path(out).name)
    card = {
        "schema": SCHEMA, "format": "ms-swift messages", "file": out.name, "sha256": file_sha256(out),
        "rows": sum(counts.values()), "rows_by_question": counts, "settings": asdict(settings),
        "drives": drives, "training_set": {"file": named.name, "sha256": file_sha256(named)},
        "version": __version__,
    }  # fmt: skip
    atomic_write_json(card_path(out), json.loads(json.dumps(card, default=str)))
    return card


def _source(folders: Sequence[Path]) -> DriveRowSource:
    sources = plugins.loaded(plugins.TRAINING_ROWS)
    for folder in folders:
        if not any(source.takes(folder) for source in sources):
            raise Ad2Error(f"--drives {folder}: no collected drives; ad2 drive collect --out {folder} makes them")
    for source in sources:
        if all(source.takes(folder) for folder in folders):
            return source
    raise Ad2Error("--drives: the folders are of different kinds; export them one by one")
