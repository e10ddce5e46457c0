"""The annotation folder: its files, creation and opening; and the sources of its records.

    DIR/annotation.json   metadata (below); written last when the folder is made
    DIR/records.jsonl     the records to annotate, one per line; the folder is self-contained
    DIR/pre.jsonl         drafts of a model (drafts.py), appended as they arrive
    DIR/replies.sqlite    cached replies of a model endpoint
    DIR/actions.jsonl     actions of the reviewers (review_log.py), appended as they happen

annotation.json: {"schema": "ad2-annotation/1", "source", "split", "n", "sha256" of records.jsonl, "image_root",
"lang", "scale": 5 | 10, "task": "texts" | "questions", "seed": of the sample of questions}. Folders without task and
seed review texts.

A source is a dataset of the data home, a file of Records, or a folder of images.
"""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate.blank_records import ASKS, Selection, blank_records
from lmms_eval_ad2.annotate.question_check import SAMPLE, sampled
from lmms_eval_ad2.annotate.review_log import SCALES
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import LANGS, Lang, Record
from lmms_eval_ad2.data.home import open_dataset
from lmms_eval_ad2.data.home.dataset import splits_of
from lmms_eval_ad2.data.releases import BadRow, OpenedRelease, stream
from lmms_eval_ad2.data.releases.record_rows import open_records
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
    """Return whether `path` is an annotation folder."""
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


@dataclass(frozen=True, slots=True)
class AnnotationSource:
    """Records and the folder of their images. Each call of `records` starts a new pass."""

    name: str
    split: str
    image_root: Path
    records: Callable[[], Iterator[Record]]


@dataclass(frozen=True, slots=True)
class AnnotationRequest:
    """The options of `ad2 annotate`. `split`, `images`, `lang`, `scale`, `sample`, `seed`: None if not given."""

    source: str
    split: str | None = None
    images: Path | None = None
    boxes: Path | None = None
    asks: Sequence[str] = ASKS
    select: Selection = "largest"
    limit: int | None = None
    lang: Lang | None = None
    scale: int | None = None
    check: bool = False
    sample: int | None = None
    seed: int | None = None


def open_source(request: AnnotationRequest) -> AnnotationSource:
    """Open the source of a request. Raises Ad2Error if it does not exist, listing the available splits."""
    path = Path(request.source).expanduser()
    if path.is_dir():
        root = path.resolve()
        return AnnotationSource(
            request.source, "", root, lambda: blank_records(root, request.asks, request.boxes, request.select)
        )
    if path.is_file():
        opened = open_records(path, request.split, request.images)
        return AnnotationSource(request.source, opened.split, opened.image_root, lambda: _good(opened))
    if path.suffix in (".jsonl", ".json") or "/" in request.source:
        raise Ad2Error(f"no such file or folder: {request.source}")
    splits = splits_of(request.source)
    if len(splits) > 1 and not request.split:
        raise Ad2Error(f"{request.source} is imported in several splits: --config split={' | '.join(splits)}")
    dataset = open_dataset(request.source, request.split or (splits[0] if splits else "test"))
    root = request.images or dataset.image_root
    if not root.is_dir():
        raise Ad2Error(f"--images: no such folder: {root}")
    return AnnotationSource(request.source, dataset.split, root.resolve(), dataset.records)


def _good(opened: OpenedRelease) -> Iterator[Record]:
    """Yield the records; raise the error of the first bad row, since a partial set must not be annotated."""
    for item in opened.records():
        if isinstance(item, BadRow):
            raise item.error
        if isinstance(item, Record):
            yield item


def open_or_make(out: Path, request: AnnotationRequest) -> AnnotationFolder:
    """Open the folder at `out`, or make it if it does not exist.

    Raises Ad2Error if it was made with other options.
    """
    if is_folder(out):
        return _reopen(out, request)
    source = open_source(request)
    about = AnnotationMetadata(
        source=source.name, split=source.split, n=0, sha256="", image_root=source.image_root, lang=request.lang or "en",
        scale=request.scale if request.scale is not None else 10,
        task=QUESTIONS if request.check else TEXTS, seed=request.seed or 0,
    )  # fmt: skip

    def records() -> Iterator[Record]:
        return islice(source.records(), request.limit)

    if not request.check:
        return make_folder(out, records(), about)
    return make_folder(out, sampled(records, request.sample or SAMPLE, about.seed), about)


def _reopen(out: Path, request: AnnotationRequest) -> AnnotationFolder:
    folder = open_folder(out)
    about = folder.about
    options = {"SOURCE": (request.source, about.source), "--config split":(request.split, about.split or None),
            "--config lang": (request.lang, about.lang), "--config scale": (request.scale, about.scale),
            "--config seed": (request.seed, about.seed), "--config sample": (request.sample, about.n)}  # fmt: skip
    if request.check != (about.task == QUESTIONS):
        raise Ad2Error(f"{out} was begun {'without' if request.check else 'with'} --check; use another --out")
    for option, (now, before) in options.items():
        if now is not None and now != before:
            raise Ad2Error(f"{out} was begun with {option} {before}, not {now}; use that, or another --out")
    if request.images and request.images.resolve() != about.image_root:
        if not request.images.is_dir():
            raise Ad2Error(f"--images: no such folder: {request.images}")
        relocate(folder, request.images.resolve())
    return folder
