"""The annotation folder: its files, creation and opening.

    DIR/annotation.json   metadata (below); written last when the folder is made
    DIR/records.jsonl     the records to annotate, one per line; the folder is self-contained
    DIR/pre.jsonl         drafts of a model (preannotation.py), appended as they arrive
    DIR/replies.sqlite    cached replies of a model endpoint
    DIR/actions.jsonl     actions of the reviewers (review_log.py), appended as they happen

annotation.json: {"schema": "ad2-annotation/1", "source", "split", "n", "sha256" of records.jsonl, "image_root",
"lang", "scale": 5 | 10, "task": "texts" | "questions", "seed": of the sample of questions}. Folders without task and
seed review texts.
"""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate.actions import SCALES
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import LANGS, Lang, Record
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json, file_sha256

SCHEMA = "ad2-annotation/1"
TASKS = TEXTS, QUESTIONS = "texts", "questions"  # review of texts; check of multiple-choice questions
ABOUT, RECORDS = "annotation.json", "records.jsonl"


@dataclass(frozen=True, slots=True)
class AnnotationMetadata:
    """The content of annotation.json."""

    source: str
    split: str
    n: int
    sha256: str
    image_root: Path
    lang: Lang
    scale: int
    task: str = TEXTS
    seed: int = 0


@dataclass(slots=True)
class AnnotationFolder:
    """An opened folder. Records are read from disk one by one; only ids and offsets are in memory."""

    path: Path
    about: AnnotationMetadata
    ids: list[str] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)
    _offsets: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.ids)

    def record(self, number: int) -> Record:
        """Read record `number` (from 0)."""
        with (self.path / RECORDS).open("rb") as handle:
            handle.seek(self._offsets[number])
            return Record.from_json(handle.readline().decode("utf-8"))


def make_folder(path: Path, records: Iterable[Record], about: AnnotationMetadata) -> AnnotationFolder:
    """Write a new folder; `n` and `sha256` of `about` are filled in. Raises Ad2Error if ids repeat or there is none."""
    ids: set[str] = set()
    try:
        with atomic_write(path / RECORDS) as handle:
            for record in records:
                if record.id in ids:
                    raise Ad2Error(f"{about.source}: two records have the id {record.id}; ids must be unique")
                ids.add(record.id)
                handle.write(record.to_json() + "\n")
            if not ids:
                raise Ad2Error(f"{about.source}: no records to annotate")
    except UnicodeEncodeError as exc:
        raise Ad2Error(f"{about.source}: a text is not valid Unicode ({exc.reason})") from exc
    about = dataclasses.replace(about, n=len(ids), sha256=file_sha256(path / RECORDS))
    _save(path, about)
    return open_folder(path)


def relocate(folder: AnnotationFolder, image_root: Path) -> None:
    """Record `image_root` as the new folder of the images."""
    folder.about = dataclasses.replace(folder.about, image_root=image_root)
    _save(folder.path, folder.about)


def is_folder(path: Path) -> bool:
    """Whether `path` is an annotation folder."""
    return (path / ABOUT).is_file()


def open_folder(path: Path) -> AnnotationFolder:
    """Open the folder at `path`. Raises Ad2Error if it is none or its records have changed."""
    if not is_folder(path):
        raise Ad2Error(f"{path} is no annotation folder (no {ABOUT}); make one: ad2 annotate SOURCE --out {path}")
    about = _about(path / ABOUT)
    records = path / RECORDS
    if not records.is_file() or file_sha256(records) != about.sha256:
        raise Ad2Error(f"{records} is not the file that this folder was made with; restore it, or make a new folder")
    folder = AnnotationFolder(path, about)
    offset = 0
    with records.open("rb") as handle:
        for line in handle:
            name = json.loads(line)["id"]
            folder.index[name] = len(folder.ids)
            folder.ids.append(name)
            folder._offsets.append(offset)
            offset += len(line)
    return folder


def _save(path: Path, about: AnnotationMetadata) -> None:
    data = {"schema": SCHEMA, **dataclasses.asdict(about), "image_root": str(about.image_root)}
    atomic_write_json(path / ABOUT, data)


def _about(file: Path) -> AnnotationMetadata:
    data: Any = stream.load_json(file, 1 << 20)
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        raise DataError(file, None, "schema", SCHEMA, data)
    data = {"task": TEXTS, "seed": 0, **data}
    kinds: dict[str, Any] = {"source": str, "split": str, "n": int, "sha256": str, "image_root": str, "lang": str,
                             "scale": int, "task": str, "seed": int}  # fmt: skip
    for name, kind in kinds.items():
        if not isinstance(data.get(name), kind):
            raise DataError(file, None, name, f"a value of type {kind.__name__}", data.get(name))
    if data["task"] not in TASKS:
        raise DataError(file, None, "task", f"one of {', '.join(TASKS)}", data["task"])
    if data["lang"] not in LANGS or data["scale"] not in SCALES:
        raise DataError(file, None, "lang, scale", f"{LANGS} and {tuple(SCALES)}", (data["lang"], data["scale"]))
    return AnnotationMetadata(**{name: data[name] for name in kinds} | {"image_root": Path(data["image_root"])})
